"""Strings of a schema."""

from __future__ import annotations

from edgewise_runtime.errors import InputError, UnsupportedError
from edgewise_runtime.format.reading import shorten
from edgewise_runtime.grammar.escapes import json_escape
from edgewise_runtime.grammar.nodes import Chars, Choice, Literal, Node, Repeat, Rule, Sequence
from edgewise_runtime.grammar.regex import lower_regex
from edgewise_runtime.grammar.schema.anything import CHARACTER, QUOTE
from edgewise_runtime.grammar.schema.arrays import MAX_LEAST
from edgewise_runtime.grammar.schema.context import Context
from edgewise_runtime.grammar.schema.formats import FORMATS
from edgewise_runtime.grammar.schema.keywords import REFUSED_FORMATS
from edgewise_runtime.grammar.schema.shape import Shape


def string_node(context: Context, shape: Shape) -> Node | None:
    """Strings under a shape; None where there are none."""
    least = max(shape.counts("minLength"), default=0)
    most = min(shape.counts("maxLength"), default=None)
    if least > MAX_LEAST:
        raise shape.refused(f"minLength {least:,}, which is above {MAX_LEAST:,},")
    if most is not None and most < least:
        return None
    patterns = shape.texts("pattern")
    for name in shape.texts("format"):
        if name in REFUSED_FORMATS:
            raise shape.refused(f"the format {shorten(name)}")
        patterns += [FORMATS[name]] if name in FORMATS else []
    if len(patterns) > 1:
        raise shape.refused("more than one pattern or format of the same string")
    if patterns:
        return _of_pattern(shape, patterns[0], least, most)
    if not least and most is None:
        return context.anything("string")
    most = None if most is None else min(most, MAX_LEAST)
    return Sequence((QUOTE, Repeat(CHARACTER, least, most), QUOTE))


def pattern_node(shape: Shape, pattern: str) -> Node:
    """What an expression is found in, as it is written in a string."""
    try:
        return lower_regex(pattern, where="within", escape=json_escape)
    except UnsupportedError as error:
        raise shape.refused(f"a pattern: {error.message} It") from error
    except InputError as error:
        raise shape.document.wrong(shape.place, error.message) from error


def _of_pattern(shape: Shape, pattern: str, least: int, most: int | None) -> Node | None:
    node = pattern_node(shape, pattern)
    inner = lower_regex(pattern, where="within")
    if isinstance(inner, Repeat) and isinstance(node, Repeat) and _length(inner.item) == (1, 1):
        least = max(least, node.least)
        most = _smaller(most, node.most)
        if most is not None and most < least:
            return None
        return Sequence((QUOTE, Repeat(node.item, least, most), QUOTE))
    shortest, longest = _length(inner)
    if shortest < least or (most is not None and (longest is None or longest > most)):
        raise shape.refused("a length beside a pattern or a format that allows others")
    return Sequence((QUOTE, node, QUOTE))


def _smaller(one: int | None, other: int | None) -> int | None:
    return min((each for each in (one, other) if each is not None), default=None)


def _length(node: Node) -> tuple[int, int | None]:
    """The lengths of the shortest and the longest text, None where there is none such."""
    match node:
        case Literal(text):
            return len(text), len(text)
        case Sequence(items):
            lengths = [_length(item) for item in items]
            mosts = [most for _, most in lengths if most is not None]
            return sum(n for n, _ in lengths), sum(mosts) if len(mosts) == len(items) else None
        case Choice(items):
            lengths = [_length(item) for item in items]
            mosts = [most for _, most in lengths if most is not None]
            return min(n for n, _ in lengths), max(mosts) if len(mosts) == len(items) else None
        case Repeat(item, least, most):
            shortest, longest = _length(item)
            endless = most is None or longest is None
            return shortest * least, None if endless else (longest or 0) * (most or 0)
        case Chars() | Rule():
            return 1, 1
