"""The tokens of a template, as its grammar reads them."""

from __future__ import annotations

from collections.abc import Sequence

from edgewise_runtime.text.jinja.lexer import TemplateSyntaxError, Token

MAX_NESTING = 60
"""Expressions and blocks within one another: at most six Python frames each."""

CONSTANTS = {
    "true": True,
    "True": True,
    "false": False,
    "False": False,
    "none": None,
    "None": None,
}
RESERVED = frozenset(("not", "and", "or", "in", "is", "if", "else"))


class TokenReader:
    """Tokens one after the other, and what is expected of them."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens
        self.at = 0
        self._nesting = 0

    def peek(self, ahead: int) -> Token:
        """The token after so many others; the last one at the end."""
        return self._tokens[min(self.at + ahead, len(self._tokens) - 1)]

    @property
    def token(self) -> Token:
        return self._tokens[self.at]

    def advance(self) -> Token:
        token = self._tokens[self.at]
        self.at += 1
        return token

    def error(self, said: str) -> TemplateSyntaxError:
        return TemplateSyntaxError(said, self.token.line)

    def enter(self) -> None:
        self._nesting += 1
        if self._nesting > MAX_NESTING:
            raise self.error(f"it nests more than {MAX_NESTING} deep")

    def leave(self) -> None:
        self._nesting -= 1

    def is_sign(self, sign: str) -> bool:
        return self.token.kind == "sign" and self.token.value == sign

    def skip(self, sign: str) -> bool:
        found = self.is_sign(sign)
        self.at += found
        return found

    def sign(self, sign: str) -> None:
        if not self.skip(sign):
            raise self.error(f"{sign!r} is missing before {self.next()}")

    def skip_word(self, word: str) -> bool:
        found = self.token.kind == "name" and self.token.value == word
        self.at += found
        return found

    def word(self, word: str) -> None:
        if not self.skip_word(word):
            raise self.error(f"{word!r} is missing before {self.next()}")

    def name(self, what: str) -> str:
        if self.token.kind != "name":
            raise self.error(f"{what} is missing before {self.next()}")
        return str(self.advance().value)

    def settable(self) -> str:
        name = self.name("a name")
        if name in CONSTANTS or name in RESERVED:
            raise self.error(f"{name} cannot be set")
        return name

    def dotted(self, what: str) -> str:
        name = self.name(what)
        while self.skip("."):
            name += "." + self.name(what)
        return name

    def close(self) -> None:
        if self.token.kind != "close":
            raise self.error(f"{self.next()} is unexpected")
        self.advance()

    def next(self) -> str:
        value = self.token.value
        return "the end of the tag" if self.token.kind == "close" else repr(value)[:40]
