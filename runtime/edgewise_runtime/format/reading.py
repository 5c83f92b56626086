"""Typed reading of JSON that may be hostile: every field is checked before anything uses it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, TypeVar

from edgewise_runtime.errors import EdgewiseError

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,127}")
"""Names of buffers, symbols, kernels and plans: no separators, nothing a path could be made of."""

ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,127}")
"""Ids a person may choose: a bundle's name, a program's id, a layout's name."""

HEX_SHA256 = re.compile(r"[0-9a-f]{64}")

T = TypeVar("T")

MAX_NESTING = 64
"""Lists and objects inside each other at most: every parser has a limit, and these agree."""

LIMIT = 2**53
"""Exclusive bound of every integer read: what a JavaScript number holds exactly."""

PARSED = {b"{": 450, b"[": 130, b",": 60}
"""Bytes of memory that parsing takes at most for each of these in a JSON text, besides its
characters; measured, with keys and texts that are all different."""

WIDE = 6
"""Bytes more that a byte of the text takes where one of its characters is no ASCII: all of them may
then take four, in the text and in what is parsed."""

SPARE = 90 << 20
"""Bytes that parsing may take besides twice those of the text."""


def shorten(value: object, most: int = 80) -> str:
    """The value as an error message quotes it: at most so many characters."""
    try:
        # What is not quoted is not spelled out either: a file's text may be most of the memory.
        text = repr(value[:most] if isinstance(value, str | bytes) else value)
    except (ValueError, RecursionError):
        # An int of thousands of digits or an endlessly nested list has no printable form.
        text = f"<{type(value).__name__}>"
    return text if len(text) <= most else text[: most - 3] + "..."


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f"the key {shorten(key)} appears twice")
            seen.add(key)
    return table


def _no_constant(text: str) -> float:
    raise ValueError(f"{text} is not a JSON number")


def _check_nesting(value: Any) -> None:
    level = [value]
    for _ in range(MAX_NESTING + 1):
        held = [item for item in level if isinstance(item, list | dict)]
        if not held:
            return
        level = [
            child for item in held for child in (item.values() if isinstance(item, dict) else item)
        ]
    raise ValueError(f"more than {MAX_NESTING} levels")


def count_values(data: bytes) -> int:
    """Lists, objects and commas of a JSON text: no list or object has more in it than that.

    Those in strings count, too. Counting takes a thousandth of the time of parsing.
    """
    return data.count(b",") + data.count(b"[") + data.count(b"{")


def memory_of(data: bytes) -> int:
    """Bytes of memory that parsing a JSON text takes at most, besides twice the text."""
    counted = sum(data.count(sign) * size for sign, size in PARSED.items())
    return counted + (0 if data.isascii() else WIDE * len(data))


def parse_json(
    data: bytes,
    where: str,
    error: type[EdgewiseError],
    *,
    what: str = "json",
    remedy: str = "",
    constants: bool = False,
    most: int | None = None,
) -> Any:
    """Parse UTF-8 JSON, refusing duplicate keys and more than 64 levels.

    Args:
        constants: take NaN and infinities too, which Python writes and JSON does not know.
        most: values in it at most, as `count_values` counts them; None where its memory decides.

    Raises:
        error: with the code ``<default_code>.<what>``, or ``<default_code>.size`` for too many
            values, which is known before any of it is parsed, naming `where`.
    """
    found = count_values(data)
    if memory_of(data) > SPARE or (most is not None and found > most):
        limit = "" if most is None else f"; {most:,} are read at most"
        parts = f"{len(data):,} bytes with {found:,} lists, objects and commas"
        message = f"{where} has {parts}, which is too many{limit}."
        raise error(message, remedy=remedy, code=f"{error.default_code}.size")
    try:
        value = json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_no_duplicates,
            parse_constant=None if constants else _no_constant,
        )
        # No list or object is deeper than there are some: most texts need no look at their values.
        if data.count(b"[") + data.count(b"{") > MAX_NESTING:
            _check_nesting(value)
    except (ValueError, RecursionError) as cause:
        message = f"{where} is not valid JSON: {shorten(str(cause))}."
        raise error(message, remedy=remedy, code=f"{error.default_code}.{what}") from cause
    return value


