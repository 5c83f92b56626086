"""The calibration text as token ids: a file of the caller's, or the neutral one kept here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgewise_runtime.errors import CheckpointError, InputError, UnsupportedError, raised_by_rust
from edgewise_runtime.files import storage_errors
from edgewise_runtime.format.reading import shorten
from edgewise_runtime.format.tokenizer import open_tokenizer

NEUTRAL = Path(__file__).parent / "neutral.txt"
"""Prose, instructions, dialogue, tables and code, in several languages, written for this."""

LENGTH = 512
"""Most tokens of one text: what is far away changes second moments little, and attention costs."""

MAX_BYTES = 16 << 20
MAX_TOKENS = 1 << 15
"""Tokens that are used of a longer file. A layer's activations are held for all of them."""

MIN_TOKENS = 64


def calibration_tokens(
    tokenizer: bytes, path: Path = NEUTRAL, *, context: int = LENGTH
) -> NDArray[np.int64]:
    """Token ids of a text, cut into texts of one length, ``[texts, length]``.

    Args:
        tokenizer: a tokenizer.json that could be opened (`checkpoint.open_checkpoint`).
        path: a file in UTF-8.
        context: the most tokens that the model takes.

    Raises:
        InputError: the file is too large, no UTF-8, or too short to say anything.
        CheckpointError: the tokenizer cannot encode it.
        StorageError: the file cannot be read.
    """
    ids = _encode(tokenizer, _read(path))[:MAX_TOKENS]
    if len(ids) < MIN_TOKENS:
        raise InputError(
            f"{path.name} has {len(ids)} tokens; a calibration needs {MIN_TOKENS}.",
            remedy="Give a text of a few thousand words that resembles what the model will read.",
            code="input.calibration",
        )
    texts = -(-len(ids) // min(LENGTH, context))
    length = len(ids) // texts
    return np.array(ids[: texts * length], np.int64).reshape(texts, length)


def _read(path: Path) -> str:
    with storage_errors("read", path):
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise InputError(
                f"{path.name} has {size} bytes; at most {MAX_BYTES} are read.",
                remedy="A few thousand words are enough.",
                code="input.calibration",
            )
        raw = path.read_bytes()
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path.name} is not UTF-8: byte {raw[error.start]:#04x} at {error.start}.",
            remedy="Save it as UTF-8.",
            code="input.calibration",
        ) from error


def _encode(raw: bytes, text: str) -> list[int]:
    opened = open_tokenizer(raw, "tokenizer.json")
    if not opened.rules.linear:
        raise UnsupportedError(
            "The tokenizer cuts text by a regular expression that may take any time: the "
            "calibration text is not given to it.",
            remedy="Compile without --calibrate.",
            code="unsupported.tokenizer",
        )
    try:
        ids: list[int] = opened.backend.encode(text).ids
    except BaseException as error:
        if not raised_by_rust(error):
            raise
        raise CheckpointError(
            f"The tokenizer cannot encode the calibration text: {shorten(str(error), 200)}.",
            remedy="Download tokenizer.json again.",
            code="checkpoint.tokenizer",
        ) from error
    return ids
