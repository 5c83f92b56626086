"""The cpu layout holds the documented bits in the documented order, whatever a linear's sources."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgewise_compiler.layouts import order
from edgewise_compiler.layouts.panels import CPU
from edgewise_compiler.quantize import SCHEMES
from tests.compiler.layouts.linears import (
    SPECS,
    Floats,
    make_sources,
    ordered_rows,
    packed,
    write_tensors,
)


def plain_pack(scheme: str, rows: Floats) -> dict[str, NDArray[Any]]:
    """The layouts spelled out one weight at a time."""
    n, k = rows.shape
    if scheme in ("f32", "f16"):
        weight = np.zeros((n // 16, k, 16), "float32" if scheme == "f32" else "float16")
        for row in range(n):
            for column in range(k):
                weight[row // 16, column, row % 16] = rows[row, column]
        return {"weight": weight}
    limit, offset, per_word = {"q8": (127, 128, 4), "q4": (7, 7, 8)}[scheme]
    words = np.zeros((n // 16, k // per_word, 16), np.uint32)
    scales = np.zeros((n // 16, k // 32, 16), np.float16)
    for row in range(n):
        for group in range(k // 32):
            values = rows[row, group * 32 : group * 32 + 32]
            scale = np.float16(np.abs(values).max() / np.float32(limit))
            scales[row // 16, group, row % 16] = scale
            for i, value in enumerate(values):
                q = int(np.rint(value / np.float32(scale))) if scale > 0 else 0
                u = max(-limit, min(limit, q)) + offset
                column = group * 32 + i
                j = column % per_word
                shift = 8 * j if per_word == 4 else 8 * (j % 4) + 4 * (j // 4)
                words[row // 16, column // per_word, row % 16] |= np.uint32(u << shift)
    return {"weight": words, "scale": scales}


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", SPECS)
@pytest.mark.parametrize("block", [1, 40 * 96, 1 << 18], ids=["smallest", "some", "whole"])
def test_packing_agrees_with_one_weight_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str, name: str, block: int
) -> None:
    monkeypatch.setattr(order, "BLOCK_ELEMENTS", block)
    spec = SPECS[name]
    tensors = make_sources(spec)
    with write_tensors(tmp_path, tensors) as reader:
        found = packed(CPU, SCHEMES[scheme], spec, reader)
    expected = plain_pack(scheme, ordered_rows(spec, tensors, spec.sources))
    for suffix, array in expected.items():
        np.testing.assert_array_equal(found[f"l.{suffix}"], array, strict=True)
    if spec.biases is not None:
        bias = ordered_rows(spec, tensors, spec.biases)
        np.testing.assert_array_equal(found["l.bias"], bias, strict=True)
    assert len(found) == len(expected) + (spec.biases is not None)
