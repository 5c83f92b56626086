"""Text of a growing list of token ids: linear time, whole characters, equal to decoding at once.

A tokenizer.json states its decoder as a chain of steps over token strings. Each step here is
the same rewriting done one token at a time: it returns what is certain and keeps back what later
tokens may still change, so that the pieces joined are exactly the decoder's text.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from tokenizers import Tokenizer as Backend

from edgewise_runtime.errors import InputError, UnsupportedError
from edgewise_runtime.format.reading import shorten

_Rewrite = Callable[[str], str]


class Step(Protocol):
    """One step of a decoder; `fused` tells that its output is one token in several pieces."""

    fused: bool

    def push(self, token: str) -> list[str]:
        """Take one token (or one piece of a fused one); return what has become certain."""

    def finish(self) -> list[str]:
        """Return what was kept back; no token follows."""


class Spelled(dict[int, Any]):
    """What ids stand for, looked up when they first come, for all streams of a tokenizer.

    The token's bytes where the decoder begins with bytes, else the token; None for one that is left
    out or not in the vocabulary.
    """

    def __init__(self, backend: Backend, skipped: frozenset[str] = frozenset()) -> None:
        """Leave out the tokens `skipped`."""
        self.specs = _specs(backend)
        self._backend = backend
        self._skipped = skipped
        self._in_bytes = bool(self.specs) and self.specs[0]["type"] == "ByteLevel"

    def __missing__(self, token_id: int) -> str | bytes | None:
        if not 0 <= token_id < 1 << 32:
            raise InputError(f"{token_id!r} is not a token id.", code="input.token")
        token = self._backend.id_to_token(token_id)
        if token is None:
            return None  # which may be any number: nothing is kept of it
        spelled = None if token in self._skipped else _raw(token) if self._in_bytes else token
        self[token_id] = spelled
        return spelled


class Detokenizer:
    """Turns ids into text pieces that end on whole characters.

    The pieces of every `push` and of one `finish`, joined, equal the tokenizer's `decode` of all
    ids. Bytes that never become a character are written as U+FFFD, as `decode` does.
    """

    def __init__(
        self,
        backend: Backend,
        skipped: frozenset[str] = frozenset(),
        spelled: Spelled | None = None,
    ) -> None:
        """Leave out the tokens `skipped`; `spelled` is of the same tokenizer and the same tokens.

        Raises UnsupportedError ``unsupported.decoder``.
        """
        self._spelled = Spelled(backend, skipped) if spelled is None else spelled
        steps = _steps(self._spelled.specs)
        first = steps[0] if steps else None
        self._bytes = first if isinstance(first, _ByteLevel) else None
        self._steps = steps if self._bytes is None else steps[1:]

    def push(self, ids: Iterable[int]) -> str:
        """Return the text that `ids` complete; may be empty."""
        found = map(self._spelled.__getitem__, ids)
        if self._bytes is not None:
            tokens = [self._bytes.decode(b"".join(filter(None, found)))]
        else:
            tokens = [token for token in found if token is not None]
        for step in self._steps:
            tokens = [piece for token in tokens for piece in step.push(token)]
        return "".join(tokens)

    def finish(self) -> str:
        """Return the text that was still kept back, once no id follows."""
        tokens: list[str] = [] if self._bytes is None else self._bytes.finish()
        for step in self._steps:
            tokens = [piece for token in tokens for piece in step.push(token)] + step.finish()
        return "".join(tokens)


_PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
_REST = [b for b in range(256) if b not in _PRINTABLE]
_BYTE_OF = {chr(b): b for b in _PRINTABLE} | {chr(256 + i): b for i, b in enumerate(_REST)}
"""GPT-2's alphabet of bytes: printable ones stand for themselves, the rest from U+0100 on."""


def _raw(token: str) -> bytes:
    """The bytes that a byte-level token is spelled for."""
    try:
        return bytes([_BYTE_OF[c] for c in token])
    except KeyError:  # an added token, spelled as it is
        return token.encode()


