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
    bits = int(SCHEMES[scheme].code.removeprefix("uint"))
    coded = SCHEMES[scheme].quantize(rows.copy())
    words = np.zeros((n // 16, k * bits // 32, 16), np.uint32)
    names = SCHEMES[scheme].groups
    numbers = np.zeros((n // 16, k // 32 * len(names), 16), np.float16)
    for row in range(n):
        for group in range(k // 32):
            for i, name in enumerate(names):
                place = group * len(names) + i
                numbers[row // 16, place, row % 16] = coded.groups[name][row, group]
        for column, code in enumerate(coded.codes[row]):
            for word, shift, value in places(bits, column, int(code)):
                words[row // 16, word, row % 16] |= np.uint32(value << shift)
    return {"weight": words, SCHEMES[scheme].numbers: numbers}


def places(bits: int, column: int, code: int) -> list[tuple[int, int, int]]:
    """Where parts of a code lie: a word of its row, how far up in it, and what is there."""
    byte, four = 8 * (column % 4), column // 4
    if bits == 8:
        return [(four, byte, code)]
    if bits == 4:
        return [(four // 2, byte + 4 * (four % 2), code)]
    run = four // 4 * 3
    low = run + four // 2 % 2, byte + 4 * (four % 2), code & 15
    return [low, (run + 2, byte + 2 * (four % 4), code >> 4)]


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
