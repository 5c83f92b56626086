"""``q4a``: codes of four bits from the lowest weight of 32 columns up: a float16 scale and minimum.

A weight is ``code * scale - minimum``. The product is exact in float32, so the difference is
rounded once, whoever computes it. A minimum may have any sign: groups need not reach zero.
"""

from __future__ import annotations

import numpy as np

from edgewise_compiler.quantize.codes import CodedRows, Floats, Scheme
from edgewise_compiler.quantize.scales import to_f16
from edgewise_runtime.format.abi import GROUP

MOST = 15


def quantize(rows: Floats) -> CodedRows:
    """The nearest codes between the lowest and the highest value of each group.

    Both numbers are rounded to float16 first and the codes are chosen for the rounded ones. A group
    of one value has no scale and that value for its minimum.

    Args:
        rows: float32 ``[rows, k]``, overwritten.

    Raises:
        CheckpointError: a scale or a minimum beyond float16.
    """
    groups = rows.reshape(len(rows), -1, GROUP)
    # One plane per column of a group: NumPy reduces along planes at memory speed.
    planes = np.ascontiguousarray(groups.transpose(2, 0, 1))
    low, high = planes.min(axis=0), planes.max(axis=0)
    with np.errstate(over="ignore"):
        scale = to_f16((high - low) / np.float32(MOST), "quantization scale")
    minimum = to_f16(-low, "quantization minimum")
    minimum += np.float16(0)  # a negative zero becomes the other: a zero has one spelling
    groups += minimum.astype(np.float32)[:, :, None]
    divisor = np.where(scale == 0, np.float32(1), scale.astype(np.float32))
    np.divide(groups, divisor[:, :, None], out=groups)
    np.rint(groups, out=groups)
    np.clip(groups, 0, MOST, out=groups)
    return CodedRows(groups.astype(np.uint8).reshape(rows.shape), {"scale": scale, "min": minimum})


def dequantize(rows: CodedRows) -> Floats:
    """``code * scale - min`` in float32, ``[rows, k]``."""
    scale, minimum = (
        rows.groups[name].astype(np.float32).repeat(GROUP, axis=1) for name in ("scale", "min")
    )
    return rows.codes.astype(np.float32) * scale - minimum


Q4A = Scheme("q4a", "w4a8", "uint4", ("scale", "min"), quantize, dequantize, numbers="q4a_scale")
"""GGUF's Q4_1 is so too, with the minimum's sign turned."""
