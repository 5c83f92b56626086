"""Values in other notations, read into JSON: Python's literals, Gemma's marked strings."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from edgewise_runtime.calls.deltas import CUT, MALFORMED
from edgewise_runtime.calls.json_scanner import MAX_DEPTH, escaped, is_json
from edgewise_runtime.calls.source import SPACE, NotACallError, Reading, Source

_SCALAR = re.compile(r"[0-9A-Za-z_.+\u00a1-\uff5b\uff5d-\U0010ffff-]+")
_LOOSE = re.compile(r"[^,}\]]+")
_DIGITS = "0123456789abcdefABCDEF"
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"', "\n": ""}
_CODES = {"x": 2, "u": 4, "U": 8}
_LAST_CODE = 0x10FFFF


@dataclass(frozen=True)
class Notation:
    """How values are written.

    Attributes:
        quotes: marks that a string stands between.
        escapes: a backslash means something in strings.
        words: JSON of the words that mean something.
        loose: other words are strings.
        bare_keys: keys of objects have no quotes.
    """

    quotes: tuple[str, ...]
    escapes: bool
    words: Mapping[str, str]
    loose: bool
    bare_keys: bool


_JSON_WORDS = {"true": "true", "false": "false", "null": "null"}
PYTHON = Notation(
    quotes=('"', "'"),
    escapes=True,
    words={"True": "true", "False": "false", "None": "null", **_JSON_WORDS},
    loose=False,
    bare_keys=False,
)


def marked(quote: str) -> Notation:
    """Gemma's notation: strings stand between marks of which no string has one."""
    return Notation((quote,), escapes=False, words=_JSON_WORDS, loose=True, bare_keys=True)


Emit = Callable[[str], None]


def keywords(source: Source) -> Reading[None]:
    """Read ``a=1, b="x")``, the arguments of a call in Python behind its parenthesis."""
    yield from _members(source, source.arguments, PYTHON, ")", _keyword, 1)


def members(source: Source, notation: Notation) -> Reading[None]:
    """Read ``{a:1,b:...}``, the arguments of a call in Gemma's notation."""
    yield from source.expect("{")
    yield from _members(source, source.arguments, notation, "}", _key, 1)


def _members(
    source: Source,
    emit: Emit,
    notation: Notation,
    close: str,
    key: Callable[[Source, Notation], Reading[str]],
    depth: int,
) -> Reading[None]:
    emit("{")
    first = True
    while True:
        yield from source.spaces()
        if (yield from source.literal(close)):
            break
        name = yield from key(source, notation)
        emit(f'{"" if first else ", "}"{escaped(name)}": ')
        first = False
        yield from source.spaces()
        yield from _value(source, emit, notation, depth)
        yield from source.spaces()
        if (yield from source.expect(",", close)) == close:
            break
    emit("}")


def _keyword(source: Source, notation: Notation) -> Reading[str]:
    name = yield from source.word()
    yield from source.spaces()
    yield from source.expect("=")
    return name


def _key(source: Source, notation: Notation) -> Reading[str]:
    quote = yield from _quote(source, notation)
    held: list[str] = []
    if quote:
        yield from _string(source, held.append, notation, quote)
    elif notation.bare_keys:
        held.append((yield from source.word()))
    else:
        raise NotACallError
    yield from source.spaces()
    yield from source.expect(":")
    return "".join(held)


def _value(source: Source, emit: Emit, notation: Notation, depth: int) -> Reading[None]:
    if depth > MAX_DEPTH:
        raise NotACallError
    quote = yield from _quote(source, notation)
    if quote:
        emit('"')
        yield from _string(source, lambda text: emit(escaped(text)), notation, quote)
        emit('"')
    elif (yield from source.literal("{")):
        yield from _members(source, emit, notation, "}", _key, depth + 1)
    elif (yield from source.literal("[")):
        yield from _items(source, emit, notation, "]", depth + 1)
    elif (yield from source.literal("(")):
        yield from _items(source, emit, notation, ")", depth + 1)
    else:
        emit((yield from _scalar(source, notation)))


def _items(source: Source, emit: Emit, notation: Notation, close: str, depth: int) -> Reading[None]:
    emit("[")
    first = True
    while True:
        yield from source.spaces()
        if (yield from source.literal(close)):
            break
        emit("" if first else ", ")
        first = False
        yield from _value(source, emit, notation, depth)
        yield from source.spaces()
        if (yield from source.expect(",", close)) == close:
            break
    emit("]")


def _scalar(source: Source, notation: Notation) -> Reading[str]:
    word = yield from source.word(_SCALAR)
    if word in notation.words:
        return notation.words[word]
    if is_json(word):
        return word
    if not notation.loose:
        raise NotACallError
    if (yield from source.peek()) not in (",", "}", "]", ""):
        word += yield from source.word(_LOOSE)
    return f'"{escaped(word.rstrip(SPACE))}"'


def _quote(source: Source, notation: Notation) -> Reading[str]:
    for quote in notation.quotes:
        if (yield from source.literal(quote)):
            return quote
    return ""


def _string(source: Source, emit: Emit, notation: Notation, quote: str) -> Reading[None]:
    marks = (quote, "\\", "\n") if notation.escapes else (quote,)
    while True:
        mark = yield from source.until(marks, emit)
        if mark == quote:
            return
        if mark != "\\":
            raise NotACallError(MALFORMED if mark else CUT)  # Python's strings end in their line
        emit((yield from _escape(source)))


def _escape(source: Source) -> Reading[str]:
    letter = yield from source.peek()
    for short, text in _ESCAPES.items():
        if (yield from source.literal(short)):
            return text
    if letter not in _CODES or not letter:
        return "\\"  # as in Python it stands for itself
    yield from source.expect(letter)
    digits = ""
    for _ in range(_CODES[letter]):
        digits += yield from source.expect(*_DIGITS)
    code = int(digits, 16)
    if code > _LAST_CODE:
        raise NotACallError
    return chr(code)
