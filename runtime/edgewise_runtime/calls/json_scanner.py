"""JSON (RFC 8259) that comes in pieces: where a value ends, and where it is none."""

from __future__ import annotations

import re

MAX_DEPTH = 64
"""Arrays and objects in each other; deeper values count as malformed."""

_SPACE = " \t\n\r"
_DIGITS = "0123456789"
_ESCAPES = '"\\/bfnrt'
_HEX = "0123456789abcdefABCDEF"
_PLAIN = re.compile(r'[^"\\\x00-\x1f]*')
_WORDS = {"t": "rue", "f": "alse", "n": "ull"}
_CLOSING = {"{": "}", "[": "]"}
# By what has been read of a number: characters that may follow, and what has been read then.
_NUMBER = {
    "-": (("0", "0"), ("123456789", "1")),
    "0": ((".", "."), ("eE", "e")),
    "1": ((_DIGITS, "1"), (".", "."), ("eE", "e")),
    ".": ((_DIGITS, "f"),),
    "f": ((_DIGITS, "f"), ("eE", "e")),
    "e": (("+-", "s"), (_DIGITS, "x")),
    "s": ((_DIGITS, "x"),),
    "x": ((_DIGITS, "x"),),
}
_WHOLE = "01fx"


class JsonScanner:
    """Reads one JSON value, white space before it included, and nothing after it.

    Attributes:
        done: the value is complete.
        failed: what came is no JSON, or deeper than `MAX_DEPTH`.
    """

    def __init__(self) -> None:
        self.done = False
        self.failed = False
        self._open: list[str] = []
        self._want = "value"  # or first value, key, first key, colon, comma
        self._inside = ""  # or string, escape, hex, word, number
        self._is_key = False
        self._left = ""  # of a word; of \u one character per digit
        self._number = ""

    def push(self, text: str, at: int) -> int:
        """Read on in a text from a place; return the place up to which it was read."""
        while at < len(text) and not (self.done or self.failed):
            if self._inside == "string":
                plain = _PLAIN.match(text, at)
                at = plain.end() if plain else at
                if at == len(text):
                    break
            at += self._step(text[at])
        return at

    def finish(self) -> None:
        """Nothing follows: a number that stands alone is complete."""
        if self._inside == "number" and not self._open and self._number in _WHOLE:
            self.done = True

    def _step(self, character: str) -> int:
        """How many characters were read, 0 or 1."""
        match self._inside:
            case "string":
                return self._in_string(character)
            case "escape":
                return self._in_escape(character)
            case "hex":
                if character not in _HEX:
                    return self._fail()
                self._left = self._left[1:]
                self._inside = "hex" if self._left else "string"
                return 1
            case "word":
                if character != self._left[0]:
                    return self._fail()
                self._left = self._left[1:]
                if not self._left:
                    self._end_value()
                return 1
            case "number":
                return self._in_number(character)
            case _:
                return self._between(character)

    def _in_string(self, character: str) -> int:
        if character == "\\":
            self._inside = "escape"
        elif character != '"':
            return self._fail()
        elif self._is_key:
            self._inside, self._want = "", "colon"
        else:
            self._end_value()
        return 1

    def _in_escape(self, character: str) -> int:
        if character == "u":
            self._inside, self._left = "hex", "0000"
        elif character in _ESCAPES:
            self._inside = "string"
        else:
            return self._fail()
        return 1

    def _in_number(self, character: str) -> int:
        for characters, then in _NUMBER[self._number]:
            if character in characters:
                self._number = then
                return 1
        if self._number not in _WHOLE:
            return self._fail()
        self._end_value()
        return 0

    def _between(self, character: str) -> int:
        want = self._want
        if character in _SPACE:
            return 1
        if character == '"' and want not in ("colon", "comma"):
            self._inside, self._is_key = "string", want in ("key", "first key")
        elif want in ("value", "first value") and character != "]":
            return self._begin_value(character)
        elif want == "colon" and character == ":":
            self._want = "value"
        elif want == "comma" and character == ",":
            self._want = "key" if self._open[-1] == "{" else "value"
        elif (
            want in ("comma", "first key", "first value") and character == _CLOSING[self._open[-1]]
        ):
            self._open.pop()
            self._end_value()
        else:
            return self._fail()
        return 1

    def _begin_value(self, character: str) -> int:
        if character in _CLOSING:
            if len(self._open) == MAX_DEPTH:
                return self._fail()
            self._open.append(character)
            self._want = "first key" if character == "{" else "first value"
        elif character in _WORDS:
            self._inside, self._left = "word", _WORDS[character]
        elif character == "-" or character in _DIGITS:
            self._inside = "number"
            self._number = character if character in "-0" else "1"
        else:
            return self._fail()
        return 1

    def _end_value(self) -> None:
        self._inside, self._want = "", "comma"
        self.done = not self._open

    def _fail(self) -> int:
        self.failed = True
        return 0


def is_json(text: str, begins: str = "") -> bool:
    """Whether a text is one JSON value and nothing else, and begins with certain characters."""
    scanner = JsonScanner()
    end = scanner.push(text, 0)
    scanner.finish()
    return scanner.done and end == len(text) and text.startswith(begins)


def escaped(text: str) -> str:
    """A text as it stands between the quotes of a JSON string."""
    return _BEYOND.sub(lambda found: _SHORT.get(found[0]) or f"\\u{ord(found[0]):04x}", text)


_BEYOND = re.compile(r'["\\\x00-\x1f]')
_SHORT = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
