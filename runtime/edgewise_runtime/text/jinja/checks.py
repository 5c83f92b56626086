"""Jinja's tests: what `value is name` asks."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from edgewise_runtime.text.jinja.arithmetic import number, remainder
from edgewise_runtime.text.jinja.compare import contains, equal, order, unmarked
from edgewise_runtime.text.jinja.run import Run, TemplateError, Value
from edgewise_runtime.text.jinja.texts import is_like
from edgewise_runtime.text.jinja.values import (
    REQUIRED,
    Arguments,
    Function,
    Loop,
    Marked,
    Stream,
    Undefined,
    text_of,
)


def check(run: Run, name: str, value: Value, given: Arguments) -> bool:
    """Return what the test `name` says of a value."""
    if name in _ALONE:
        given.bind(name)
        return _ALONE[name](run, value)
    if name not in _WITH_ONE:
        raise TemplateError(f"there is no test {name!r}")
    (other,) = given.bind(name, other=REQUIRED)
    return _WITH_ONE[name](run, value, other)


def _left_over(run: Run, value: Value, by: int) -> int | float:
    rest = number(remainder(run, _counted(value), by))
    return 0 if rest is None else rest


def _counted(value: Value) -> int | float:
    known = number(value)
    if known is None:
        raise TemplateError(value.said if isinstance(value, Undefined) else "a test takes a number")
    return known


def _cased(run: Run, value: Value, name: str) -> bool:
    text = text_of(run, value)
    run.look(len(text))
    return is_like(name, text)


def _is_same(run: Run, value: Value, other: Value) -> bool:
    if value is None or isinstance(value, bool) or other is None or isinstance(other, bool):
        return value is other
    raise TemplateError("sameas is only supported for none, true and false")


_ITEMS = (str, Marked, list, tuple, dict, Undefined)
_ALONE: Mapping[str, Callable[[Run, Value], bool]] = {
    "boolean": lambda run, v: isinstance(v, bool),
    "callable": lambda run, v: isinstance(v, Function | Loop | Undefined),
    "defined": lambda run, v: not isinstance(v, Undefined),
    "escaped": lambda run, v: isinstance(v, Marked),
    "even": lambda run, v: _left_over(run, v, 2) == 0,
    "false": lambda run, v: v is False,
    "float": lambda run, v: isinstance(v, float),
    "integer": lambda run, v: isinstance(v, int) and not isinstance(v, bool),
    "iterable": lambda run, v: isinstance(v, (*_ITEMS, Stream)),
    "lower": lambda run, v: _cased(run, v, "islower"),
    "mapping": lambda run, v: isinstance(v, dict),
    "none": lambda run, v: v is None,
    "number": lambda run, v: isinstance(v, int | float),
    "odd": lambda run, v: _left_over(run, v, 2) == 1,
    "sequence": lambda run, v: isinstance(v, _ITEMS),
    "string": lambda run, v: isinstance(v, str | Marked),
    "true": lambda run, v: v is True,
    "undefined": lambda run, v: isinstance(v, Undefined),
    "upper": lambda run, v: _cased(run, v, "isupper"),
}
_WITH_ONE: Mapping[str, Callable[[Run, Value, Value], bool]] = {
    "divisibleby": lambda run, v, other: number(remainder(run, _counted(v), _counted(other))) == 0,
    "in": lambda run, v, other: contains(run, other, v),
    "sameas": lambda run, v, other: _is_same(run, unmarked(v), unmarked(other)),
    **dict.fromkeys(("eq", "equalto", "=="), equal),
    **dict.fromkeys(("ne", "!="), lambda run, v, other: not equal(run, v, other)),
    **dict.fromkeys(("lt", "lessthan", "<"), lambda run, v, other: order(run, v, other) < 0),
    **dict.fromkeys(("le", "<="), lambda run, v, other: order(run, v, other) <= 0),
    **dict.fromkeys(("gt", "greaterthan", ">"), lambda run, v, other: order(run, v, other) > 0),
    **dict.fromkeys(("ge", ">="), lambda run, v, other: order(run, v, other) >= 0),
}
