"""What the integer schemes share: symmetric integers in groups of 32 columns with a float16 scale.

Blocks are worked on as 32 planes ``[panels, k/32, 16]``, one per column of a group: reductions and
shifts then run along whole planes, which NumPy does at memory speed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgewise_compiler.quantize.base import Arrays, ArraySpec, Floats, to_f16
from edgewise_runtime.format.abi import GROUP, PANEL


def group_arrays(panels: int, k: int, shifts: Sequence[int]) -> dict[str, ArraySpec]:
    """Words and scales of a linear whose words hold one integer per entry of ``shifts``."""
    return {
        "weight": ArraySpec("uint32", (panels, k // len(shifts), PANEL)),
        "scale": ArraySpec("float16", (panels, k // GROUP, PANEL)),
    }


def pack_groups(rows: Floats, limit: int, offset: int, shifts: Sequence[int]) -> Arrays:
    """Quantize to the nearest integers of ``w / s``, ``s = max|w| / limit`` per group, and pack.

    The scale is rounded to float16 first and the integers are chosen for the rounded scale. Where
    it rounds to zero the whole group is zero.

    Args:
        rows: float32 ``[panels, 16, k]``.
        limit: integers lie in ``-limit..limit``.
        offset: what is added to store them without a sign.
        shifts: the j-th of consecutive columns lands in a word at bit ``shifts[j]``.

    Raises:
        CheckpointError: a scale beyond float16.
    """
    panels, _, k = rows.shape
    split = rows.reshape(panels, PANEL, k // GROUP, GROUP)
    planes = np.ascontiguousarray(split.transpose(3, 0, 2, 1))
    largest = np.maximum(planes.max(axis=0), -planes.min(axis=0))
    scale = to_f16(largest / np.float32(limit), "quantization scale")
    # A scale rounds to zero only where every value is below 2^-18, which over one rounds to zero.
    divisor = np.where(scale == 0, np.float32(1.0), scale.astype(np.float32))
    np.divide(planes, divisor, out=planes)
    np.rint(planes, out=planes)
    np.clip(planes, -limit, limit, out=planes)
    planes += np.float32(offset)
    unsigned = planes.astype(np.int32).view(np.uint32)
    fields = unsigned.reshape(-1, len(shifts), panels, k // GROUP, PANEL)
    words = fields[:, 0] << np.uint32(shifts[0])
    for j, shift in enumerate(shifts[1:], start=1):
        words |= fields[:, j] << np.uint32(shift)
    weight = words.transpose(1, 2, 0, 3).reshape(panels, k // len(shifts), PANEL)
    return {"weight": np.ascontiguousarray(weight), "scale": scale}


def unpack_groups(
    packed: Mapping[str, NDArray[Any]], offset: int, bits: int, shifts: Sequence[int]
) -> Floats:
    """``(integer - offset) * scale`` in float32, ``[panels, 16, k]``."""
    words, scale = packed["weight"], packed["scale"].astype(np.float32)
    panels, count, _ = words.shape
    mask = np.uint32((1 << bits) - 1)
    fields = np.stack([(words >> np.uint32(shift)) & mask for shift in shifts], axis=2)
    integers = fields.reshape(panels, count * len(shifts), PANEL).astype(np.float32)
    values = (integers - np.float32(offset)) * scale.repeat(GROUP, axis=1)
    return np.ascontiguousarray(values.transpose(0, 2, 1))
