"""Four bits as MLC LLM stores them: eight codes a word, -7 to 8 times a scale for 32 columns."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from edgewise_compiler.mlc.reader import MIDDLE
from edgewise_compiler.quantize.codes import CodedRows, Floats, whole_groups
from edgewise_compiler.quantize.scales import to_f16
from edgewise_compiler.quantize.symmetric import ZERO_POINT
from edgewise_compiler.weights.files import Bytes
from edgewise_runtime.format.abi import GROUP

MOST = 2 * MIDDLE
"""The largest code that MLC's quantizer makes."""


def from_q4(rows: CodedRows) -> tuple[NDArray[np.uint8], Floats]:
    """Codes ``[rows, k]`` and scales ``[rows, k / 32]`` that stand for what rows of ``q4`` do.

    Ours count from -8 to 7. Where there is a -8 they go the other way round, with the scale's sign
    turned.
    """
    scales = rows.groups["scale"].astype(np.float32)
    groups = rows.codes.reshape(*scales.shape, GROUP)
    turned = (groups == 0).any(axis=2)
    codes = groups - np.uint8(ZERO_POINT["q4"] - MIDDLE)
    codes[turned] = ZERO_POINT["q4"] + MIDDLE - groups[turned]
    return codes.reshape(rows.codes.shape), np.where(turned, -scales, scales)


def from_floats(values: Floats, half: bool) -> tuple[NDArray[np.uint8], Floats]:
    """Codes and scales by MLC's rule: the largest value of a group is seven steps from zero.

    Args:
        values: ``[rows, k]``, whole groups of zeros after them.
        half: scales are float16, else bfloat16. Codes are chosen for the rounded ones.

    Raises:
        CheckpointError: a scale beyond float16.
    """
    groups = whole_groups(values).reshape(len(values), -1, GROUP)
    scales = np.abs(groups).max(axis=2) / np.float32(MIDDLE)
    if half:
        scales = to_f16(scales, "quantization scale").astype(np.float32)
    else:
        scales = (bfloat(scales).astype(np.uint32) << np.uint32(16)).view(np.float32)
    divisor = np.where(scales == 0, np.float32(1), scales)[:, :, None]
    codes = np.clip(np.rint(groups / divisor + np.float32(MIDDLE)), 0, MOST)
    return codes.astype(np.uint8).reshape(len(values), -1), scales


def bfloat(values: Floats) -> NDArray[np.uint16]:
    """Upper halves of float32, rounded to the nearest, ties to even."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))
    halves: NDArray[np.uint16] = (rounded >> np.uint32(16)).astype("<u2")
    return halves


def words(codes: NDArray[np.uint8]) -> Bytes:
    """Codes ``[rows, k]``, an even number of them, as bytes of little-endian words."""
    packed: Bytes = codes[:, 0::2] | codes[:, 1::2] << np.uint8(4)
    return packed.reshape(-1)


def stored(values: Floats, half: bool) -> Bytes:
    """Floats as they lie in a shard: float16, or the upper halves of float32."""
    raw = to_f16(values, "weight").astype("<f2") if half else bfloat(values)
    return np.ascontiguousarray(raw).view(np.uint8).reshape(-1)
