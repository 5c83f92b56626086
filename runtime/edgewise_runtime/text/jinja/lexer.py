"""A template's source as tokens, with white space left out where Jinja leaves it out.

As transformers sets Jinja up: a line break after a tag and white space before one on its line go
(`trim_blocks`, `lstrip_blocks`), and so does a line break at the very end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from edgewise_runtime.text.jinja.run import MAX_INTEGER, TemplateError, Value

MAX_TOKENS = 1 << 16

_NEWLINE = re.compile(r"\r\n|\r")
_OPENING = re.compile(r"\{([{%#])([-+]?)")
_RAW = re.compile(r"\{%[-+]?\s*raw\s*(?:-%\}\s*|%\})")
_END_RAW = re.compile(r"\{%([-+]?)\s*endraw\s*(?:\+%\}|-%\}\s*|%\}\n?)")
_CLOSING = {
    "%": re.compile(r"\+%\}|-%\}\s*|%\}\n?"),
    "{": re.compile(r"-\}\}\s*|\}\}"),
}
_COMMENT_END = re.compile(r"\+#\}|-#\}\s*|#\}\n?")
_SPACE = re.compile(r"\s+")
_TOKEN = re.compile(
    r"""
      (?P<float>
        (?<!\.)[0-9]+(?:_[0-9]+)*(?:\.[0-9]+(?:_[0-9]+)*(?:[eE][-+]?[0-9]+)?|[eE][-+]?[0-9]+))
    | (?P<integer>
        0[bB](?:_?[01])+|0[oO](?:_?[0-7])+|0[xX](?:_?[0-9a-fA-F])+|[1-9](?:_?[0-9])*|0(?:_?0)*)
    | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<text>'[^'\\]*(?:\\.[^'\\]*)*'|"[^"\\]*(?:\\.[^"\\]*)*")
    | (?P<sign>//|\*\*|==|!=|>=|<=|[-+*/%~\[\](){}<>=.:|,])
    """,
    re.X | re.S,
)
_ESCAPE = re.compile(
    r"\\(?:([0-7]{1,3})|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.S
)
_LETTERS = dict(zip("abfnrtv\\'\"\n", [*"\a\b\f\n\r\t\v\\'\"", ""], strict=True))
_PAIRS = {")": "(", "]": "[", "}": "{"}
_MAX_DIGITS = 40


class Token(NamedTuple):
    """A part of a template.

    Attributes:
        kind: ``data open close name sign text number end``.
        value: its text; the value of a text or number; of ``open`` and ``close`` ``%`` or ``{``.
    """

    kind: str
    value: Value
    line: int


class TemplateSyntaxError(TemplateError):
    """A template that is not valid."""

    def __init__(self, said: str, line: int) -> None:
        super().__init__(f"{said} (line {line})")


def tokenize(source: str) -> list[Token]:
    """Return a template's tokens, the last of which is ``end``.

    Raises TemplateSyntaxError, also for more than MAX_TOKENS.
    """
    tokens: list[Token] = []
    for token in _Source(source).tokens():
        tokens.append(token)
        if len(tokens) > MAX_TOKENS:
            raise TemplateSyntaxError(f"it has more than {MAX_TOKENS:,} tokens", token.line)
    return tokens


class _Source:
    def __init__(self, source: str) -> None:
        self._text = _NEWLINE.sub("\n", source).removesuffix("\n")
        self._at = 0
        self._line = 1
        self._line_starts = True

    def tokens(self) -> Iterator[Token]:
        while opening := _OPENING.search(self._text, self._at):
            raw = _RAW.match(self._text, opening.start())
            yield from self._data(opening.start(), opening[2], opening[1] != "{")
            if raw:
                self._advance(raw.end())
                yield from self._raw()
            elif opening[1] == "#":
                self._advance(opening.end())
                self._close(self._found(_COMMENT_END, "comment").end())
            else:
                self._advance(opening.end())
                yield Token("open", opening[1], self._line)
                yield from self._tag(opening[1])
        yield from self._data(len(self._text), "+", False)
        yield Token("end", "the end of the template", self._line)

    def _data(self, end: int, sign: str, strips: bool) -> Iterator[Token]:
        """The text up to a tag, of which what belongs to the tag is left out."""
        text = self._text[self._at : end]
        line = self._line
        self._advance(end)
        if sign == "-":
            text = text.rstrip()
        elif sign != "+" and strips:
            start = text.rfind("\n") + 1
            if (start > 0 or self._line_starts) and text[start:].isspace():
                text = text[:start]
        if text:
            yield Token("data", text, line)

    def _raw(self) -> Iterator[Token]:
        self._line_starts = self._text[self._at - 1] == "\n"
        end = self._found(_END_RAW, "raw block")
        yield from self._data(end.start(), end[1], True)
        self._close(end.end())

    def _tag(self, mark: str) -> Iterator[Token]:
        nested: list[str] = []
        while True:
            if space := _SPACE.match(self._text, self._at):
                self._advance(space.end())
            closing = None if nested else _CLOSING[mark].match(self._text, self._at)
            if closing:
                yield Token("close", mark, self._line)
                self._close(closing.end())
                return
            match = _TOKEN.match(self._text, self._at)
            if match is None:
                left = self._text[self._at : self._at + 1]
                raise self._error(f"{left!r} is unexpected" if left else "a tag has no end")
            kind = str(match.lastgroup)
            if kind == "sign":
                if match[0] in ("(", "[", "{"):
                    nested.append(match[0])
                elif match[0] in _PAIRS and (not nested or nested.pop() != _PAIRS[match[0]]):
                    raise self._error(f"{match[0]!r} is unexpected")
            yield self._token(kind, match[0])
            self._advance(match.end())

    def _token(self, kind: str, text: str) -> Token:
        if kind == "text":
            return Token("text", _ESCAPE.sub(self._unescaped, text[1:-1]), self._line)
        if kind not in ("integer", "float"):
            return Token(kind, text, self._line)
        digits = text.replace("_", "")
        if len(digits) > _MAX_DIGITS:
            raise self._error("a number has too many digits")
        value: int | float = float(digits) if kind == "float" else int(digits, 0)
        if value > MAX_INTEGER and (isinstance(value, int) or value == float("inf")):
            raise self._error(f"the number {digits} is too large")
        return Token("number", value, self._line)

    def _unescaped(self, match: re.Match[str]) -> str:
        octal, *digits, letter = match.groups()
        if letter is not None:
            if letter in "xuUN" or not letter.isascii():
                raise self._error(f"the escape {match[0]!r} is not supported")
            return str(_LETTERS.get(letter, match[0]))
        code = int(octal, 8) if octal else int(next(d for d in digits if d), 16)
        if 0xD800 <= code < 0xE000 or code > 0x10FFFF:
            raise self._error(f"the escape {match[0]!r} is no character")
        return chr(code)

    def _found(self, end: re.Pattern[str], what: str) -> re.Match[str]:
        found = end.search(self._text, self._at)
        if found is None:
            raise self._error(f"a {what} has no end")
        return found

    def _close(self, end: int) -> None:
        self._line_starts = self._text[end - 1] == "\n"
        self._advance(end)

    def _advance(self, end: int) -> None:
        self._line += self._text.count("\n", self._at, end)
        self._at = end

    def _error(self, said: str) -> TemplateSyntaxError:
        return TemplateSyntaxError(said, self._line)
