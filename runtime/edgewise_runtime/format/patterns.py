"""Regular expressions that surely take time linear in the text they cut.

The engine behind the tokenizers package tries one way after another, up to ten million of them at
each character. An expression is let into this process where its shape bounds that: its
alternatives are sequences of single characters and small groups, and nothing that comes after the
first unbounded repetition can fail, so that what was scanned is what is matched. Published
tokenizers add one shape, in which characters are scanned twice: ``X*Y`` followed by the
alternative ``X+``, which takes what the first one gave back (``\\s*[\\r\\n]+|\\s+``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod

_LONGEST = 4096
_MOST_WAYS = 64
_NESTED = 4
_CHARACTER = re.compile(
    r"\\(?:[dDsSwWhHrntvfae]|[pP]\{\^?\w{1,64}\}|u[0-9A-Fa-f]{4}|x[0-9A-Fa-f]{2}|[^\w\s])"
    r"|[^\\()\[\]{}|*+?^$]"
)
_IN_CLASS = re.compile(r"\\[^0-9]|[^\\\[\]]")
_REPEATED = re.compile(r"(?:([*+?])|\{(\d{1,4})(?:(,)(\d{0,4}))?\})")
_POSSESSIVE = re.compile(r"(?<=[*+?])\+")
_OPENED = re.compile(r"\((?:\?(i?:|=|!))?")


class _NotPlainError(Exception):
    """Something that is not known here."""


@dataclass(frozen=True, slots=True)
class _Item:
    """Something that is repeated from `least` to `most` times; None is without end."""

    source: str
    least: int = 1
    most: int | None = 1
    ways: int = 1
    fixed: bool = True
    """It is one character, or several of which none is repeated: it matches in one way."""

    def __str__(self) -> str:
        return self.source


_Branch = tuple[_Item, ...]
_WHITE_SPACE = (_Item(r"\s", 1, None), _Item(r"(?!\S)", fixed=False))
"""It gives back one character at most, since the one that it gives back is white space."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """What is known of an expression.

    Attributes:
        linear: it takes time linear in the text.
        longest: characters that a match has at most; None for any number.
        empty: a match may have no characters.
    """

    linear: bool
    longest: int | None
    empty: bool


_UNKNOWN = Pattern(linear=False, longest=None, empty=True)


@lru_cache(maxsize=64)
def read_pattern(source: str) -> Pattern:
    """Return what is known of an expression in Oniguruma's syntax."""
    if len(source) > _LONGEST:
        return _UNKNOWN
    try:
        branches, end = _branches(source, 0, 0)
    except _NotPlainError:
        return _UNKNOWN
    if end != len(source):
        return _UNKNOWN
    followed = zip(branches, (*branches[1:], ()), strict=True)
    linear = all(_settled(branch) or _yields(branch, after) for branch, after in followed)
    lengths = [_longest(branch) for branch in branches]
    known = [length for length in lengths if length is not None]
    return Pattern(
        linear,
        max(known) if len(known) == len(lengths) else None,
        any(all(not item.least or item.source[:2] == "(?" for item in b) for b in branches),
    )


def _longest(branch: _Branch) -> int | None:
    if any(item.most is None for item in branch):
        return None
    return sum((item.most or 0) * len(item.source) for item in branch)


def _settled(branch: _Branch) -> bool:
    """Whether nothing after the first unbounded repetition can fail."""
    if branch == _WHITE_SPACE:
        return True
    endless = next((i for i, item in enumerate(branch) if item.most is None), len(branch))
    rest = branch[endless + 1 :]
    return not any(item.least for item in rest) and _few_ways(branch)


def _yields(branch: _Branch, after: _Branch) -> bool:
    """Whether `branch` is ``P X* Y …``, where ``…`` cannot fail, and `after` ``P X+ …``."""
    start = next((i for i, item in enumerate(branch) if item.most is None), len(branch))
    if start + 1 >= len(branch) or start >= len(after) or branch[:start] != after[:start]:
        return False
    scanned, taken, rest = branch[start], after[start], branch[start + 2 :]
    return (
        (taken.source, taken.most) == (scanned.source, None)
        and not any(item.least for item in rest)
        and branch[start + 1].fixed
        and _few_ways(branch)
        and _settled(after)
    )


def _few_ways(branch: _Branch) -> bool:
    return prod(item.ways for item in branch) <= _MOST_WAYS


def _branches(text: str, at: int, depth: int) -> tuple[list[_Branch], int]:
    """The alternatives from `at` on, and where they end."""
    found: list[_Branch] = []
    items: list[_Item] = []
    while at < len(text) and text[at] != ")":
        if text[at] == "|":
            found.append(tuple(items))
            items, at = [], at + 1
            continue
        item, at = _item(text, at, depth)
        items.append(item)
    return [*found, tuple(items)], at


def _item(text: str, at: int, depth: int) -> tuple[_Item, int]:
    if text[at] == "(":
        item, end = _group(text, at, depth)
    elif text[at] == "[":
        end = _class_end(text, at + 1, 0)
        item = _Item(text[at:end])
    elif character := _CHARACTER.match(text, at):
        item, end = _Item(character.group()), character.end()
    else:
        raise _NotPlainError
    return _repeated(item, text, end)


def _repeated(item: _Item, text: str, at: int) -> tuple[_Item, int]:
    found = _REPEATED.match(text, at)
    if not found:
        return item, at
    sign, low, several, high = found.groups()
    if sign:
        least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}[sign]
    else:
        least = int(low)
        most = least if not several else int(high) if high else None
    end = found.end()
    possessive = _POSSESSIVE.match(text, end)
    end = possessive.end() if possessive else end
    if _REPEATED.match(text, end) or (item.source[:3] in ("(?=", "(?!")):
        raise _NotPlainError  # repeated repetitions, lazy ones
    if most is None and not item.fixed:
        raise _NotPlainError
    if most is not None and (most < least or (most > 1 and not item.fixed) or most > _MOST_WAYS):
        raise _NotPlainError
    ways = item.ways if most is None else item.ways + most - least
    return replace(item, least=least, most=most, ways=ways, fixed=item.fixed), end


def _group(text: str, at: int, depth: int) -> tuple[_Item, int]:
    """A group of bounded alternatives, or what may or may not follow."""
    opened = _OPENED.match(text, at)
    if depth >= _NESTED or not opened or text[opened.end() : opened.end() + 1] == "?":
        raise _NotPlainError
    branches, end = _branches(text, opened.end(), depth + 1)
    if text[end : end + 1] != ")":
        raise _NotPlainError
    if any(item.most is None for branch in branches for item in branch):
        raise _NotPlainError
    ways = sum(prod(item.ways for item in branch) for branch in branches)
    once = all(item.fixed and (item.least, item.most) == (1, 1) for b in branches for item in b)
    fixed = once and len(branches) == 1 and opened.group(1) not in ("=", "!") and branches[0] != ()
    return _Item(text[at : end + 1], ways=ways, fixed=fixed), end + 1


def _class_end(text: str, at: int, depth: int) -> int:
    """Where a class of characters ends; classes within it are allowed, empty ones are not."""
    at += text[at : at + 1] == "^"
    first = at
    while at < len(text):
        if text[at] == "]":
            if at == first:
                raise _NotPlainError
            return at + 1
        if text[at] == "[":
            if depth >= _NESTED:
                raise _NotPlainError
            at = _class_end(text, at + 1, depth + 1)
        elif inside := _IN_CLASS.match(text, at):
            at = inside.end()
        else:
            raise _NotPlainError
    raise _NotPlainError
