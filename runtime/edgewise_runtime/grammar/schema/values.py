"""JSON values in their one spelling, and numbers as exact decimals."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

LARGEST = 1.7976931348623157e308
SAFE = (1 << 53) - 1
"""Integers up to here are the same in every language's JSON."""
_INDEX = re.compile("0|[1-9][0-9]{0,9}")
_PLAIN_PLACES = 20
"""Digits after the point that are written without an exponent."""


def spelled(value: Any, *, ordered: bool = False) -> str:
    """A value as ``json.dumps(value, ensure_ascii=False)`` writes it, numbers as shortest decimals;
    with `ordered` names are sorted, so that equal values have equal spellings."""
    match value:
        case Mapping():
            names = sorted(value) if ordered else in_order(value)
            inner = (f"{quoted(n)}: {spelled(value[n], ordered=ordered)}" for n in names)
            return "{" + ", ".join(inner) + "}"
        case list():
            return "[" + ", ".join(spelled(item, ordered=ordered) for item in value) + "]"
        case None | bool():
            return json.dumps(value)
        case int() | float():
            return number(value)
    return quoted(value)


def quoted(text: str) -> str:
    """A text as JSON has it."""
    return json.dumps(text, ensure_ascii=False)


def number(value: int | float) -> str:
    """A number in decimals, without an exponent where that is no longer than it needs to be."""
    digits, places = decimal(value)
    sign = "-" if digits < 0 else ""
    if places == 0:
        return str(digits)
    if places > _PLAIN_PLACES:
        return f"{digits}e-{places}"
    padded = str(abs(digits)).rjust(places + 1, "0")
    return f"{sign}{padded[:-places]}.{padded[-places:]}"


def decimal(value: int | float) -> tuple[int, int]:
    """Digits and how many of them are after the point, of the shortest decimal that is read as the
    number."""
    if isinstance(value, int) or value.is_integer():
        return int(value), 0
    mantissa, _, exponent = repr(value).partition("e")
    whole, _, fraction = mantissa.partition(".")
    fraction = fraction.rstrip("0")
    digits, places = int(whole + fraction), len(fraction) - int(exponent or "0")
    return digits, places


def scaled(value: int | float, places: int, *, up: bool) -> int:
    """A number times ``10 ** places``, rounded up or down."""
    digits, after = decimal(value)
    unit: int = 10 ** abs(places - after)
    if after <= places:
        return digits * unit
    return -(-digits // unit) if up else digits // unit


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def in_order(names: Iterable[str]) -> list[str]:
    """Names as ECMAScript orders an object's: indices first, by their size."""
    return sorted(names, key=lambda name: int(name) if _is_index(name) else 1 << 32)


def _is_index(name: str) -> bool:
    return _INDEX.fullmatch(name) is not None and int(name) < (1 << 32) - 1
