"""The bytes that each token of a tokenizer adds to a text, by its decoder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from edgewise_runtime.errors import UnsupportedError
from edgewise_runtime.format.reading import shorten
from edgewise_runtime.text.detokenize import BYTE_TOKEN, raw_bytes

Spelling = str | bytes
"""A token, or the bytes that it has turned out to be."""
_Step = Callable[[str], Spelling]
_Spec = Mapping[str, Any]


def bytes_of_tokens(specs: Sequence[_Spec]) -> Callable[[str], bytes]:
    """The bytes of tokens within a text, for a decoder that a `Detokenizer` can stream.

    They are those of a token that is not the text's first: of that, some decoders leave a space
    out.

    Args:
        specs: the decoder's steps (`Spelled.specs`).

    Raises:
        UnsupportedError: ``unsupported.decoder`` for one by which a token's text depends on others.
    """
    before: list[str] = []
    steps: list[_Step] = []
    for spec in specs:
        make = _STEPS.get(spec["type"])
        if make is None:
            raise _refused(spec)
        steps.append(make(spec, before))
        before.append(spec["type"])

    def bytes_of(token: str) -> bytes:
        spelling: Spelling = token
        for step in steps:
            if isinstance(spelling, str):
                spelling = step(spelling)
        return spelling.encode() if isinstance(spelling, str) else spelling

    return bytes_of


def _byte_level(spec: _Spec, before: Sequence[str]) -> _Step:
    return raw_bytes


def _byte_fallback(spec: _Spec, before: Sequence[str]) -> _Step:
    def spelled(token: str) -> Spelling:
        byte = BYTE_TOKEN.fullmatch(token)
        return bytes([int(byte[1], 16)]) if byte else token

    return spelled


def _fuse(spec: _Spec, before: Sequence[str]) -> _Step:
    return str


def _metaspace(spec: _Spec, before: Sequence[str]) -> _Step:
    mark = str(spec["replacement"])
    return lambda token: token.replace(mark, " ")


def _replace(spec: _Spec, before: Sequence[str]) -> _Step:
    pattern = spec["pattern"].get("String")
    # What bytes of several tokens are together might be replaced.
    if not pattern or any(kind != "Replace" for kind in before):
        raise _refused(spec)
    content = str(spec["content"])
    return lambda token: token.replace(pattern, content)


def _strip(spec: _Spec, before: Sequence[str]) -> _Step:
    if "Fuse" not in before or int(spec["stop"]) > 0 or int(spec["start"]) > 1:
        raise _refused(spec)
    return str


_STEPS: dict[str, Callable[[_Spec, Sequence[str]], _Step]] = {
    "ByteFallback": _byte_fallback,
    "ByteLevel": _byte_level,
    "Fuse": _fuse,
    "Metaspace": _metaspace,
    "Replace": _replace,
    "Strip": _strip,
}


def _refused(spec: _Spec) -> UnsupportedError:
    return UnsupportedError(
        f"The text of a token depends on others by the tokenizer's decoder {shorten(spec)}.",
        remedy="Answers of this model cannot follow a grammar.",
        code="unsupported.decoder",
    )
