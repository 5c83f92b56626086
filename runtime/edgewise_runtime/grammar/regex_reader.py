"""Regular expressions as trees: what Python's `re` and ECMAScript both have, meaning the same.

Where the two differ, a set holds what both of them take: ``.`` no line terminator of either's, and
``\\S``, ``[^\\s]`` none of the white space that one of them knows. ``\\d``, ``\\w`` and ``\\s`` are
ASCII's, as ``re.ASCII`` has them, and so are letters whose case is ignored. What only one of them
has, or what is no regular language, is refused by name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn, TypeAlias

from edgewise_runtime.errors import InputError, UnsupportedError
from edgewise_runtime.format.reading import shorten
from edgewise_runtime.grammar.ranges import LAST, SURROGATES, Ranges, others, ranges_of
from edgewise_runtime.grammar.regex_tables import (
    CLASSES,
    CONTROLS,
    DOT,
    GROUPS,
    PUNCTUATION,
    REFUSED_ESCAPES,
    Class,
    same,
)

MAX_LENGTH = 8192
"""Characters of an expression."""
MAX_DEPTH = 60
"""Groups within one another."""
MAX_UNROLLED = 100_000
"""Characters and classes once every counted repetition is written out."""


@dataclass(frozen=True, slots=True)
class Set:
    """One character out of these."""

    ranges: Ranges


@dataclass(frozen=True, slots=True)
class Edge:
    """An anchor: the text's end, or its start."""

    end: bool


@dataclass(frozen=True, slots=True)
class Joined:
    """One part after the other."""

    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Either:
    """One of the parts."""

    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Repeated:
    """A part from `least` to `most` times; None is without end."""

    part: Part
    least: int
    most: int | None


Part: TypeAlias = Set | Edge | Joined | Either | Repeated


_HEX = {
    "x": re.compile("[0-9A-Fa-f]{2}"),
    "u": re.compile(r"[0-9A-Fa-f]{4}|\{[0-9A-Fa-f]{1,6}\}"),
}
_LOW_SURROGATE = re.compile(r"\\u([Dd][C-Fc-f][0-9A-Fa-f]{2})")
_COUNT = re.compile(r"\{([0-9]+)(?:(,)([0-9]*))?\}")
_NO_LEAST = re.compile(r"\{,[0-9]*\}")
_SIMPLE = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_NAME = re.compile("[A-Za-z_][A-Za-z0-9_]{0,63}>")


def read_regex(pattern: str, *, ignore_case: bool = False, dot_all: bool = False) -> Part:
    """The tree of an expression.

    Args:
        ignore_case: ASCII's letters stand for both of their cases.
        dot_all: ``.`` is any character.

    Raises:
        InputError: ``input.regex`` for what is no expression, or is too large.
        UnsupportedError: ``unsupported.regex`` for what is refused by name.
    """
    return _Reader(pattern, ignore_case, dot_all).read()