class Fields:
    """One JSON object being read: every getter checks, `done` refuses what nobody asked for.

    Attributes:
        where: what error messages call this object, such as ``plan 'decode', buffer 'x'``.
        error: the class of error raised; codes are ``<its default code>.<what>``.
    """

    def __init__(self, value: object, where: str, error: type[EdgewiseError]) -> None:
        self.where = where
        self.error = error
        self._asked: set[str] = set()
        if not isinstance(value, dict):
            raise self.fail("type", f"expected an object, found {shorten(value)}")
        self._table: dict[str, Any] = value

    def fail(self, what: str, message: str, remedy: str = "") -> EdgewiseError:
        """The error to raise about this object."""
        code = f"{self.error.default_code}.{what}"
        return self.error(f"{self.where}: {message}.", remedy=remedy, code=code)

    def has(self, key: str) -> bool:
        return key in self._table

    def get(self, key: str) -> Any:
        """The raw value of a required key."""
        self._asked.add(key)
        if key not in self._table:
            raise self.fail("missing", f"{key!r} is missing")
        return self._table[key]

    def version(self, expected: int) -> None:
        """Refuse every ``version`` but this one."""
        found = self.get("version")
        if found != expected or type(found) is not int:
            raise self.fail(
                "version",
                f"version {shorten(found)} is not {expected}, the one this runtime reads",
                "Compile the model again with this version of edgewise, or update edgewise.",
            )

    def integer(self, key: str, low: int, high: int) -> int:
        """An integer in ``low..high`` inclusive."""
        value = self.get(key)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.fail("type", f"{key!r} must be an integer, found {shorten(value)}")
        if not low <= value <= high:
            raise self.fail("range", f"{key!r} must be in {low}..{high}, found {shorten(value)}")
        return value

    def flag(self, key: str) -> bool:
        """True or false."""
        value = self.get(key)
        if not isinstance(value, bool):
            raise self.fail("type", f"{key!r} must be true or false, found {shorten(value)}")
        return value

    def text(self, key: str, pattern: re.Pattern[str] | None = None, *, most: int = 256) -> str:
        """A string of at most `most` characters which `pattern`, if given, matches entirely."""
        value = self.get(key)
        if not isinstance(value, str) or len(value) > most:
            raise self.fail("type", f"{key!r} must be a short string, found {shorten(value)}")
        if pattern is not None and not pattern.fullmatch(value):
            raise self.fail("name", f"{key!r} has characters it may not: {shorten(value)}")
        return value

    def choice(self, key: str, allowed: tuple[str, ...]) -> str:
        """A string out of `allowed`."""
        value = self.get(key)
        if not isinstance(value, str) or value not in allowed:
            options = ", ".join(allowed)
            raise self.fail(key, f"{key!r} must be one of {options}, found {shorten(value)}")
        return value

    def items(self, key: str, *, most: int) -> list[Any]:
        """A list of at most `most` items, each still unchecked."""
        value = self.get(key)
        if not isinstance(value, list) or len(value) > most:
            raise self.fail("type", f"{key!r} must be a list of at most {most} items")
        return value

    def integers(self, key: str, low: int, high: int, *, most: int) -> tuple[int, ...]:
        """A list of at most `most` integers, each in ``low..high`` inclusive."""
        items = self.items(key, most=most)
        for item in items:
            if not isinstance(item, int) or isinstance(item, bool) or not low <= item <= high:
                raise self.fail("range", f"{key!r} holds {shorten(item)}, outside {low}..{high}")
        return tuple(items)

    def names(self, key: str, *, most: int, pattern: re.Pattern[str] = NAME) -> tuple[str, ...]:
        """A list of distinct names."""
        found: dict[str, None] = {}
        for item in self.items(key, most=most):
            if not isinstance(item, str) or not pattern.fullmatch(item):
                raise self.fail("name", f"{key!r} holds something that is no name: {shorten(item)}")
            if item in found:
                raise self.fail("duplicate", f"{key!r} names {item!r} twice")
            found[item] = None
        return tuple(found)

    def table(
        self, key: str, *, most: int, pattern: re.Pattern[str] | None = NAME
    ) -> dict[str, Any]:
        """An object of at most `most` entries whose keys match `pattern`."""
        value = self.get(key)
        if not isinstance(value, dict) or len(value) > most:
            raise self.fail("type", f"{key!r} must be an object of at most {most} entries")
        for name in value:
            if not isinstance(name, str) or (pattern is not None and not pattern.fullmatch(name)):
                raise self.fail("name", f"{key!r} holds something that is no name: {shorten(name)}")
        return value

    def nullable(self, key: str, read: Callable[[], T]) -> T | None:
        """None where the key holds null, otherwise what `read` returns."""
        return None if self.get(key) is None else read()

    def done(self) -> None:
        """Refuse keys that no getter asked for."""
        unknown = sorted(str(key) for key in self._table if key not in self._asked)
        if unknown:
            raise self.fail("unknown_field", f"unknown field {shorten(unknown[0])}")
