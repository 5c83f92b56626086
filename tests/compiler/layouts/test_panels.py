"""The cpu layout holds the documented bits in the documented order, whatever a linear's sources."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgewise_compiler.layouts import order
from edgewise_compiler.layouts.panels import CPU
from edgewise_compiler.models.base import LinearSpec
from edgewise_compiler.quantize import SCHEMES, CodedRows
from tests.compiler.layouts.linears import (
    Floats,
    each,
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
    for row in range(n):
        for column, code in enumerate(coded.codes[row]):
            for word, shift, value in places(bits, column, int(code)):
                words[row // 16, word, row % 16] |= np.uint32(value << shift)
    found = SCHEMES[scheme]
    if found.bytes:
        numbers = unit_and_bytes(coded)
    else:
        numbers = two_levels(coded) if found.columns > 32 else in_turn(coded, found.groups)
    panels = np.ascontiguousarray(numbers.reshape(n // 16, 16, -1).transpose(0, 2, 1))
    return {"weight": words, found.numbers: panels}


def in_turn(coded: CodedRows, names: tuple[str, ...]) -> NDArray[np.float16]:
    """The numbers of one group after the other's."""
    n, groups = coded.groups["scale"].shape
    numbers = np.zeros((n, groups * len(names)), np.float16)
    for group in range(groups):
        for i, name in enumerate(names):
            numbers[:, group * len(names) + i] = coded.groups[name][:, group]
    return numbers


def unit_and_bytes(coded: CodedRows) -> NDArray[np.uint32]:
    """A row's unit, and a byte for each group."""
    n, groups = coded.groups["scale"].shape
    words = np.zeros((n, 1 + (groups + 3) // 4), np.uint32)
    for row in range(n):
        words[row, 0] = coded.groups["unit"].view(np.uint32)[row, 0]
        for group, scale in enumerate(coded.groups["scale"][row]):
            words[row, 1 + group // 4] |= np.uint32((int(scale) & 255) << 8 * (group % 4))
    return words


def two_levels(coded: CodedRows) -> NDArray[np.uint32]:
    """Scales and minima of six bits, and the float16 of eight of each."""
    n, groups = coded.groups["scale"].shape
    words = np.zeros((n, groups // 2), np.uint32)
    for row in range(n):
        for group in range(groups):
            scale, minimum = (int(coded.groups[name][row, group]) for name in ("scale", "min"))
            first, at = group // 8 * 4, 4 * (group % 8)
            high = scale // 16 + minimum // 16 * 4
            for i, four in enumerate((scale % 16, minimum % 16, high)):
                words[row, first + i] += np.uint32(four << at)
        for of_eight in range(groups // 8):
            d, dmin = (
                int(coded.groups[name].view(np.uint16)[row, of_eight]) for name in ("d", "dmin")
            )
            words[row, of_eight * 4 + 3] = d + (dmin << 16)
    return words


def places(bits: int, column: int, code: int) -> list[tuple[int, int, int]]:
    """Where parts of a code lie: a word of its row, how far up in it, and what is there."""
    byte, four = 8 * (column % 4), column // 4
    if bits == 8:
        return [(four, byte, code)]
    if bits == 4:
        return [(four // 2, byte + 4 * (four % 2), code)]
    if bits == 5:
        run = four // 8 * 5
        low = run + four % 8 // 2, byte + 4 * (four % 2), code & 15
        return [low, (run + 4, byte + four % 8, code >> 4)]
    run = four // 4 * 3
    low = run + four // 2 % 2, byte + 4 * (four % 2), code & 15
    return [low, (run + 2, byte + 2 * (four % 4), code >> 4)]


@each
@pytest.mark.parametrize("block", [1, 40 * 96, 1 << 18], ids=["smallest", "some", "whole"])
def test_packing_agrees_with_one_weight_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str, spec: LinearSpec, block: int
) -> None:
    monkeypatch.setattr(order, "BLOCK_ELEMENTS", block)
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
