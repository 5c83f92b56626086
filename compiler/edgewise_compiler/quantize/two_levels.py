"""``q4k``: ``q4a`` whose scales and minima are integers of six bits, under float16 for 256 columns.

A weight is ``code * (d * scale) - dmin * min``: both products and the one with the code are exact
in float32, so the difference is rounded once, whoever computes it. GGUF's Q4_K is so too.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from edgewise_compiler.quantize.affine import MOST
from edgewise_compiler.quantize.codes import CodedRows, Floats, Scheme
from edgewise_compiler.quantize.scales import to_f16
from edgewise_runtime.format.abi import GROUP

SUPER = 256
"""Columns under the same two float16."""

LARGEST = 63


def quantize(rows: Floats) -> CodedRows:
    """The nearest codes between the lowest and the highest value of each group, zero included.

    The numbers of a group are rounded as they are stored before its codes are chosen. Minima have
    no sign: a group above zero reaches down to it.

    Args:
        rows: float32 ``[rows, k]``, ``k`` a multiple of 256; overwritten.

    Raises:
        CheckpointError: a scale or a minimum beyond float16.
    """
    groups = rows.reshape(len(rows), -1, GROUP)
    # One plane per column of a group: NumPy reduces along planes at memory speed.
    planes = np.ascontiguousarray(groups.transpose(2, 0, 1))
    minimum = np.maximum(-planes.min(axis=0), np.float32(0))
    with np.errstate(over="ignore"):
        scale = np.maximum(planes.max(axis=0) + minimum, np.float32(0)) / np.float32(MOST)
    d, scales = _sixths(scale, "quantization scale")
    dmin, minima = _sixths(minimum, "quantization minimum")
    coded = CodedRows(np.empty(0, np.uint8), {"scale": scales, "min": minima, "d": d, "dmin": dmin})
    steps, lows = group_numbers(coded)
    groups += lows[:, :, None]
    np.divide(groups, np.where(steps == 0, np.float32(1), steps)[:, :, None], out=groups)
    np.rint(groups, out=groups)
    np.clip(groups, 0, MOST, out=groups)
    return CodedRows(groups.astype(np.uint8).reshape(rows.shape), coded.groups)


def _sixths(values: Floats, what: str) -> tuple[NDArray[np.float16], NDArray[np.uint8]]:
    """Values ``[rows, k / 32]``, not negative, as integers of six bits and their unit."""
    supers = values.reshape(len(values), -1, SUPER // GROUP)
    unit = to_f16(supers.max(axis=2) / np.float32(LARGEST), what)
    divisor = np.where(unit == 0, np.float32(1), unit.astype(np.float32))
    integers = np.clip(np.rint(supers / divisor[:, :, None]), 0, LARGEST).astype(np.uint8)
    return unit, integers.reshape(values.shape)


def group_numbers(rows: CodedRows) -> tuple[Floats, Floats]:
    """Scale and minimum of each group, float32 ``[rows, k / 32]``, exactly."""
    each = SUPER // GROUP
    scale, minimum = (
        rows.groups[name].astype(np.float32)
        * rows.groups[unit].astype(np.float32).repeat(each, axis=1)
        for name, unit in (("scale", "d"), ("min", "dmin"))
    )
    return scale, minimum


def dequantize(rows: CodedRows) -> Floats:
    """``code * (d * scale) - dmin * min`` in float32, ``[rows, k]``."""
    scale, minimum = (values.repeat(GROUP, axis=1) for values in group_numbers(rows))
    return rows.codes.astype(np.float32) * scale - minimum


Q4K = Scheme(
    "q4k",
    "w4a8",
    "uint4",
    ("scale", "min", "d", "dmin"),
    quantize,
    dequantize,
    numbers="q4k_scale",
    columns=SUPER,
)
