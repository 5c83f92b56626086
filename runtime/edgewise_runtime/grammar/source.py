"""The text of a grammar as tokens, and what is wrong with it by line and column."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from edgewise_runtime.errors import EdgewiseError, InputError, UnsupportedError
from edgewise_runtime.format.reading import shorten
from edgewise_runtime.grammar.ranges import SURROGATES

MAX_LENGTH = 1 << 17
"""Characters of a grammar's text."""
MAX_DEPTH = 60
"""Groups within one another."""
MAX_COUNT = 100_000
"""What is repeated a counted number of times."""

OTHER = "other"
"""The kind of what is of no other kind, which has to be the last of a table."""

_ESCAPE = re.compile(r"x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([^\n])")
_CONTROLS = {"n": 10, "r": 13, "t": 9, "f": 12}
_ITSELF = frozenset("\\\"'[]-^/")


class Token(NamedTuple):
    """A part of a text: its kind (``end`` after the last one), and where it begins."""

    kind: str
    text: str
    at: int


class Source:
    """A text, and its tokens by a table of kinds: the first that matches is taken.

    The table has an expression without groups for each. What is of the kind ``space`` is left out,
    and so is all that comes after something of the kind OTHER, which no syntax takes.

    Raises:
        InputError: ``input.grammar`` for a text that is too long.
    """

    def __init__(self, text: str, kinds: Mapping[str, str]) -> None:
        self._text = text
        self._next = 0
        if len(text) > MAX_LENGTH:
            raise InputError(
                f"A grammar of {len(text):,} characters is longer than {MAX_LENGTH:,}.",
                code="input.grammar",
            )
        self.tokens = self._tokenized(kinds)

    def _tokenized(self, kinds: Mapping[str, str]) -> list[Token]:
        pattern = re.compile("|".join(f"(?P<{kind}>{each})" for kind, each in kinds.items()))
        tokens: list[Token] = []
        for match in pattern.finditer(self._text):
            kind = str(match.lastgroup)
            if kind != "space":
                tokens.append(Token(kind, match[0], match.start()))
            if kind == OTHER:
                break  # nothing is read beyond it; trying on would be quadratic in what has no end
        return [*tokens, Token("end", "", len(self._text))]

    def peek(self, ahead: int = 0) -> Token:
        """The token that comes next, or one after it."""
        return self.tokens[min(self._next + ahead, len(self.tokens) - 1)]

    def take(self) -> Token:
        token = self.peek()
        self._next += 1
        return token

    def takes(self, text: str) -> bool:
        """Whether the next token is this sign, which is taken."""
        taken = self.peek().kind == "sign" and self.peek().text == text
        self._next += taken
        return taken

    def wants(self, kind: str, what: str) -> Token:
        """The next token, which has to be of a kind."""
        token = self.take()
        if token.kind != kind:
            raise self.unexpected(token, what)
        return token

    def _number(self, digits: str, at: int) -> int:
        if len(digits) > 9 or int(digits) > MAX_COUNT:
            raise self.wrong(f"a count beyond {MAX_COUNT:,}", at)
        return int(digits)

    def counts(self, least: str, most: str | None, at: int) -> tuple[int, int | None]:
        """A counted repetition, whose most is `least` where it is None, and no end where empty."""
        first = self._number(least, at)
        last = first if most is None else self._number(most, at) if most else None
        if last is not None and last < first:
            raise self.wrong("a count whose least is above its most", at)
        return first, last

    def characters(self, written: str, at: int) -> list[tuple[int, bool]]:
        """The code points of a text in quotes or brackets, and which of them were escaped."""
        points: list[tuple[int, bool]] = []
        i = 0
        while i < len(written):
            if written[i] == "\\":
                match = _ESCAPE.match(written, i + 1)
                if match is None:
                    raise self.wrong("a backslash at the end", at + i)
                points.append((self._escaped(match, at + i), True))
                i = match.end()
            else:
                points.append((ord(written[i]), False))
                i += 1
        for code, _ in points:
            if code > 0x10FFFF or SURROGATES[0] <= code <= SURROGATES[1]:
                raise self.wrong(f"{code:#x} is no character", at)
        return points

    def _escaped(self, match: re.Match[str], at: int) -> int:
        if digits := match[1] or match[2] or match[3]:
            return int(digits, 16)
        if match[0] in _CONTROLS:
            return _CONTROLS[match[0]]
        if match[0] in _ITSELF:
            return ord(match[0])
        raise self.refused(f"the escape \\{match[0]}", at)

    def unexpected(self, token: Token, wanted: str) -> InputError:
        found = "the end" if token.kind == "end" else shorten(token.text)
        return self.wrong(f"{found} is unexpected, where {wanted} should be", token.at)

    def wrong(self, what: str, at: int) -> InputError:
        return InputError(f"{self._place(at)}: {what}.", code="input.grammar")

    def refused(self, what: str, at: int, remedy: str = "") -> UnsupportedError:
        return UnsupportedError(
            f"{self._place(at)}: {what} is not supported.",
            remedy=remedy,
            code="unsupported.grammar",
        )

    def inside(self, error: EdgewiseError, at: int) -> EdgewiseError:
        """An error in something that the grammar has, with the place of it."""
        said = f"{self._place(at)}: {error.message}"
        return type(error)(said, remedy=error.remedy, code=error.code)

    def _place(self, at: int) -> str:
        line = self._text.count("\n", 0, at) + 1
        column = at - (self._text.rfind("\n", 0, at) + 1) + 1
        return f"Line {line}, column {column} of the grammar"
