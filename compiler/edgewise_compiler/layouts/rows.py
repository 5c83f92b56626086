"""The ``gpu`` layout: rows one after the other, in parts that WebGPU can bind.

It holds the same numbers as the ``cpu`` layout, bit for bit; only their order differs. Every tensor
is of 32-bit words, so that no program needs more than WebGPU's core types to read it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgewise_compiler.kernels.gpu.limits import LEAST
from edgewise_compiler.layouts.base import (
    Arrays,
    Layout,
    Part,
    TensorSpec,
    VectorPlace,
    named_parts,
    overlaps,
)
from edgewise_compiler.layouts.order import output_rows, padded_k, padded_rows, round_up
from edgewise_compiler.layouts.words import row_elements, unpacked_rows
from edgewise_compiler.models.base import LinearSpec, VectorSpec
from edgewise_compiler.quantize.codes import CodedRows, Floats
from edgewise_compiler.quantize.split import ROW_STEP, AnyScheme, Band, bands, scheme_of_rows
from edgewise_runtime.errors import UnsupportedError
from edgewise_runtime.format.dtypes import DTYPES

MAX_BINDING = LEAST.binding
"""Bytes of a part at most, so that every GPU target can bind it."""

WORD = 4
"""Bytes of an element of a tensor."""


def linear_parts(scheme: AnyScheme, spec: LinearSpec) -> tuple[Part, ...]:
    """How a linear is split, by its schemes and so that no part's weights exceed one binding;
    experts stay whole.

    Raises:
        UnsupportedError: an expert that is larger by itself.
    """
    found = bands(scheme, padded_rows(spec))
    return named_parts(spec, [piece for band in found for piece in _bound(spec, band)])


def _bound(spec: LinearSpec, band: Band) -> Iterator[Band]:
    """The pieces of a band, of which each can be bound."""
    scheme, total = band.scheme, band.stop - band.start
    dtype, elements = row_elements(scheme, padded_k(spec))["weight"]
    most = MAX_BINDING // (elements * DTYPES[dtype])
    each = ROW_STEP if spec.experts is None else output_rows(spec)
    if each > max(most, ROW_STEP):
        raise UnsupportedError(
            f"An expert of {spec.name} takes {each * elements * DTYPES[dtype] >> 20:,} MiB; GPUs "
            f"bind {MAX_BINDING >> 20} at a time.",
            remedy="Choose a scheme of fewer bits, such as --quant q4, or compile it for the CPU.",
            code="unsupported.binding",
        )
    count = -(-total // max(each, most // each * each))
    step = total if count == 1 else round_up(-(-total // count), each)
    for start in range(band.start, band.stop, step):
        yield Band(scheme, start, min(start + step, band.stop))


def _spec(part: Part, suffix: str, dtype: str, elements: int) -> TensorSpec:
    words = part.rows * elements * DTYPES[dtype] // WORD
    # float16 of a row's groups may end in the middle of a word.
    whole = suffix == "weight" or part.scheme.bytes
    shape = (part.rows, words // part.rows) if whole else (words,)
    return TensorSpec("float32" if dtype == "float32" else "uint32", shape)


def _put(part: Part, rows: slice, elements: NDArray[Any], words: NDArray[Any]) -> None:
    words.view(elements.dtype).reshape(part.rows, -1)[rows] = elements


def take_rows(
    scheme: AnyScheme, spec: LinearSpec, first: int, stop: int, tensors: Arrays
) -> CodedRows:
    """Packed rows ``first`` to ``stop`` of a linear, which are in one scheme, as they were put into
    ``tensors``."""
    own, found = scheme_of_rows(scheme, first, stop), []
    for part, inside, _ in overlaps(linear_parts(scheme, spec), first, stop - first):
        elements = {}
        for suffix, (dtype, _) in row_elements(own, padded_k(spec)).items():
            words = tensors[f"{part.name}.{suffix}"]
            elements[suffix] = words.view(dtype).reshape(part.rows, -1)[inside]
        found.append(unpacked_rows(own, elements))
    return CodedRows(
        np.concatenate([rows.codes for rows in found]),
        {name: np.concatenate([rows.groups[name] for rows in found]) for name in found[0].groups},
    )


def row_values(
    scheme: AnyScheme, spec: LinearSpec, first: int, stop: int, tensors: Arrays
) -> Floats:
    """Packed rows ``first`` to ``stop`` of a linear as kernels compute with them, float32."""
    within = ((b.scheme, max(first, b.start), min(stop, b.stop)) for b in bands(scheme, stop))
    return np.concatenate(
        [
            own.dequantize(take_rows(scheme, spec, start, end, tensors))
            for own, start, end in within
            if start < end
        ]
    )


def _place(spec: VectorSpec) -> VectorPlace:
    prefix, _, last = spec.name.rpartition(".")
    if last not in ("q_norm", "k_norm"):
        return VectorPlace(f"{spec.name}.weight", TensorSpec("float32", (spec.size,)))
    # Both norms of a layer's heads lie in one tensor: kernels have few bindings.
    both = TensorSpec("float32", (2, spec.size))
    return VectorPlace(f"{prefix}.qk_norm.weight", both, int(last == "k_norm"))


GPU = Layout("gpu", linear_parts, _spec, _put, _place)
