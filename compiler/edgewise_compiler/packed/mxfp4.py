"""MXFP4 as gpt-oss's folders have it: experts in one tensor of codes and one of scales.

Format: transformers' integration, after the Open Compute Project's Microscaling Formats 1.0. Of a
tensor of experts ``_blocks`` is uint8 ``[experts, rows, k / 32, 16]``, a byte's low code before its
high one, and ``_scales`` ``[experts, rows, k / 32]``, exponents plus 127. Rows are outputs, where
float tensors have them as columns; gate's and up's alternate there, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from edgewise_compiler.models.experts import MAX_EXPERTS
from edgewise_compiler.models.fields import ConfigFields
from edgewise_compiler.packed.base import Integers, Matrices, Matrix, Method, check_tensor
from edgewise_compiler.quantize.symmetric import ZERO_POINT
from edgewise_compiler.quantize.tables import TABLES
from edgewise_compiler.weights.safetensors import SafetensorsReader
from edgewise_compiler.weights.stacked import PARTS
from edgewise_runtime.errors import CheckpointError
from edgewise_runtime.format.abi import GROUP
from edgewise_runtime.format.reading import shorten

TITLE, SCHEME = "MXFP4", "mxfp4"
BITS = 4
BLOCK = GROUP // 2
"""Bytes of the codes of a group."""

BIAS = 128
"""Of exponents, for a table of twice the format's values."""

_VALUES = (np.array(TABLES[SCHEME]) + ZERO_POINT[SCHEME]).astype(np.uint8)


def _open(fields: ConfigFields) -> Callable[[SafetensorsReader], Matrices]:
    return lambda reader: dict(_matrices(reader))


def _matrices(reader: SafetensorsReader) -> Iterator[tuple[str, Matrix]]:
    for name in reader.names():
        stem = name.removesuffix("_blocks")
        module, _, tensor = stem.rpartition(".")
        if stem == name:
            continue
        experts, height, groups = (*reader.shape(name), 0, 0, 0)[:3]
        scales = f"{stem}_scales"
        check_tensor(reader, name, ("U8",), (experts, height, groups, BLOCK))
        check_tensor(reader, scales, ("U8",), (experts, height, groups))
        if not height or not groups or not 0 < experts <= MAX_EXPERTS:
            raise _no_experts(name, (experts, height, groups))
        for part, (whole, first, step) in PARTS.items():
            if whole != tensor:
                continue
            for expert in range(experts):
                rows = -(-(height - first) // step)
                yield (
                    f"{module}.{expert}.{part}_proj.weight",
                    Matrix(
                        shape=(rows, groups * GROUP),
                        bits=BITS,
                        kind=f"{TITLE}, rows from {first} on in steps of {step}",
                        parts=(name, scales),
                        centred=lambda: True,
                        rows=partial(
                            _rows, reader, name, scales, expert * height + first, step, groups
                        ),
                        table=SCHEME,
                        ranges=tuple(
                            (expert * height * size, height * size)
                            for size in (groups * BLOCK, groups)
                        ),
                    ),
                )


def _no_experts(name: str, shape: tuple[int, ...]) -> CheckpointError:
    """A tensor of nothing takes no bytes, however many experts it says it has."""
    return CheckpointError(
        f"{shorten(name)} is of {shape[0]} experts of {shape[1]} rows of {shape[2]} groups; there "
        f"have to be 1 to {MAX_EXPERTS}, with weights.",
        remedy="Download the checkpoint again.",
        code="checkpoint.shape",
    )


def _rows(
    reader: SafetensorsReader,
    blocks: str,
    scales: str,
    first: int,
    step: int,
    groups: int,
    start: int,
    stop: int,
) -> Integers:
    """Of rows ``first``, ``first + step`` and so on of all experts those from ``start`` on."""
    begin, count = first + start * step, (stop - start - 1) * step + 1

    def read(name: str, width: int) -> np.ndarray:
        raw = reader.part(name, begin * width, count * width)
        return raw.reshape(count, width)[::step]

    raw = read(blocks, groups * BLOCK)
    codes = np.stack([raw & np.uint8(15), raw >> np.uint8(4)], axis=-1).reshape(len(raw), -1)
    exponents = read(scales, groups).astype(np.int32) - BIAS
    zeros = np.full(exponents.shape, ZERO_POINT[SCHEME], np.int16)
    return Integers(_VALUES[codes], zeros, np.ldexp(np.float32(1), exponents).astype(np.float32))


MXFP4 = Method(
    name="mxfp4",
    title=TITLE,
    reads=(
        ("experts in `_blocks` and `_scales`, as gpt-oss has them", ("mxfp4", "q5", "q6", "q8")),
    ),
    refuses=("scales beyond float16 (below 2⁻²⁴ they are zero)",),
    open=_open,
)
