"""A checkpoint's weights are known by all of their values."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from edgewise_compiler import fingerprint
from edgewise_compiler.checkpoint import open_checkpoint
from edgewise_compiler.layouts.schemes import linear_schemes
from edgewise_compiler.quantize import find_preset
from edgewise_compiler.weights import open_files
from edgewise_compiler.weights.scaled import ScaledReader, Scaling

EMBEDDING = "model.embed_tokens.weight"


def test_codes_that_came_to_mean_something_else_are_other_weights(
    checkpoints: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_checkpoint(checkpoints("llama-mha")) as checkpoint:
        params = checkpoint.family.params(checkpoint.model)
        schemes = linear_schemes(find_preset("q4"), params)
        before = fingerprint.weights_fingerprint(checkpoint, schemes)
        monkeypatch.setattr(fingerprint, "MEANING", fingerprint.MEANING + 1)
        assert fingerprint.weights_fingerprint(checkpoint, schemes) != before


def identified(folder: Path, scalings: Mapping[str, Scaling] | None = None) -> str:
    with open_checkpoint(folder) as checkpoint:
        schemes = linear_schemes(find_preset("q4"), checkpoint.family.params(checkpoint.model))
        weights = ScaledReader(checkpoint.weights, scalings or {})
        return fingerprint.weights_fingerprint(replace(checkpoint, weights=weights), schemes)


@pytest.mark.parametrize("block", [open_files.BLOCK, 1 << 10], ids=["whole", "in pieces"])
def test_one_row_that_differs_makes_other_weights(
    checkpoints: Callable[[str], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    block: int,
) -> None:
    monkeypatch.setattr(open_files, "BLOCK", block)
    folder = Path(shutil.copytree(checkpoints("llama-mha"), tmp_path / "model"))
    tensors = load_file(folder / "model.safetensors")
    found = [identified(folder)]
    for row in (0, 1, len(tensors[EMBEDDING]) // 2, -2, -1):
        changed = tensors[EMBEDDING].copy()
        changed[row] = 0
        save_file({**tensors, EMBEDDING: changed}, folder / "model.safetensors")
        found.append(identified(folder))
    assert len(set(found)) == len(found)


def test_weights_that_are_scaled_as_they_are_read_are_others(
    checkpoints: Callable[[str], Path],
) -> None:
    folder, ones = checkpoints("llama-mha"), np.ones(64, np.int32)
    found = {
        identified(folder),
        identified(folder, {EMBEDDING: Scaling(rows=ones)}),
        identified(folder, {EMBEDDING: Scaling(columns=ones)}),
        identified(folder, {EMBEDDING: Scaling(columns=-ones)}),
    }
    assert len(found) == 4


def test_progress_is_told_of_every_byte(checkpoints: Callable[[str], Path]) -> None:
    heard: list[tuple[int, int]] = []
    with open_checkpoint(checkpoints("llama-mha")) as checkpoint:
        schemes = linear_schemes(find_preset("q4"), checkpoint.family.params(checkpoint.model))
        fingerprint.weights_fingerprint(
            checkpoint, schemes, progress=lambda done, total: heard.append((done, total))
        )
        reader = checkpoint.weights
        stored = sum(piece.nbytes for name in reader.names() for piece in reader.stored(name))
    assert heard == sorted(heard)
    assert heard[0] == (0, stored)
    assert heard[-1] == (stored, stored)
