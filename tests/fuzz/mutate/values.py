"""Changes to JSON that know what JSON is: a value, a key or a part of the tree is another one."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Any

from tests.fuzz.mutate.texts import STRINGS, damaged

INTS = (
    *(0, 1, -1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 255, 256, 257, 1000),
    *(4095, 4096, 65535, 65536, 10**6, 10**9, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**40),
    *(2**53 - 1, 2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 10**30, 10**308, 10**4000),
)
FLOATS = (0.0, -0.0, 0.5, 1.0, -1.5, 1e-45, 1e-320, 1e16, 3.5e38, 1e300, 2.0**53)
CONSTANTS = (float("nan"), float("inf"), float("-inf"))
OTHERS: tuple[Any, ...] = (None, True, False, [], {}, [[]], [{}], {"": None})

DESCEND = 0.8
"""How likely a walk goes on into what it stands at."""
MANY = (2, 3, 65, 257, 1000, 5000)


def changed(rng: Random, value: Any, strings: Sequence[str] = ()) -> Any:
    """The value with one to three changes at random places; the value itself stays as it is.

    Args:
        strings: what else texts are replaced by, beside `texts.STRINGS`.
    """
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        value = _changed_at(rng, value, partial(hostile, rng, value, strings))
    return value


def written(rng: Random, value: Any) -> bytes:
    """The value as JSON; of one in ten the text is damaged, too."""
    text = json.dumps(value, ensure_ascii=rng.random() < 0.5)
    if rng.random() < 0.1:
        text = damaged(rng, text, WORDS)
    return text.encode("utf-8", "surrogatepass")


WORDS = (
    *('"', "{", "}", "[", "]", ",", ":", "null", "true", "NaN", "-Infinity", "1e999", "-0"),
    *("0x1", "[" * 70, "[" * 100_000, '{"a":' * 70, '{"a":' * 30_000, "9" * 5000, '"\\ud800"'),
    *("\\u0000", "\ufeff", "//", "/**/", "'", "1.0", "00", '"a":1,"a":2,'),
)


def hostile(rng: Random, root: Any, strings: Sequence[str]) -> Any:
    """A value that hardly anybody expects, or a part of the tree."""
    match rng.randrange(12):
        case 0 | 1 | 2:
            return rng.choice((1, 1, -1)) * rng.choice(INTS)
        case 3:
            return rng.choice(FLOATS)
        case 4 | 5 | 6:
            return rng.choice([*STRINGS, *strings, *strings])
        case 7 | 8:
            return rng.choice(OTHERS)
        case 9:
            return rng.choice(CONSTANTS)
        case 10:
            return _part(rng, root)
        case _:
            return _nested(rng, rng.choice((3, 60, 63, 64, 65, 200)))


def _nested(rng: Random, depth: int) -> Any:
    value: Any = rng.choice((0, "a", None))
    for _ in range(depth):
        value = [value] if rng.random() < 0.5 else {"a": value}
    return value


def _part(rng: Random, value: Any) -> Any:
    while isinstance(value, dict | list) and value and rng.random() < DESCEND:
        value = rng.choice(list(value.values()) if isinstance(value, dict) else value)
    return value


def _changed_at(rng: Random, value: Any, other: Callable[[], Any]) -> Any:
    """One change somewhere in the tree; what leads there is copied, the rest is shared."""
    if not isinstance(value, dict | list) or not value:
        return _near(rng, value, other)
    if rng.random() < DESCEND:
        key: Any = rng.choice(list(value)) if isinstance(value, dict) else rng.randrange(len(value))
        copy: Any = value.copy()
        copy[key] = _changed_at(rng, value[key], other)
        return copy
    return _rearranged(rng, value, other)


_MAX_TEXT = 1 << 26
"""Characters of a text that was repeated, at most: more is of no use, and no child has room."""


def _near(rng: Random, value: Any, other: Callable[[], Any]) -> Any:
    """Another value in the place of one, often nearly the same."""
    if rng.random() < 0.4:
        if isinstance(value, bool):
            return not value
        if isinstance(value, int):
            return rng.choice((value - 1, value + 1, -value, 2 * value, value + 64, value << 32))
        if isinstance(value, float):
            return rng.choice(
                (-value, value / 2, value * 1e30, int(value) if abs(value) < 1e9 else 0)
            )
        if isinstance(value, str):
            long = value * min(3000, max(1, _MAX_TEXT // max(1, len(value))))
            return rng.choice(
                (value + "x", value[:-1], value.upper(), value * 2, long, " " + value)
            )
    return other()


def _rearranged(rng: Random, value: Any, other: Callable[[], Any]) -> Any:
    """A list or an object with something more, less or elsewhere in it."""
    if isinstance(value, list):
        items = list(value)
        at = rng.randrange(len(items))
        match rng.randrange(6):
            case 0:
                del items[at]
            case 1:
                items.insert(at, items[at])
            case 2:
                items[at] = other()
            case 3:
                items.insert(at, other())
            case 4:
                items[at], items[0] = items[0], items[at]
            case _:
                items[at : at + 1] = [items[at]] * _times(rng.choice(MANY), items[at])
        return items
    table = dict(value)
    key = rng.choice(list(table))
    match rng.randrange(6):
        case 0:
            del table[key]
        case 1 | 2:
            table[key] = other()
        case 3:
            table[rng.choice(STRINGS)] = table[key] if rng.random() < 0.5 else other()
        case 4:
            another = rng.choice(list(table))
            table[key], table[another] = table[another], table[key]
        case _:
            many = _times(rng.choice(MANY), table[key])
            table |= {f"{key[:60]}{i}": table[key] for i in range(many)}
    return table


def _times(many: int, value: Any) -> int:
    """How often a value can be there, of so many times: what was repeated may have been already,
    and is shared here but not where it is written."""
    room, open_ = _MAX_TEXT // many, [value]
    while open_ and room > 0:
        top = open_.pop()
        room -= 1
        if isinstance(top, str):
            room -= len(top)
        elif isinstance(top, list):
            room -= len(top)
            open_ += top[: max(room, 0)]
        elif isinstance(top, dict):
            room -= sum(map(len, top))
            open_ += list(top.values())[: max(room, 0)]
    return many if room > 0 else 1
