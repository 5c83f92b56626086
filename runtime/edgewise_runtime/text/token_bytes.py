"""The bytes of each token in a text, by which a grammar tells which tokens may come."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Any

from edgewise_runtime.errors import UnsupportedError
from edgewise_runtime.format.reading import shorten
from edgewise_runtime.text.detokenize import word_piece
from edgewise_runtime.text.tokenizer import Tokenizer

_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def token_bytes(
    tokenizer: Tokenizer,
    size: int,
    *,
    shown: tuple[str, ...] = (),
    without: Collection[int] = (),
) -> list[bytes | None]:
    """Return what each token adds to a text that has begun, None for one that no text is made of.

    The first token of a text may lose a space that it begins with; nothing else is said of it here.

    Args:
        size: ids of the model, of which those beyond the tokenizer's stand for nothing.
        shown: special tokens that are part of one of these texts are in texts, others are not.
        without: ids of no text, those that end answers say.

    Raises:
        UnsupportedError: ``unsupported.constraint`` where tokens have no bytes of their own.
    """
    of = bytes_of(tokenizer, shown=shown)
    return [None if token_id in without else of(token_id) for token_id in range(size)]


def bytes_of(tokenizer: Tokenizer, *, shown: tuple[str, ...] = ()) -> Callable[[int], bytes | None]:
    """Return what gives the bytes of one token; arguments and errors as for `token_bytes`."""
    spelled = tokenizer.spelled(shown)
    steps = [_checked(step) for step in spelled.specs]

    def of(token_id: int) -> bytes | None:
        token: str | bytes | None = spelled[token_id]
        return token if token is None or isinstance(token, bytes) else _bytes(token, steps)

    return of


def _bytes(token: str, steps: list[dict[str, Any]]) -> bytes | None:
    for step in steps:
        match step["type"]:
            case "ByteFallback":
                if byte := _BYTE.fullmatch(token):
                    return bytes([int(byte[1], 16)])
            case "Replace":
                token = token.replace(step["pattern"]["String"], step["content"])
            case "Metaspace":
                token = token.replace(step["replacement"], " ")
            case "WordPiece":
                token = word_piece(step, token)
    return token.encode()


def _checked(step: dict[str, Any]) -> dict[str, Any]:
    """A step of a decoder that does to each token what it does to it alone, but to the first."""
    kind = step["type"]
    if kind in ("ByteLevel", "ByteFallback", "Fuse", "Metaspace", "WordPiece"):
        return step
    if kind == "Replace" and step["pattern"].get("String"):
        return step
    # What takes spaces off a text's start takes them off its first token.
    if kind == "Strip" and step["content"] == " " and not step["stop"] and step["start"] <= 1:
        return step
    raise UnsupportedError(
        f"An answer cannot be held to a format with this tokenizer: its decoder's step "
        f"{shorten(step)} does not leave each token its own bytes.",
        remedy="Byte-level and SentencePiece-style tokenizers can (Llama, Qwen, Mistral, Gemma).",
        code="unsupported.constraint",
    )
