"""The functions that a template finds under their names."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime

from edgewise_runtime.text.jinja.run import Run, TemplateError, Value
from edgewise_runtime.text.jinja.values import (
    REQUIRED,
    Arguments,
    Function,
    Namespace,
    plain_text,
    text_of,
    whole,
)

MAX_RANGE = 100_000
"""As in Jinja's own sandbox."""

_DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
_MONTHS = (
    "January February March April May June July August September October November December".split()
)
_TIMES: Mapping[str, Callable[[datetime], str]] = {
    "Y": lambda t: str(t.year),
    "y": lambda t: f"{t.year % 100:02}",
    "m": lambda t: f"{t.month:02}",
    "B": lambda t: _MONTHS[t.month - 1],
    "b": lambda t: _MONTHS[t.month - 1][:3],
    "d": lambda t: f"{t.day:02}",
    "e": lambda t: f"{t.day:2}",
    "j": lambda t: f"{t.timetuple().tm_yday:03}",
    "A": lambda t: _DAYS[t.weekday()],
    "a": lambda t: _DAYS[t.weekday()][:3],
    "H": lambda t: f"{t.hour:02}",
    "I": lambda t: f"{t.hour % 12 or 12:02}",
    "p": lambda t: "AM" if t.hour < 12 else "PM",
    "M": lambda t: f"{t.minute:02}",
    "S": lambda t: f"{t.second:02}",
    "F": lambda t: f"{t.year}-{t.month:02}-{t.day:02}",
    "T": lambda t: f"{t.hour:02}:{t.minute:02}:{t.second:02}",
    "%": lambda t: "%",
}


def _range(run: Run, given: Arguments) -> Value:
    first, second, third = given.bind("range", start=REQUIRED, stop=None, step=1)
    start, stop = (0, first) if second is None else (first, second)
    numbers = range(
        whole(start, "range"), whole(stop, "range"), whole(third, "range") or _no_step()
    )
    if len(numbers) > MAX_RANGE:
        raise TemplateError(f"a range has {len(numbers):,} numbers; at most {MAX_RANGE:,} are made")
    run.items(len(numbers))
    return list(numbers)


def _no_step() -> int:
    raise TemplateError("the step of a range is not 0")


def _raise(run: Run, given: Arguments) -> Value:
    (message,) = given.bind("raise_exception", message=REQUIRED)
    raise TemplateError(text_of(run, message))


def _dict(run: Run, given: Arguments) -> Value:
    return dict(_named(run, "dict", given))


def _namespace(run: Run, given: Arguments) -> Value:
    values = _named(run, "namespace", given)
    for name in values:
        check_settable(name)
    return Namespace({str(name): value for name, value in values.items()})


def _named(run: Run, name: str, given: Arguments) -> dict[str | int, Value]:
    run.items(2 * len(given.named))
    if len(given.placed) > 1 or not all(isinstance(value, dict) for value in given.placed):
        raise TemplateError(f"{name} takes a dict, and values by name")
    values: dict[str | int, Value] = {}
    for value in given.placed:
        if isinstance(value, dict):
            run.items(2 * len(value))
            values |= value
    return values | given.named


def check_settable(name: object) -> None:
    """Raise TemplateError for a name that no namespace may hold."""
    if not isinstance(name, str) or name.startswith("_"):
        raise TemplateError(f"a namespace cannot hold {str(name)[:40]!r}")


def _strftime(run: Run, given: Arguments) -> Value:
    (form,) = given.bind("strftime_now", format=REQUIRED)

    def written(match: re.Match[str]) -> str:
        part = _TIMES.get(match[2])
        if part is None:
            raise TemplateError(f"strftime_now does not know {match[0]}")
        text = part(run.now)
        return text.lstrip("0 ") or "0" if match[1] else text

    text = plain_text(form, "strftime_now")
    run.make(10 * len(text))
    return re.sub(r"%(-?)(.)", written, text, flags=re.S)


GLOBALS: Mapping[str, Function] = {
    name: Function(name, call)
    for name, call in {
        "range": _range,
        "raise_exception": _raise,
        "dict": _dict,
        "namespace": _namespace,
        "strftime_now": _strftime,
    }.items()
}
