"""``q8``, ``q6``, ``q5`` and ``q4``: integers and a float16 scale per 32 columns; ``q6_nl``,
``q5_nl`` and ``q4_nl``: integers that lie further apart where few weights are, and a byte as scale.

A weight is ``(code - zero) * scale``. Codes have no sign: the operand that x86's VNNI instructions
want. Inputs they are multiplied with are int8. Of the ``_nl``, non-linear, codes name integers: the
half of all codes around zero the integers themselves, and those beyond every other one
(`codes.Levels`). That is nearer to how weights lie than even steps are, and takes a few
instructions for four codes at once where a table would take a look-up for each.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from edgewise_compiler.quantize.codes import CodedRows, Floats, Levels, Scheme
from edgewise_compiler.quantize.scales import BYTES, HALVES
from edgewise_runtime.format.abi import GROUP

ZERO_POINT = {
    "q8": 128,
    "q6": 32,
    "q5": 16,
    "q4": 8,
    "q6_nl": 48,
    "q5_nl": 24,
    "q4_nl": 12,
    "q4a": 0,
    "q4k": 0,
    "iq4_nl": 127,
    "mxfp4": 12,
}
"""What kernels take off a scheme's integers, by its name: the code of zero, and where codes name
other integers (a bend, `quantize.tables`), what makes the lowest of those zero."""

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


def quantize(rows: Floats, scales: Scales, zero: int, levels: Levels) -> CodedRows:
    """The codes of the nearest integers under the scales that ``scales`` has for each group.

    A scale is rounded first, as it is stored, and the codes are chosen for the rounded scale. Where
    it rounds to zero the whole group is zero.

    Args:
        rows: float32 ``[rows, k]``, overwritten.
        zero: the code of zero.

    Raises:
        CheckpointError: a scale beyond float16.
    """
    groups = rows.reshape(len(rows), -1, GROUP)
    # One plane per column of a group: NumPy reduces along planes at memory speed.
    planes = np.ascontiguousarray(groups.transpose(2, 0, 1))
    kept = levels.store.keep(scales(planes.min(axis=0), planes.max(axis=0)), None)
    scale = levels.store.read(kept)
    divisor = np.where(scale == 0, np.float32(np.inf), scale)
    np.divide(groups, divisor[:, :, None], out=groups)
    numbers = levels.nearest(groups)
    numbers += np.float32(zero)
    return CodedRows(numbers.astype(np.uint8).reshape(rows.shape), kept)


def dequantize(rows: CodedRows, zero: int, levels: Levels) -> Floats:
    """``integer * scale`` in float32, ``[rows, k]``."""
    scale = levels.store.read(rows.groups).repeat(GROUP, axis=1)
    return levels.integers(rows.codes.astype(np.float32) - np.float32(zero)) * scale


def _scheme(
    name: str, scales: Scales, bits: int, levels: Levels, *, searched: bool = True
) -> Scheme:
    zero = 1 << (bits - 1)
    return Scheme(
        name=name,
        arithmetic=f"w{bits}a8",
        code=f"uint{bits}",
        groups=levels.store.names,
        quantize=partial(quantize, scales=scales, zero=zero, levels=levels),
        dequantize=partial(dequantize, zero=zero, levels=levels),
        levels=levels if searched else None,
        numbers="scale" if levels.bend is None else f"{name}_scale",
    )


def _searched(name: str, bits: int, bend: int | None = None) -> Scheme:
    half = 1 << (bits - 1)
    scales = partial(extreme_scales, zero=ZERO_POINT[name])
    store = HALVES if bend is None else BYTES
    return _scheme(name, scales, bits, Levels(-half, half - 1, bend, store))


Q8 = _scheme("q8", partial(even_scales, limit=127), 8, Levels(-127, 127), searched=False)
"""-127..127 when quantized here, so that scales are never negative; files may bring -128 too."""

Q6, Q5, Q4 = (_searched(f"q{bits}", bits) for bits in (6, 5, 4))
"""-32..31, -16..15 and -8..7."""

Q6_NL, Q5_NL, Q4_NL = (_searched(f"q{bits}_nl", bits, 1 << (bits - 2)) for bits in (6, 5, 4))
"""-48..46, by ones up to 16; -24..22, up to 8; and -12..10, up to 4."""
