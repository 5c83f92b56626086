"""Whether a value that a schema names holds under other keywords beside it."""

from __future__ import annotations

from typing import Any

from edgewise_runtime.format.reading import shorten
from edgewise_runtime.grammar.schema.keywords import OF_TYPE
from edgewise_runtime.grammar.schema.shape import Shape
from edgewise_runtime.grammar.schema.values import SAFE, is_number, spelled


def named_values(shape: Shape) -> list[Any] | None:
    """The values of `enum` and `const` that all else admits, each once; None where neither is.

    Raises:
        InputError: ``input.schema`` for an `enum` that is no list.
        UnsupportedError: ``unsupported.schema`` for numbers that not all languages read alike, and
            where it cannot be told whether a keyword admits a value.
    """
    lists = [[value] for _, value in shape.said("const")]
    for place, value in shape.said("enum"):
        if not isinstance(value, list):
            raise shape.document.wrong(place, f"enum {shorten(value)} is no list")
        lists.append(value)
    if not lists:
        return None
    tables = [{_key(shape, value): value for value in values} for values in lists]
    first, *rest = tables
    found = [value for key, value in first.items() if all(key in table for table in rest)]
    return [value for value in found if admits(shape, value)]


def _key(shape: Shape, value: Any) -> str:
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, list):
            waiting += each
        elif isinstance(each, dict):
            waiting += each.values()
        elif is_number(each) and abs(each) > SAFE:
            raise shape.refused(f"the number {shorten(each)}, which not all languages read alike,")
    return spelled(value, ordered=True)


def admits(shape: Shape, value: Any) -> bool:
    """Whether a value holds under keywords other than `enum` and `const`."""
    types = shape.types()
    kind = _type_of(value)
    if types is not None and kind not in types and (kind != "integer" or "number" not in types):
        return False
    if isinstance(value, str):
        if shape.has("pattern", "format"):
            raise shape.refused("a pattern or a format beside values that are named")
        least, most = shape.counts("minLength"), shape.counts("maxLength")
        return max(least, default=0) <= len(value) <= min(most, default=len(value))
    if is_number(value):
        return _number_holds(shape, value)
    keywords = OF_TYPE.get(kind, frozenset())
    if shape.has(*keywords):
        raise shape.refused(f"{kind}s that are named beside keywords on {kind}s")
    return True


def _number_holds(shape: Shape, value: int | float) -> bool:
    if shape.has("multipleOf"):
        raise shape.refused("multipleOf beside values that are named")
    return (
        all(value >= bound for bound in shape.numbers("minimum"))
        and all(value > bound for bound in shape.numbers("exclusiveMinimum"))
        and all(value <= bound for bound in shape.numbers("maximum"))
        and all(value < bound for bound in shape.numbers("exclusiveMaximum"))
    )


def _type_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if is_number(value):
        return "integer" if value == int(value) else "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"
