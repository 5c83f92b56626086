"""Packs a family's parameters into the arrays of the ``cpu`` layout, a block of rows at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgewise_compiler.models.base import LinearSpec, VectorSpec
from edgewise_compiler.quantize.base import Arrays, ArraySpec, Floats, Scheme
from edgewise_compiler.quantize.panels import bias_vector, padded_k, padded_rows, row_blocks
from edgewise_compiler.weights.base import WeightReader
from edgewise_runtime.errors import CheckpointError
from edgewise_runtime.format.abi import PANEL

BLOCK_ELEMENTS = 1 << 18
"""Weights packed at once: 1 MiB of float32, which stays in a core's second-level cache. Packing
holds about six times as much at any moment, whatever the size of the linear."""


def linear_arrays(scheme: Scheme, spec: LinearSpec) -> dict[str, ArraySpec]:
    """What packing ``spec`` makes: full buffer name (``layers.0.o.scale``) to dtype and shape."""
    rows = padded_rows(spec)
    made = scheme.arrays(rows // PANEL, padded_k(spec))
    if spec.biases is not None:
        made["bias"] = ArraySpec("float32", (rows,))
    return {f"{spec.name}.{suffix}": array for suffix, array in made.items()}


def linear_blocks(
    scheme: Scheme, spec: LinearSpec, reader: WeightReader
) -> Iterator[tuple[int, Arrays]]:
    """Pack ``spec`` in bounded memory, biases aside.

    Yields:
        The first panel of a block, and the block's arrays by full buffer name; their first axis
        counts panels. Blocks come in order and without gaps.

    Raises:
        CheckpointError: a tensor is missing, mis-shaped, not finite or beyond the scheme's range.
    """
    check_linear(spec, reader)
    ways = len(spec.sources) if spec.interleave else 1
    step = max(1, BLOCK_ELEMENTS // (ways * PANEL * padded_k(spec))) * ways
    first = 0
    for rows in row_blocks(spec, reader, step):
        try:
            packed = scheme.pack(rows)
        except CheckpointError as error:
            where = f"{spec.name} ({', '.join(spec.sources)})"
            raise CheckpointError(
                f"{where}: {error.message}", remedy=error.remedy, code=error.code
            ) from error
        yield first, {f"{spec.name}.{suffix}": array for suffix, array in packed.items()}
        first += len(rows)


def pack_linear(
    scheme: Scheme,
    spec: LinearSpec,
    reader: WeightReader,
    out: Mapping[str, NDArray[Any]] | None = None,
) -> Mapping[str, NDArray[Any]]:
    """Pack ``spec``, biases included, into ``out`` (such as mapped files) or into new arrays.

    Args:
        out: an array for every entry of :func:`linear_arrays`, of that dtype and shape.
    """
    if out is None:
        specs = linear_arrays(scheme, spec)
        out = {name: np.empty(array.shape, array.dtype) for name, array in specs.items()}
    for first, block in linear_blocks(scheme, spec, reader):
        for name, values in block.items():
            out[name][first : first + len(values)] = values
    bias = bias_vector(spec, reader)
    if bias is not None:
        out[f"{spec.name}.bias"][:] = bias
    return out


def read_vector(spec: VectorSpec, reader: WeightReader) -> Floats:
    """A vector parameter, float32 ``[size]``; its buffer is ``<name>.weight``."""
    check_shape(reader, spec.source, (spec.size,))
    return reader.read(spec.source)


def check_linear(spec: LinearSpec, reader: WeightReader) -> None:
    """Raise CheckpointError unless every source of ``spec`` is there with its proper shape."""
    for source, rows in zip(spec.sources, spec.rows, strict=True):
        check_shape(reader, source, (rows, spec.k))
    if spec.biases is not None:
        for bias, rows in zip(spec.biases, spec.rows, strict=True):
            check_shape(reader, bias, (rows,))


def check_shape(reader: WeightReader, name: str, shape: tuple[int, ...]) -> None:
    """Raise CheckpointError unless ``name`` is there with ``shape``."""
    found = reader.shape(name)
    if found != shape:
        raise CheckpointError(
            f"{name} has shape {list(found)}; config.json asks for {list(shape)}.",
            remedy="Use weights and config.json of the same checkpoint.",
            code="checkpoint.shape",
        )
