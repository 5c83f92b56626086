"""Which values are equal, which comes first, and what is in what: as in Python."""

from __future__ import annotations

from edgewise_runtime.text.jinja.run import Run, TemplateError, TemplateLimitError, Value
from edgewise_runtime.text.jinja.values import (
    MAX_NESTED,
    Marked,
    Undefined,
    items_of,
    kind,
    plain_text,
)


def equal(run: Run, left: Value, right: Value, depth: int = 0) -> bool:
    run.spend(1)
    if depth > MAX_NESTED:
        raise TemplateLimitError(f"it compares lists and dicts more than {MAX_NESTED} deep")
    left, right = unmarked(left), unmarked(right)
    match left, right:
        case (str(), str()):
            run.look(min(len(left), len(right)))
            return left == right
        case (int() | float(), int() | float()):
            return left == right
        case (list() as a, list() as b) | (tuple() as a, tuple() as b):
            return len(a) == len(b) and all(
                equal(run, one, other, depth + 1) for one, other in zip(a, b, strict=True)
            )
        case (dict(), dict()):
            return left.keys() == right.keys() and all(
                equal(run, value, right[key], depth + 1) for key, value in left.items()
            )
        case (Undefined(), Undefined()):
            return True
    return left is right


def order(run: Run, left: Value, right: Value, depth: int = 0) -> int:
    """Return a number below, at or above 0, as `left` comes before, with or after `right`."""
    run.spend(1)
    if depth > MAX_NESTED:
        raise TemplateLimitError(f"it compares lists more than {MAX_NESTED} deep")
    left, right = unmarked(left), unmarked(right)
    match left, right:
        case (str(), str()):
            run.look(min(len(left), len(right)))
            return (left > right) - (left < right)
        case (int() | float(), int() | float()):
            return (left > right) - (left < right)
        case (list() as a, list() as b) | (tuple() as a, tuple() as b):
            for one, other in zip(a, b, strict=False):
                if not equal(run, one, other, depth + 1):
                    return order(run, one, other, depth + 1)
            return (len(a) > len(b)) - (len(a) < len(b))
    raise TemplateError(f"{kind(left)} and {kind(right)} have no order")


def contains(run: Run, whole: Value, part: Value) -> bool:
    whole = unmarked(whole)
    if isinstance(whole, str):
        wanted = plain_text(unmarked(part), "looking into text")
        run.look(len(whole), len(wanted))
        return wanted in whole
    if isinstance(whole, dict):
        return key_of(part) in whole
    return any(equal(run, item, part) for item in items_of(run, whole))


def key_of(value: Value) -> str | int | None:
    """Return what a dict knows a value by, or None for a value that is no key of any.

    Raises TemplateError for lists and dicts, which cannot be looked for.
    """
    match unmarked(value):
        case str() as text:
            return text
        case int() as number:
            return int(number)
        case float() as number if number.is_integer():
            return int(number)
        case list() | dict():
            raise TemplateError(f"a {kind(value)} cannot be a key")
    return None


def unmarked(value: Value) -> Value:
    return value.text if isinstance(value, Marked) else value