class _Reader:
    def __init__(self, pattern: str, ignore_case: bool, dot_all: bool) -> None:
        self._text = pattern
        self._at = 0
        self._ignore_case = ignore_case
        self._dot = Set(others(()) if dot_all else DOT)
        self._names: set[str] = set()

    def read(self) -> Part:
        if len(self._text) > MAX_LENGTH:
            self._wrong(f"is longer than {MAX_LENGTH:,} characters")
        part = self._either(0)
        if self._at < len(self._text):
            self._wrong("closes a group that it did not open", self._at)
        if _unrolled(part) > MAX_UNROLLED:
            self._wrong(f"has more than {MAX_UNROLLED:,} characters once its counts are unrolled")
        return part

    def _either(self, depth: int) -> Part:
        if depth > MAX_DEPTH:
            self._wrong(f"has more than {MAX_DEPTH} groups within one another", self._at)
        parts = [self._joined(depth)]
        while self._take("|"):
            parts.append(self._joined(depth))
        return parts[0] if len(parts) == 1 else Either(tuple(parts))

    def _joined(self, depth: int) -> Part:
        parts: list[Part] = []
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            parts.append(self._repeated(depth))
        return parts[0] if len(parts) == 1 else Joined(tuple(parts))

    def _repeated(self, depth: int) -> Part:
        start = self._at
        part = self._atom(depth)
        counts = self._counts()
        if counts is None:
            return part
        if isinstance(part, Edge):
            self._refused("an anchor that is repeated", start)
        self._take("?")  # a lazy one takes the same texts
        if self._take("+"):
            self._refused("a possessive repetition", start)
        second = self._at
        if self._counts() is not None:
            self._wrong("repeats a repetition", second)
        return Repeated(part, *counts)

    def _counts(self) -> tuple[int, int | None] | None:
        sign = self._text[self._at : self._at + 1]
        if sign in _SIMPLE:
            self._at += 1
            return _SIMPLE[sign]
        if sign != "{":
            return None
        match = _COUNT.match(self._text, self._at)
        if match is None:
            if _NO_LEAST.match(self._text, self._at):
                self._refused("a count without its least", self._at)
            return None
        least = _number(match[1])
        most = least if not match[2] else _number(match[3]) if match[3] else None
        if max(least, most or 0) > MAX_UNROLLED:
            self._wrong(f"counts beyond {MAX_UNROLLED:,}", self._at)
        if most is not None and most < least:
            self._wrong("has a count whose least is above its most", self._at)
        self._at = match.end()
        return least, most

    def _atom(self, depth: int) -> Part:
        sign = self._text[self._at]
        start = self._at
        self._at += 1
        if sign == "(":
            return self._group(depth, start)
        if sign == "[":
            return self._set(start)
        if sign == ".":
            return self._dot
        if sign in "^$":
            return Edge(sign == "$")
        if sign in "*+?":
            self._wrong("repeats nothing", start)
        if sign == "{" and (_COUNT.match(self._text, start) or _NO_LEAST.match(self._text, start)):
            self._wrong("repeats nothing", start)
        item = self._escape(start, in_class=False) if sign == "\\" else self._point(sign, start)
        return Set(self._folded(item, start).sure)

    def _group(self, depth: int, start: int) -> Part:
        for mark, what in GROUPS:
            if self._text.startswith(mark, self._at):
                if what == "name":
                    self._at += len(mark)
                    self._name(start)
                elif what is not None:
                    self._refused(what, start)
                else:
                    self._at += len(mark)
                break
        part = self._either(depth + 1)
        if not self._take(")"):
            self._wrong("has a group that is not closed", start)
        return part

    def _name(self, start: int) -> None:
        match = _NAME.match(self._text, self._at)
        if match is None or match[0] in self._names:
            self._wrong("has a group whose name is none, or is another's", start)
        self._names.add(match[0])
        self._at = match.end()

    def _set(self, start: int) -> Part:
        negated = self._take("^")
        if self._text.startswith("]", self._at):
            self._refused("a class that is empty or begins with ]", start)
        sure: list[tuple[int, int]] = []
        perhaps: list[tuple[int, int]] = []
        while not self._take("]"):
            item = self._folded(self._class_item(start), start)
            sure += item.sure
            perhaps += item.perhaps
        found = Class(ranges_of(sure), ranges_of(perhaps))
        ranges = (found.negated() if negated else found).sure
        if not ranges:
            self._wrong("has a class that holds no character", start)
        return Set(ranges)

    def _class_item(self, start: int) -> Class | int | tuple[int, int]:
        first = self._class_point(start)
        follows = self._text[self._at : self._at + 2]
        if not follows.startswith("-") or follows in ("-", "-]"):
            return first
        at = self._at
        self._at += 1
        last = self._class_point(start)
        if isinstance(first, Class) or isinstance(last, Class):
            self._refused("a range from or to a class", at)
        if last < first:
            self._wrong("has a range whose last is before its first", at)
        return first, last

    def _class_point(self, start: int) -> Class | int:
        if self._at >= len(self._text):
            self._wrong("has a class that is not closed", start)
        sign, at = self._text[self._at], self._at
        self._at += 1
        return self._escape(at, in_class=True) if sign == "\\" else self._point(sign, at)

    def _escape(self, start: int, *, in_class: bool) -> Class | int:
        if self._at >= len(self._text):
            self._wrong("ends with a backslash", start)
        sign = self._text[self._at]
        self._at += 1
        if sign in CLASSES:
            return CLASSES[sign]
        if sign in CONTROLS:
            return CONTROLS[sign]
        if sign in _HEX:
            return self._hex(sign, start)
        if sign in PUNCTUATION:
            return ord(sign)
        if in_class and sign == "b":
            return 8
        after = self._text[self._at : self._at + 1]
        if sign == "0" and not (after and after in "0123456789"):
            return 0
        name = REFUSED_ESCAPES.get(sign, f"the escape \\{sign}")
        return self._refused(name, start)

    def _hex(self, sign: str, start: int) -> int:
        match = _HEX[sign].match(self._text, self._at)
        if match is None:
            self._wrong(f"has an escape \\{sign} without its digits", start)
        self._at = match.end()
        code = int(match[0].strip("{}"), 16)
        if code > LAST:
            self._wrong("has an escape beyond the last code point", start)
        high = code >> 10 == SURROGATES[0] >> 10 and "{" not in match[0]
        if high and (low := _LOW_SURROGATE.match(self._text, self._at)):
            self._at = low.end()
            return 0x10000 + ((code & 0x3FF) << 10) + (int(low[1], 16) & 0x3FF)
        return self._code(code, start)

    def _point(self, sign: str, start: int) -> int:
        return self._code(ord(sign), start)

    def _code(self, code: int, start: int) -> int:
        if SURROGATES[0] <= code <= SURROGATES[1]:
            self._wrong("has half of a surrogate pair", start)
        return code

    def _folded(self, item: Class | int | tuple[int, int], start: int) -> Class:
        """What an item holds, letters in both cases where that is asked."""
        if isinstance(item, Class):
            return item
        pair = (item, item) if isinstance(item, int) else item
        if not self._ignore_case:
            return same(ranges_of([pair]))
        if pair[1] > 0x7F:
            self._refused("a character beyond ASCII whose case is ignored", start)
        small, large = _within(pair, 0x61, -0x20), _within(pair, 0x41, 0x20)
        sure = ranges_of([pair, *small, *large])
        # What else becomes a `k` or an `s` by Unicode's rules.
        signs = [(c, c) for letter, c in ((0x6B, 0x212A), (0x73, 0x17F)) if _holds(sure, letter)]
        return Class(sure, ranges_of([*sure, *signs]))

    def _take(self, sign: str) -> bool:
        taken = self._text.startswith(sign, self._at)
        self._at += taken
        return taken

    def _wrong(self, what: str, at: int | None = None) -> NoReturn:
        raise InputError(
            f"The regular expression {shorten(self._text)} {what}{_place(at)}.", code="input.regex"
        )

    def _refused(self, what: str, at: int) -> NoReturn:
        raise UnsupportedError(
            f"The regular expression {shorten(self._text)} has {what}{_place(at)}.",
            remedy="Write it without: what Python and ECMAScript share of regular expressions is "
            "known.",
            code="unsupported.regex",
        )


def _place(at: int | None) -> str:
    return "" if at is None else f", at character {at + 1}"


def _number(digits: str) -> int:
    """A count's value, or one beyond every bound."""
    return int(digits) if len(digits) < 10 else MAX_UNROLLED + 1


def _within(pair: tuple[int, int], first: int, by: int) -> list[tuple[int, int]]:
    """The other case of those letters of a pair that are among the 26 from `first` on."""
    start, end = max(pair[0], first), min(pair[1], first + 25)
    return [(start + by, end + by)] if start <= end else []


def _holds(ranges: Ranges, code: int) -> bool:
    return any(first <= code <= last for first, last in ranges)


def _unrolled(part: Part) -> int:
    """Characters and classes of a part with its counted repetitions written out."""
    match part:
        case Joined(parts) | Either(parts):
            return sum(map(_unrolled, parts)) + 1
        case Repeated(inner, least, most):
            return _unrolled(inner) * max(1, least, most or 0)
    return 1
