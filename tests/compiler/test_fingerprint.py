"""A checkpoint's weights are known by all of their values."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgewise_compiler import fingerprint
from edgewise_compiler.checkpoint import open_checkpoint
from edgewise_compiler.layouts.schemes import linear_schemes
from edgewise_compiler.quantize import find_preset
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


@pytest.mark.parametrize("block", [fingerprint.BLOCK, 1 << 10], ids=["whole", "in pieces"])
def test_one_row_that_differs_makes_other_weights(
    checkpoints: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(fingerprint, "BLOCK", block)
    with open_checkpoint(checkpoints("llama-mha")) as checkpoint:
        schemes = linear_schemes(find_preset("q4"), checkpoint.family.params(checkpoint.model))
        rows, _ = checkpoint.weights.shape(EMBEDDING)
        found = [fingerprint.weights_fingerprint(checkpoint, schemes)]
        for row in (0, 1, rows // 2, rows - 2, rows - 1):
            halved = {EMBEDDING: Scaling(rows=-(np.arange(rows) == row).astype(np.int32))}
            changed = replace(checkpoint, weights=ScaledReader(checkpoint.weights, halved))
            found.append(fingerprint.weights_fingerprint(changed, schemes))
    assert len(set(found)) == len(found)


def test_every_value_is_read_once(checkpoints: Callable[[str], Path]) -> None:
    heard: list[tuple[int, int]] = []
    with open_checkpoint(checkpoints("llama-mha")) as checkpoint:
        schemes = linear_schemes(find_preset("q4"), checkpoint.family.params(checkpoint.model))
        fingerprint.weights_fingerprint(
            checkpoint, schemes, progress=lambda done, total: heard.append((done, total))
        )
        reader = checkpoint.weights
        values = sum(math.prod(reader.shape(name)) for name in reader.names())
    assert heard == sorted(heard)
    assert heard[-1] == (values, values)