class _ByteLevel:
    fused = True

    def __init__(self) -> None:
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token: str) -> list[str]:
        return [self.decode(_raw(token))]

    def decode(self, raw: bytes) -> str:
        """Return the characters that bytes complete."""
        return self._utf8.decode(raw)

    def finish(self) -> list[str]:
        return [self._utf8.decode(b"", final=True)]


class _ByteFallback:
    """``<0xE5>`` tokens to bytes. A run that is not UTF-8 becomes one U+FFFD a byte, so a run
    is only certain when it ends."""

    fused = False
    _BYTE = re.compile(r"<0x([0-9A-Fa-f]{2}|\+[0-9A-Fa-f])>")

    def __init__(self) -> None:
        self._run = bytearray()

    def push(self, token: str) -> list[str]:
        byte = self._BYTE.fullmatch(token)
        if byte:
            self._run.append(int(byte[1], 16))
            return []
        return [*self.finish(), token]

    def finish(self) -> list[str]:
        run = bytes(self._run)
        self._run.clear()
        try:
            return [run.decode()] if run else []
        except UnicodeDecodeError:
            return ["\ufffd"] * len(run)


class _Map:
    """A step that rewrites every token alone; the first one may be special."""

    def __init__(self, rest: _Rewrite, first: _Rewrite, fused: bool) -> None:
        self.fused = fused
        self._next, self._rest = first, rest

    def push(self, token: str) -> list[str]:
        rewritten = self._next(token)
        self._next = self._rest
        return [rewritten]

    def finish(self) -> list[str]:
        return []


class _Last:
    """Rewrites every token, the last one in another way: each is certain when another follows."""

    fused = False

    def __init__(self, rest: _Rewrite, last: _Rewrite) -> None:
        self._rest, self._last = rest, last
        self._held: str | None = None

    def push(self, token: str) -> list[str]:
        certain = [] if self._held is None else [self._rest(self._held)]
        self._held = token
        return certain

    def finish(self) -> list[str]:
        certain = [] if self._held is None else [self._last(self._held)]
        self._held = None
        return certain


class _Strip:
    """Takes up to `start` leading and `stop` trailing `content` off one fused token."""

    fused = True

    def __init__(self, content: str, start: int, stop: int) -> None:
        self._content, self._start, self._stop = content, start, stop
        self._held = 0

    def push(self, token: str) -> list[str]:
        if not token:
            return []
        while self._start and token.startswith(self._content):
            token, self._start = token[1:], self._start - 1
        if not token:
            return []
        self._start = 0
        text = self._content * self._held + token
        self._held = min(self._stop, len(text) - len(text.rstrip(self._content)))
        return [text[: len(text) - self._held]]

    def finish(self) -> list[str]:
        return []


def _replace(spec: dict[str, Any], fused: bool) -> Step:
    pattern = spec["pattern"].get("String")
    if not pattern or (fused and len(pattern) > 1):
        raise _unsupported(spec)
    content = str(spec["content"])

    def rewrite(token: str) -> str:
        return token.replace(pattern, content)

    return _Map(rewrite, rewrite, fused)


def _metaspace(spec: dict[str, Any], fused: bool) -> Step:
    if fused:
        raise _unsupported(spec)
    mark = str(spec["replacement"])
    drops = spec.get("prepend_scheme", "always") != "never" and spec.get("add_prefix_space", True)

    def rewrite(token: str) -> str:
        return token.replace(mark, " ")

    def rewrite_first(token: str) -> str:
        return token.replace(mark, "" if drops else " ")

    return _Map(rewrite, rewrite_first, fused=False)


