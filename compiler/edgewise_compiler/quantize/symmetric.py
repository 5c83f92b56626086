"""``q8``, ``q6``, ``q5`` and ``q4``: integers and a float16 scale per 32 columns.

A weight is ``(code - zero) * scale``. Codes have no sign: the operand that x86's VNNI instructions
want. Inputs they are multiplied with are int8.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from edgewise_compiler.quantize.codes import SIXTEEN, CodedRows, Floats, Levels, Scheme, to_f16
from edgewise_runtime.format.abi import GROUP

ZERO_POINT = {
    "q8": 128,
    "q6": 32,
    "q5": 16,
    "q4": 8,
    "q4a": 0,
    "q4k": 0,
    "iq4_nl": 127,
    "mxfp4": 12,
}
"""What kernels take off a scheme's integers, by its name: the code of zero, and where codes name
the values of a table (`quantize.tables`), what makes the lowest of those zero."""

Scales = Callable[[Floats, Floats], Floats]
"""Lowest and highest value of groups to what a step between codes should be."""


def even_scales(low: Floats, high: Floats, limit: int) -> Floats:
    """``max|w| / limit``: the largest value of either sign is ``limit`` steps from zero."""
    furthest: Floats = np.maximum(high, -low)
    return furthest / np.float32(limit)


def extreme_scales(low: Floats, high: Floats, zero: int) -> Floats:
    """``extreme / -zero``: the value furthest from zero has code 0, whichever its sign.

    Of two equally far it is the negative one. So all codes are used, one more on the side where
    values reach furthest, and a scale's sign says which side that is. GGUF's Q4_0 is so too.
    """
    extreme: Floats = np.where(-low >= high, low, high)
    return extreme / np.float32(-zero)


def quantize(rows: Floats, scales: Scales, zero: int, least: int, most: int) -> CodedRows:
    """The nearest codes under the scales that ``scales`` has for each group.

    A scale is rounded to float16 first and the codes are chosen for the rounded scale. Where it
    rounds to zero the whole group is zero.

    Args:
        rows: float32 ``[rows, k]``, overwritten.
        zero: the code of zero.
        least, most: codes lie between them.

    Raises:
        CheckpointError: a scale beyond float16.
    """
    groups = rows.reshape(len(rows), -1, GROUP)
    # One plane per column of a group: NumPy reduces along planes at memory speed.
    planes = np.ascontiguousarray(groups.transpose(2, 0, 1))
    scale = to_f16(scales(planes.min(axis=0), planes.max(axis=0)), "quantization scale")
    scale += np.float16(0)  # a negative zero becomes the other: a zero has one spelling
    # A scale rounds to zero only where every value is below 2^-18, which over one rounds to zero.
    divisor = np.where(scale == 0, np.float32(1.0), scale.astype(np.float32))
    np.divide(groups, divisor[:, :, None], out=groups)
    np.rint(groups, out=groups)
    groups += np.float32(zero)
    np.clip(groups, least, most, out=groups)
    return CodedRows(groups.astype(np.uint8).reshape(rows.shape), {"scale": scale})


def dequantize(rows: CodedRows, zero: int) -> Floats:
    """``(code - zero) * scale`` in float32, ``[rows, k]``."""
    scale = rows.groups["scale"].astype(np.float32).repeat(GROUP, axis=1)
    return (rows.codes.astype(np.float32) - np.float32(zero)) * scale


def _scheme(
    name: str, scales: Scales, least: int, bits: int, levels: Levels | None = None
) -> Scheme:
    zero, most = ZERO_POINT[name], (1 << bits) - 1
    return Scheme(
        name=name,
        arithmetic=f"w{bits}a8",
        code=f"uint{bits}",
        groups=("scale",),
        quantize=partial(quantize, scales=scales, zero=zero, least=least, most=most),
        dequantize=partial(dequantize, zero=zero),
        levels=levels,
    )


Q8 = _scheme("q8", partial(even_scales, limit=127), least=1, bits=8)
"""-127..127 when quantized here, so that scales are never negative; files may bring -128 too."""

Q6 = _scheme(
    "q6", partial(extreme_scales, zero=ZERO_POINT["q6"]), least=0, bits=6, levels=Levels(-32, 31)
)
"""-32..31."""

Q5 = _scheme(
    "q5", partial(extreme_scales, zero=ZERO_POINT["q5"]), least=0, bits=5, levels=Levels(-16, 15)
)
"""-16..15."""

Q4 = _scheme("q4", partial(extreme_scales, zero=ZERO_POINT["q4"]), least=0, bits=4, levels=SIXTEEN)
"""-8..7."""
