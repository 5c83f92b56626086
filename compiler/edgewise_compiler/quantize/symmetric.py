"""``q8`` and ``q4``: symmetric integers with a float16 scale per 32 columns.

``q8`` has integers -127..127, stored as the integer plus 128: the unsigned operand that x86's VNNI
instructions want. ``q4`` has -7..7, stored as the integer plus 7. Inputs they are multiplied with
are int8.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from edgewise_compiler.quantize.codes import CodedRows, Floats, Scheme, to_f16
from edgewise_runtime.format.abi import GROUP

ZERO_POINT = {"q8": 128, "q4": 7}
"""What the codes of an integer scheme have added to them, by its name; kernels take it off."""


def quantize(rows: Floats, limit: int, zero: int) -> CodedRows:
    """The nearest integers of ``w / s``, ``s = max|w| / limit`` per group.

    The scale is rounded to float16 first and the integers are chosen for the rounded scale. Where
    it rounds to zero the whole group is zero.

    Args:
        rows: float32 ``[rows, k]``, overwritten.
        limit: integers lie in ``-limit..limit``.
        zero: what is added to store them without a sign.

    Raises:
        CheckpointError: a scale beyond float16.
    """
    groups = rows.reshape(len(rows), -1, GROUP)
    # One plane per column of a group: NumPy reduces along planes at memory speed.
    planes = np.ascontiguousarray(groups.transpose(2, 0, 1))
    largest = np.maximum(planes.max(axis=0), -planes.min(axis=0))
    scale = to_f16(largest / np.float32(limit), "quantization scale")
    # A scale rounds to zero only where every value is below 2^-18, which over one rounds to zero.
    divisor = np.where(scale == 0, np.float32(1.0), scale.astype(np.float32))
    np.divide(groups, divisor[:, :, None], out=groups)
    np.rint(groups, out=groups)
    np.clip(groups, -limit, limit, out=groups)
    groups += np.float32(zero)
    return CodedRows(groups.astype(np.uint8).reshape(rows.shape), {"scale": scale})


def dequantize(rows: CodedRows, zero: int) -> Floats:
    """``(code - zero) * scale`` in float32, ``[rows, k]``."""
    scale = rows.groups["scale"].astype(np.float32).repeat(GROUP, axis=1)
    return (rows.codes.astype(np.float32) - np.float32(zero)) * scale


def _scheme(name: str, arithmetic: str, code: str, limit: int) -> Scheme:
    zero = ZERO_POINT[name]
    return Scheme(
        name=name,
        arithmetic=arithmetic,
        code=code,
        groups=("scale",),
        quantize=partial(quantize, limit=limit, zero=zero),
        dequantize=partial(dequantize, zero=zero),
    )


Q8 = _scheme("q8", "w8a8", "uint8", limit=127)
Q4 = _scheme("q4", "w4a8", "uint4", limit=7)