def _strip(spec: dict[str, Any], fused: bool) -> Step:
    content, start, stop = str(spec["content"]), int(spec["start"]), int(spec["stop"])
    if fused:
        return _Strip(content, start, stop)

    def rewrite(token: str) -> str:
        stripper = _Strip(content, start, stop)
        return "".join(stripper.push(token))

    return _Map(rewrite, rewrite, fused=False)


def _fuse(spec: dict[str, Any], fused: bool) -> Step:
    return _Map(str, str, fused=True)


def _byte_level(spec: dict[str, Any], fused: bool) -> Step:
    if fused:
        raise _unsupported(spec)
    return _ByteLevel()


def _byte_fallback(spec: dict[str, Any], fused: bool) -> Step:
    if fused:
        raise _unsupported(spec)
    return _ByteFallback()


def _bpe(spec: dict[str, Any], fused: bool) -> Step:
    suffix = str(spec["suffix"])
    if fused or not suffix:
        raise _unsupported(spec)
    return _Last(lambda token: token.replace(suffix, " "), lambda token: token.replace(suffix, ""))


_CLEANED = (
    (" .", "."),
    (" ?", "?"),
    (" !", "!"),
    (" ,", ","),
    (" ' ", "'"),
    (" n't", "n't"),
    (" 'm", "'m"),
    (" do not", " don't"),
    (" 's", "'s"),
    (" 've", "'ve"),
    (" 're", "'re"),
)
"""What a WordPiece decoder leaves out around English punctuation, in its order."""


def word_piece(spec: dict[str, Any], token: str, *, first: bool = False) -> str:
    """What a WordPiece decoder makes of a token.

    Args:
        first: whether a text begins with it; else it continues a word, or is one of its own.
    """
    if not first:
        prefix = str(spec["prefix"])
        token = token[len(prefix) :] if token.startswith(prefix) else f" {token}"
    if spec["cleanup"]:
        for found, put in _CLEANED:
            token = token.replace(found, put)
    return token


def _word_piece(spec: dict[str, Any], fused: bool) -> Step:
    if fused:
        raise _unsupported(spec)
    return _Map(
        lambda token: word_piece(spec, token),
        lambda token: word_piece(spec, token, first=True),
        fused=False,
    )


def _spaced(spec: dict[str, Any], fused: bool) -> Step:
    return _Map(" {}".format, str, fused=False)


_SPACED = {"type": "between spaces"}

_STEPS: dict[str, Callable[[dict[str, Any], bool], Step]] = {
    "BPEDecoder": _bpe,
    "ByteFallback": _byte_fallback,
    "ByteLevel": _byte_level,
    "Fuse": _fuse,
    "Metaspace": _metaspace,
    "Replace": _replace,
    "Strip": _strip,
    "WordPiece": _word_piece,
    _SPACED["type"]: _spaced,
}


def _specs(backend: Backend) -> list[dict[str, Any]]:
    """The steps of a tokenizer's decoder as its file has them."""
    decoder = backend.decoder
    # Without one the tokenizers package joins tokens with spaces.
    return [_SPACED] if decoder is None else _flat(json.loads(decoder.__getstate__()))


def _steps(specs: Iterable[dict[str, Any]]) -> list[Step]:
    steps: list[Step] = []
    for spec in specs:
        if spec["type"] not in _STEPS:
            raise _unsupported(spec)
        fused = any(step.fused for step in steps)
        steps.append(_STEPS[spec["type"]](spec, fused))
    return steps


def _flat(spec: dict[str, Any]) -> list[dict[str, Any]]:
    if spec["type"] != "Sequence":
        return [spec]
    return [step for part in spec["decoders"] for step in _flat(part)]


def _unsupported(spec: dict[str, Any]) -> UnsupportedError:
    return UnsupportedError(
        f"The tokenizer's decoder step {shorten(spec)} cannot be streamed.",
        remedy="Byte-level, SentencePiece-style and WordPiece decoders can (Llama, Qwen, Mistral, "
        "Gemma, BERT).",
        code="unsupported.decoder",
    )
