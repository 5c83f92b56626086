"""The ``gpu`` weight layout: packed rows one after the other, in pieces that WebGPU can bind.

It holds the same numbers as the ``cpu`` layout, bit for bit; only their order differs. Every tensor
is of 32-bit words, so that no program needs more than WebGPU's core types to read it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgewise_compiler.kernels.gpu.limits import LEAST
from edgewise_compiler.layouts.shards import open_shards
from edgewise_compiler.models.base import LinearSpec, ParamSpec, RotationSpec, VectorSpec
from edgewise_compiler.models.rope import rope_table
from edgewise_compiler.quantize import ArraySpec, Scheme
from edgewise_compiler.quantize.linear import linear_blocks, read_vector
from edgewise_compiler.quantize.panels import bias_vector, padded_k, padded_rows, round_up
from edgewise_compiler.weights.base import WeightReader
from edgewise_runtime.format.abi import GROUP, PANEL
from edgewise_runtime.format.bundle import TensorEntry

MAX_BINDING = LEAST.binding
"""Bytes of a part at most, so that every GPU target can bind it."""

ROW_STEP = 64
"""Rows of a part are a multiple: whole pairs of interleaved panels, whole tiles of a kernel."""

_WORDS = {"f32": 1, "f16": 2, "q8": 4, "q4": 8}  # columns in a word of 32 bits


@dataclass(frozen=True)
class Part:
    """Some rows of a packed linear that are bound together: buffer name, first row, rows."""

    name: str
    first: int
    rows: int


def linear_parts(scheme: Scheme, spec: LinearSpec) -> tuple[Part, ...]:
    """How a linear is split so that no part's weights exceed one binding."""
    total = padded_rows(spec)
    most = MAX_BINDING // (padded_k(spec) // _WORDS[scheme.name] * 4)
    count = -(-total // max(ROW_STEP, most // ROW_STEP * ROW_STEP))
    if count == 1:
        return (Part(spec.name, 0, total),)
    step = round_up(-(-total // count), ROW_STEP)
    starts = range(0, total, step)
    return tuple(Part(f"{spec.name}.{i}", s, min(step, total - s)) for i, s in enumerate(starts))


def gpu_specs(scheme: Scheme, params: tuple[ParamSpec, ...], context: int) -> dict[str, ArraySpec]:
    """Dtype and shape of every tensor of the layout, by buffer name."""
    specs: dict[str, ArraySpec] = {}
    for param in params:
        if isinstance(param, LinearSpec):
            specs |= _linear_specs(scheme, param)
        elif isinstance(param, RotationSpec):
            specs[param.name] = ArraySpec("float32", (context, 2, param.width // 2))
        elif (norm := _qk_norm(param)) is not None:
            specs[norm] = ArraySpec("float32", (2, param.size))
        else:
            specs[f"{param.name}.weight"] = ArraySpec("float32", (param.size,))
    return specs


def _linear_specs(scheme: Scheme, spec: LinearSpec) -> dict[str, ArraySpec]:
    k = padded_k(spec)
    word = "float32" if scheme.name == "f32" else "uint32"
    specs: dict[str, ArraySpec] = {}
    for part in linear_parts(scheme, spec):
        words = k // _WORDS[scheme.name]
        specs[f"{part.name}.weight"] = ArraySpec(word, (part.rows, words))
        if "scale" in scheme.arrays(1, GROUP):
            specs[f"{part.name}.scale"] = ArraySpec("uint32", (part.rows * k // GROUP // 2,))
        if spec.biases is not None:
            specs[f"{part.name}.bias"] = ArraySpec("float32", (part.rows,))
    return specs


def linear_widths_of(params: tuple[ParamSpec, ...]) -> dict[str, int]:
    """Output columns of each packed linear, padding included."""
    return {p.name: padded_rows(p) for p in params if isinstance(p, LinearSpec)}


def pack_gpu_layout(
    folder: Path,
    prefix: str,
    scheme: Scheme,
    params: tuple[ParamSpec, ...],
    specs: Mapping[str, ArraySpec],
    reader: WeightReader,
    progress: Callable[[int, int], None],
) -> Mapping[str, TensorEntry]:
    """Read, quantize and write every parameter; see `layout.pack_layout`."""
    with open_shards(folder, prefix, specs) as shards:
        for done, param in enumerate(params):
            progress(done, len(params))
            if isinstance(param, LinearSpec):
                _pack_linear(scheme, param, reader, shards.arrays)
            elif isinstance(param, RotationSpec):
                context = specs[param.name].shape[0]
                shards.arrays[param.name][:] = rope_table(param.rope, param.width, context)
            elif (norm := _qk_norm(param)) is not None:
                shards.arrays[norm][int(param.name.endswith(".k_norm"))] = read_vector(
                    param, reader
                )
            else:
                shards.arrays[f"{param.name}.weight"][:] = read_vector(param, reader)
        progress(len(params), len(params))
        return shards.entries


def _qk_norm(param: VectorSpec) -> str | None:
    """Both norms of a layer's heads lie in one tensor: kernels have few bindings."""
    prefix, _, last = param.name.rpartition(".")
    return f"{prefix}.qk_norm.weight" if last in ("q_norm", "k_norm") else None


def _pack_linear(
    scheme: Scheme, spec: LinearSpec, reader: WeightReader, out: Mapping[str, NDArray[Any]]
) -> None:
    parts = linear_parts(scheme, spec)
    groups = padded_k(spec) // GROUP
    for first, block in linear_blocks(scheme, spec, reader):
        weight = _rows(block[f"{spec.name}.weight"])
        start = first * PANEL
        for part, inside, taken in _overlaps(parts, start, len(weight)):
            target = out[f"{part.name}.weight"]
            rows = np.ascontiguousarray(weight[taken])
            target[inside] = rows.view(target.dtype)
            if f"{spec.name}.scale" in block:
                halves = out[f"{part.name}.scale"].view(np.float16).reshape(part.rows, groups)
                halves[inside] = _rows(block[f"{spec.name}.scale"])[taken]
    bias = bias_vector(spec, reader)
    if bias is not None:
        for part in parts:
            out[f"{part.name}.bias"][:] = bias[part.first : part.first + part.rows]


def _rows(panels: NDArray[Any]) -> NDArray[Any]:
    """Panels ``[p, columns, 16]`` as rows ``[16 p, columns]``."""
    return panels.transpose(0, 2, 1).reshape(-1, panels.shape[1])


def _overlaps(
    parts: tuple[Part, ...], start: int, count: int
) -> Iterator[tuple[Part, slice, slice]]:
    """Which rows of which parts the rows ``start`` to ``start + count`` fall on."""
    for part in parts:
        low, high = max(start, part.first), min(start + count, part.first + part.rows)
        if low < high:
            yield part, slice(low - part.first, high - part.first), slice(low - start, high - start)
