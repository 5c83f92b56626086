"""Rotary position embeddings: frequencies and the table of cosines and sines.

RoPE is Su et al. 2021 (arXiv 2104.09864). The scaled variants are position interpolation (Chen et
al. 2023, arXiv 2306.15595), Llama 3.1's frequency bands (arXiv 2407.21783), YaRN (Peng et al. 2023,
arXiv 2309.00071), and LongRoPE's divisors (Ding et al. 2024, arXiv 2402.13753). Models are trained
with float32 tables, so every step is rounded to float32 where transformers rounds it: at position
100,000 the last bit of a frequency is 0.006 radians.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from edgewise_compiler.models.base import RotationSpec
from edgewise_compiler.models.rope import RopeConfig

Floats = NDArray[np.float32]


def inverse_frequencies(rope: RopeConfig, head_dim: int, context: int | None = None) -> Floats:
    """Radians per position of each pair of dimensions, float32 ``[head_dim / 2]``.

    Args:
        context: the most tokens of a text; longrope has other frequencies where that is no more
            than its original context. None for any.
    """
    if rope.short_divisors and context is not None and context <= rope.original_context:
        rope = replace(rope, divisors=rope.short_divisors)
    exponents = np.arange(0, head_dim, 2, dtype=np.float32) / np.float32(head_dim)
    # The power in float64: NumPy's float32 power differs from torch's in many last bits.
    powers = np.power(np.float64(rope.theta), exponents.astype(np.float64)).astype(np.float32)
    return _FREQUENCIES[rope.kind](rope, powers, head_dim)


def _default_frequencies(rope: RopeConfig, powers: Floats, head_dim: int) -> Floats:
    return np.float32(1.0) / powers


def _linear_frequencies(rope: RopeConfig, powers: Floats, head_dim: int) -> Floats:
    return np.float32(1.0) / powers / np.float32(rope.factor)


def _llama3_frequencies(rope: RopeConfig, powers: Floats, head_dim: int) -> Floats:
    plain = np.float32(1.0) / powers
    factor = np.float32(rope.factor)
    # torch divides a number by a tensor as number × reciprocal: the same roundings here.
    wavelength = np.float32(1.0) / plain * np.float32(2 * math.pi)
    longest = rope.original_context / rope.low_freq_factor
    shortest = rope.original_context / rope.high_freq_factor
    stretched = np.where(wavelength > np.float32(longest), plain / factor, plain)
    band = np.float32(rope.high_freq_factor - rope.low_freq_factor)
    smooth = np.float32(1.0) / wavelength * np.float32(rope.original_context)
    smooth = (smooth - np.float32(rope.low_freq_factor)) / band
    blend = (np.float32(1.0) - smooth) * stretched / factor + smooth * stretched
    inside = (wavelength >= np.float32(shortest)) & (wavelength <= np.float32(longest))
    return np.where(inside, blend, stretched).astype(np.float32)


def _longrope_frequencies(rope: RopeConfig, powers: Floats, head_dim: int) -> Floats:
    return np.float32(1.0) / (np.array(rope.divisors, np.float32) * powers)


def _yarn_frequencies(rope: RopeConfig, powers: Floats, head_dim: int) -> Floats:
    low = _yarn_dimension(rope, rope.beta_fast, head_dim)
    high = _yarn_dimension(rope, rope.beta_slow, head_dim)
    if rope.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, head_dim - 1)
    # A ramp of no width would divide by zero; this is the width transformers gives it.
    width = np.float32(high - low if high != low else 0.001)
    steps = np.arange(head_dim // 2, dtype=np.float32)
    kept = np.float32(1.0) - np.clip((steps - np.float32(low)) / width, 0, 1).astype(np.float32)
    plain = np.float32(1.0) / powers
    stretched = np.float32(1.0) / (np.float32(rope.factor) * powers)
    blend: Floats = stretched * (np.float32(1.0) - kept) + plain * kept
    return blend


def _yarn_dimension(rope: RopeConfig, rotations: float, head_dim: int) -> float:
    """The (fractional) dimension whose wavelength fits ``rotations`` times the original context."""
    turns = math.log(rope.original_context / (rotations * 2 * math.pi))
    return head_dim * turns / (2 * math.log(rope.theta))


_FREQUENCIES: dict[str, Callable[[RopeConfig, Floats, int], Floats]] = {
    "default": _default_frequencies,
    "linear": _linear_frequencies,
    "llama3": _llama3_frequencies,
    "longrope": _longrope_frequencies,
    "yarn": _yarn_frequencies,
}


def rope_table(rope: RopeConfig, head_dim: int, context: int) -> Floats:
    """Cosines and sines of every position, float32 ``[context, 2, head_dim / 2]``.

    Row 0 of a position holds the cosines and row 1 the sines, both times ``attention_factor``.
    """
    frequencies = inverse_frequencies(rope, head_dim, context)
    angles = np.outer(np.arange(context, dtype=np.float32), frequencies)
    table = np.empty((context, 2, head_dim // 2), np.float32)
    scale = np.float32(rope.attention_factor)
    for row, function in enumerate((np.cos, np.sin)):
        # In float64, because float32 implementations differ in the last bit between libraries.
        np.multiply(function(angles, dtype=np.float64).astype(np.float32), scale, out=table[:, row])
    return table


def rotation_table(spec: RotationSpec, context: int) -> Floats:
    """The tensor of ``spec``, float32 ``[context, 2, width / 2]``, or of queries' own numbers, too,
    ``[context, 4, width / 2]``; pairs that do not turn have an angle of 0."""
    table = rope_table(spec.rope, spec.rotated or spec.width, context)
    more = spec.width // 2 - table.shape[2]
    if more:
        still = np.zeros((context, 2, more), np.float32)
        still[:, 0] = 1
        table = np.concatenate([table, still], axis=2)
    if spec.rows(context) == 2 or spec.temperature is None:
        return table
    beta, original = spec.temperature
    stretches = np.arange(context, dtype=np.int64) // original
    factors = (1 + beta * np.log(1.0 + stretches)).astype(np.float32)
    return np.concatenate([table, table * factors[:, None, None]], axis=1)
