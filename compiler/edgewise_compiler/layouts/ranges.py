"""What float16 cannot hold is refused: scales that vanish, and norms that reach too far.

Values beyond the largest float16 are refused where they are rounded (`quantize.codes.to_f16`).
Small ones become zeros there, as they should beside larger ones: padding and pruned channels are
such. It takes the whole tensor to tell that nothing else is in it.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from edgewise_compiler.layouts.order import BLOCK_ELEMENTS
from edgewise_compiler.models.base import LinearSpec, VectorSpec
from edgewise_compiler.quantize.codes import CodedRows, CodeSource, Floats
from edgewise_compiler.quantize.scales import BYTES
from edgewise_compiler.weights.base import WeightReader
from edgewise_compiler.weights.params import naming
from edgewise_runtime.errors import CheckpointError

LEAST = 2.0**-18
"""The largest float16 of a tensor is at least this: it has seven bits then, and what is rounded to
zero beside it is a hundredth of it."""

LARGEST_INPUT = 2.0**20
"""What programs in float16 hold inputs of linears within (`kernels.gpu.matmul.matmul`)."""

NOTHING = 2.0**-40
"""A matrix of smaller weights makes nothing of any such input."""


def checked(spec: LinearSpec, reader: WeightReader, source: CodeSource) -> CodeSource:
    """``source``, refusing a tensor that float16 makes nothing, or noise, of.

    Args:
        reader: has the values that ``source`` codes.
    """
    largest: defaultdict[str, float] = defaultdict(float)

    def rows_of(name: str, start: int, stop: int) -> CodedRows:
        rows = source(name, start, stop)
        largest[name] = max(largest[name], _largest_half(rows))
        if stop == reader.shape(name)[0] and largest[name] < LEAST:
            with naming(spec, name):
                _check_nothing(reader, name)
        return rows

    return rows_of


def check_norm(spec: VectorSpec, values: Floats) -> None:
    """Raise CheckpointError for a norm whose outputs programs in float16 may not hold."""
    largest = float(np.abs(values).max())
    # The largest element of a normalized row is at most the root of their number.
    if largest * spec.size**0.5 > LARGEST_INPUT:
        raise CheckpointError(
            f"{spec.name} ({spec.source}): a weight of {largest:g} takes activations beyond what "
            f"GPU programs hold in float16, {LARGEST_INPUT:g}.",
            remedy="Compile with --target cpu --quant f32.",
            code="checkpoint.range",
        )


def _largest_half(rows: CodedRows) -> float:
    """The largest number that float16 has to hold; infinite where there is none."""
    if "unit" in rows.groups:  # Programs in float16 have the weights so.
        return float(np.abs(BYTES.read(rows.groups)).max())
    halves = [a for a in (rows.codes, *rows.groups.values()) if a.dtype == np.float16]
    return max((float(np.abs(half).max()) for half in halves), default=np.inf)


def _check_nothing(reader: WeightReader, name: str) -> None:
    """Refuse a tensor that is more than NOTHING."""
    rows, k = reader.shape(name)
    step = max(1, BLOCK_ELEMENTS // k)
    blocks = (reader.read(name, start, min(start + step, rows)) for start in range(0, rows, step))
    largest = max(float(np.abs(block).max()) for block in blocks)
    if largest > NOTHING:
        raise CheckpointError(
            f"The largest weight is {largest:g}, too small for float16.",
            remedy="Compile with --quant f32.",
            code="checkpoint.range",
        )
