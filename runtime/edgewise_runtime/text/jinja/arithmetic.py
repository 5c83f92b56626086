"""Operators and formats: as in Python, within what both languages count exactly."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from edgewise_runtime.text.jinja.run import MAX_INTEGER, Run, TemplateError, Value
from edgewise_runtime.text.jinja.values import (
    Arguments,
    Marked,
    Undefined,
    finite,
    kind,
    text_of,
)

_ESCAPES = {ord(c): e for c, e in zip("&<>'\"", "&amp; &lt; &gt; &#39; &#34;".split(), strict=True)}


def escaped(run: Run, text: str) -> str:
    run.make(5 * len(text))
    return text.translate(_ESCAPES)


def number(value: Value) -> int | float | None:
    """Return a number, truth values counted as numbers, or None for other values."""
    if isinstance(value, bool):
        return int(value)
    return value if isinstance(value, int | float) else None


def within(value: int | float) -> int | float:
    if isinstance(value, float):
        return finite(value)
    if abs(value) > MAX_INTEGER:
        raise TemplateError("a number is too large")
    return value


def add(run: Run, left: Value, right: Value) -> Value:
    match left, right:
        case (str(), str()):
            run.make(len(left) + len(right))
            return left + right
        case (list(), list()):
            run.items(len(left) + len(right))
            return left + right
        case (tuple(), tuple()):
            run.items(len(left) + len(right))
            return left + right
        case (Marked() | str(), Marked() | str()):
            texts = [
                side.text if isinstance(side, Marked) else escaped(run, str(side))
                for side in (left, right)
            ]
            run.make(sum(map(len, texts)))
            return Marked("".join(texts))
    return _counted("+", left, right, lambda a, b: a + b)


def subtract(run: Run, left: Value, right: Value) -> Value:
    return _counted("-", left, right, lambda a, b: a - b)


def multiply(run: Run, left: Value, right: Value) -> Value:
    for items, times in ((left, right), (right, left)):
        if isinstance(times, int):
            count = max(0, times)
            if isinstance(items, str):
                run.make(len(items) * count)
                return items * count
            if isinstance(items, list):
                run.items(len(items) * count)
                return items * count
            if isinstance(items, tuple):
                run.items(len(items) * count)
                return items * count
    return _counted("*", left, right, lambda a, b: a * b)


def divide(run: Run, left: Value, right: Value) -> Value:
    return _counted("/", left, right, lambda a, b: a / b)


def divide_whole(run: Run, left: Value, right: Value) -> Value:
    return _counted("//", left, right, lambda a, b: a // b)


def remainder(run: Run, left: Value, right: Value) -> Value:
    if isinstance(left, str):
        return percent(run, left, right if isinstance(right, tuple) else (right,))
    return _counted("%", left, right, lambda a, b: a % b)


def power(run: Run, left: Value, right: Value) -> Value:
    base, exponent = number(left), number(right)
    if not isinstance(base, int) or not isinstance(exponent, int) or exponent < 0:
        raise TemplateError("** takes whole numbers, and an exponent that is not negative")
    if abs(base) > 1 and exponent > 53:
        raise TemplateError("a number is too large")
    if abs(base) <= 1:  # the exponent may be large then
        exponent = 2 - exponent % 2 if exponent else 0
    result = 1
    for _ in range(exponent):
        result = int(within(result * base))
    return result


OPERATORS: dict[str, Callable[[Run, Value, Value], Value]] = {
    "+": add,
    "-": subtract,
    "*": multiply,
    "/": divide,
    "//": divide_whole,
    "%": remainder,
    "**": power,
}


def negative(value: Value, sign: int) -> Value:
    known = number(value)
    if known is None:
        raise TemplateError(_unsuited("-" if sign < 0 else "+", value))
    return known * sign


def _counted(
    operator: str,
    left: Value,
    right: Value,
    counted: Callable[[int | float, int | float], int | float],
) -> int | float:
    a, b = number(left), number(right)
    if a is None or b is None:
        raise TemplateError(_unsuited(operator, left, right))
    try:
        return within(counted(a, b))
    except ZeroDivisionError as error:
        raise TemplateError("it divides by zero") from error
    except OverflowError as error:
        raise TemplateError("a number is too large") from error


def _unsuited(operator: str, *operands: Value) -> str:
    said = next((value.said for value in operands if isinstance(value, Undefined)), None)
    return said or f"{operator} does not take {' and '.join(map(kind, operands))}"


_PERCENT = re.compile(r"%(.?)", re.S)
_BRACES = re.compile(r"\{\{|\}\}|\{([A-Za-z_]\w*|[0-9]{1,4})?\}|[{}]", re.A)


def percent(run: Run, form: str, values: Sequence[Value]) -> str:
    """Return what `form % values` gives, for %s, %d and %%."""
    run.look(len(form))
    left = list(reversed(values))

    def written(match: re.Match[str]) -> str:
        letter = match[1]
        if letter == "%":
            return "%"
        if letter not in ("s", "d") or not left:
            raise TemplateError(f"the format {match[0]!r} is not supported, or has no value")
        value = left.pop()
        if letter == "s":
            return run.made(text_of(run, value))
        count = number(value)
        if count is None:
            raise TemplateError(f"%d takes a number, not {kind(value)}")
        return run.made(str(int(count)))

    text = run.made(_PERCENT.sub(written, form))
    if left and not (len(values) == 1 and isinstance(values[0], dict)):
        raise TemplateError("a format has more values than places")
    return text


def braced(run: Run, form: str, arguments: Arguments) -> str:
    """Return what `form.format(...)` gives, for places that are empty, a number or a name."""
    run.look(len(form))
    placed = iter(arguments.placed)
    numbered: set[bool] = set()

    def written(match: re.Match[str]) -> str:
        mark, name = match[0], match[1]
        if mark in ("{{", "}}"):
            return mark[0]
        if mark in ("{", "}"):
            raise TemplateError("a format has a brace or a place that is not supported")
        if name and not name.isdigit():
            value = arguments.named.get(name, _NONE)
        else:
            numbered.add(bool(name))
            at = int(name) if name else -1
            inside = at < len(arguments.placed)
            value = next(placed, _NONE) if not name else arguments.placed[at] if inside else _NONE
        if value is _NONE or len(numbered) > 1:
            raise TemplateError(f"a format has no value for {mark}")
        return run.made(text_of(run, value))

    return run.made(_BRACES.sub(written, form))


_NONE = Undefined("a format has no value")


def joined(run: Run, texts: Sequence[str], between: str = "") -> str:
    run.make(sum(map(len, texts)) + len(between) * max(0, len(texts) - 1))
    return between.join(texts)
