"""Linears of every shape, checkpoints for them, and what layouts make of them, as arrays."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgewise_compiler.layouts.base import Layout
from edgewise_compiler.layouts.order import padded_k, padded_rows
from edgewise_compiler.layouts.packing import pack_linear, quantized
from edgewise_compiler.models.base import LinearSpec
from edgewise_compiler.quantize import SCHEMES, AnyScheme
from edgewise_compiler.weights.base import WeightReader
from edgewise_compiler.weights.safetensors import SafetensorsReader
from edgewise_runtime.format.abi import GROUP
from tests.parity.storing import write_safetensors

Floats = NDArray[np.float32]
Arrays = dict[str, NDArray[Any]]

PLAIN = LinearSpec("l", ("a",), (37,), 64)
STACKED = LinearSpec("l", ("a", "b", "c"), (48, 16, 17), 96, ("a.b", "b.b", "c.b"))
INTERLEAVED = LinearSpec("l", ("a", "b"), (40, 40), 48, ("a.b", "b.b"), interleave=True)
EXACT = LinearSpec("l", ("a", "b"), (64, 64), 32, interleave=True)
WIDE = LinearSpec("l", ("a",), (37,), 512)
SPECS = {"plain": PLAIN, "stacked": STACKED, "interleaved": INTERLEAVED, "exact": EXACT}

EACH = [
    (scheme, spec)
    for scheme, found in SCHEMES.items()
    for spec in (SPECS.values() if found.columns == GROUP else (WIDE,))
]
"""Every scheme with the linears that its groups fit."""

each = pytest.mark.parametrize(
    ("scheme", "spec"), EACH, ids=[f"{scheme}-{spec.rows}x{spec.k}" for scheme, spec in EACH]
)


def write_tensors(folder: Path, tensors: Mapping[str, Floats]) -> SafetensorsReader:
    stored = {name: ("F32", values.shape, values.tobytes()) for name, values in tensors.items()}
    write_safetensors(folder / "model.safetensors", stored)
    return SafetensorsReader(folder)


def make_sources(spec: LinearSpec, seed: int = 0) -> dict[str, Floats]:
    """Weights whose groups differ in scale, and biases."""
    rng = np.random.default_rng(seed)
    tensors = {}
    for name, rows in zip(spec.sources, spec.rows, strict=True):
        spread = np.exp2(rng.integers(-8, 4, (rows, 1))).astype(np.float32)
        tensors[name] = rng.standard_normal((rows, spec.k), dtype=np.float32) * spread
    for name, rows in zip(spec.biases or (), spec.rows, strict=spec.biases is not None):
        tensors[name] = rng.standard_normal(rows, dtype=np.float32)
    return tensors


def ordered_rows(
    spec: LinearSpec, tensors: Mapping[str, NDArray[Any]], names: tuple[str, ...]
) -> NDArray[Any]:
    """The packed order of rows, one row at a time; K padded."""
    first = tensors[names[0]]
    rows = np.zeros((padded_rows(spec), *first.shape[1:]), first.dtype)
    position = 0
    for index, name in enumerate(names):
        for r, row in enumerate(tensors[name]):
            if spec.interleave:
                rows[(r // 16 * 2 + index) * 16 + r % 16] = row
            else:
                rows[position] = row
                position += 1
    if rows.shape[1:] == (spec.k,):
        rows = np.pad(rows, ((0, 0), (0, padded_k(spec) - spec.k)))
    return rows


def empty(layout: Layout, scheme: AnyScheme, spec: LinearSpec) -> Arrays:
    """What packing is to fill, full of what it must not leave."""
    tensors = layout.tensors(scheme, spec)
    return {name: np.full(made.shape, 9, made.dtype) for name, made in tensors.items()}


def packed(layout: Layout, scheme: AnyScheme, spec: LinearSpec, reader: WeightReader) -> Arrays:
    out = empty(layout, scheme, spec)
    pack_linear(scheme, spec, reader, quantized(scheme, spec, reader), {layout: out})
    return out


def rows_of(panels: NDArray[Any]) -> NDArray[Any]:
    return np.concatenate([panel.T for panel in panels])


def joined(arrays: Arrays, suffix: str) -> NDArray[Any]:
    """A tensor of the gpu layout whose parts lie one after the other."""
    return np.concatenate([array for name, array in arrays.items() if name.endswith(suffix)])
