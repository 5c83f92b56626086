"""A calibration text becomes token ids in texts of one length, or is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer

from edgewise_compiler.calibrate import text
from edgewise_compiler.calibrate.text import NEUTRAL, calibration_tokens
from edgewise_runtime.errors import CheckpointError, InputError, StorageError


@pytest.fixture
def tokenizer(checkpoints: Callable[[str], Path]) -> bytes:
    return (checkpoints("llama-mha") / "tokenizer.json").read_bytes()


def test_the_neutral_text_is_used_whole(tokenizer: bytes) -> None:
    ids = Tokenizer.from_buffer(tokenizer).encode(NEUTRAL.read_text("utf-8")).ids
    tokens = calibration_tokens(tokenizer)
    texts, length = tokens.shape
    assert 1500 < len(NEUTRAL.read_text("utf-8").split()) < 2500
    assert len(ids) - texts < texts * length <= len(ids)
    assert 256 < length <= 512
    np.testing.assert_array_equal(tokens.reshape(-1), ids[: texts * length])


def test_a_file_of_ones_own_and_a_small_context(tokenizer: bytes, tmp_path: Path) -> None:
    path = tmp_path / "own.txt"
    path.write_text("A few words that are ours. " * 40, "utf-8")
    assert calibration_tokens(tokenizer, path, context=48).shape[1] in range(40, 49)


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        (b"Too short.", InputError, "a calibration needs 64"),
        (b"\xff\xfe" * 400, InputError, "not UTF-8: byte 0xff at 0"),
        (None, StorageError, "own.txt"),
    ],
)
def test_a_useless_file_is_refused(
    tokenizer: bytes, tmp_path: Path, content: bytes | None, error: type[Exception], message: str
) -> None:
    path = tmp_path / "own.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(error, match=message):
        calibration_tokens(tokenizer, path)


def test_a_file_beyond_the_limit_is_refused_unread(
    tokenizer: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text, "MAX_BYTES", 100)
    path = tmp_path / "own.txt"
    path.write_text("x" * 101)
    with pytest.raises(InputError, match="101 bytes; at most 100"):
        calibration_tokens(tokenizer, path)


def test_a_damaged_tokenizer_is_an_error_of_the_checkpoint() -> None:
    with pytest.raises(CheckpointError, match="is not a tokenizer"):
        calibration_tokens(b"{}")
