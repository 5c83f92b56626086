"""Rotary position embeddings: frequencies and the table of cosines and sines.

RoPE is Su et al. 2021 (arXiv 2104.09864). The scaled variants are position interpolation (Chen et
al. 2023, arXiv 2306.15595), Llama 3.1's frequency bands (arXiv 2407.21783), YaRN (Peng et al. 2023,
arXiv 2309.00071), and LongRoPE's divisors (Ding et al. 2024, arXiv 2402.13753). Models are trained
with float32 tables, so every step is rounded to float32 where transformers rounds it: at position
100,000 the last bit of a frequency is 0.006 radians.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgewise_compiler.models.fields import ConfigFields
from edgewise_runtime.errors import CheckpointError, UnsupportedError
from edgewise_runtime.format.reading import shorten

MAX_CONTEXT = 1 << 24
"""Positions are exact in float32 below this, tokens."""

MAX_PAIRS = 1 << 10
"""Pairs of dimensions that a list of divisors may have."""

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class RopeConfig:
    """One rotary embedding.

    Attributes:
        kind: ``default``, ``linear``, ``llama3``, ``longrope`` or ``yarn``.
        theta: base of the geometric series of wavelengths.
        factor: how far the context was stretched beyond ``original_context``.
        original_context: positions before stretching, tokens.
        low_freq_factor, high_freq_factor: bounds of llama3's band, periods per original context.
        beta_fast, beta_slow: bounds of yarn's ramp, rotations per original context.
        attention_factor: multiplies cosine and sine; 1 for everything but longrope and yarn.
        truncate: yarn's ramp begins and ends at whole dimensions.
        divisors: longrope's, of the frequency of each pair of dimensions.
    """

    kind: str = "default"
    theta: float = 10000.0
    factor: float = 1.0
    original_context: int = 0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    attention_factor: float = 1.0
    truncate: bool = True
    divisors: tuple[float, ...] = ()


def read_rope(hf: Mapping[str, Any], *, context: int, theta: float) -> RopeConfig:
    """The rotary embedding of a parsed config.json, in either spelling.

    transformers 5 writes ``rope_parameters`` with everything inside; earlier versions wrote
    ``rope_theta`` beside a ``rope_scaling`` that may call its kind ``type``.

    Args:
        context: the model's most positions, which stands in for a missing original context.
        theta: the family's base where the config names none.

    Raises:
        UnsupportedError: a kind or a partial rotation that is not implemented.
        CheckpointError: a missing, mistyped or senseless value.
    """
    top = ConfigFields(hf)
    key = "rope_scaling" if top.mapping("rope_scaling") else "rope_parameters"
    fields = ConfigFields(top.mapping(key) or {}, where=f"{key!r} of config.json")
    kind = fields.text("rope_type", fields.text("type", "default"))
    if kind not in _READERS:
        raise UnsupportedError(
            f"Rotary embeddings of type {shorten(kind)} are not implemented.",
            remedy=f"Implemented: {', '.join(_READERS)}.",
            code="unsupported.rope",
        )
    for source in (top, fields):
        rotated = source.number("partial_rotary_factor", 0.0, 1.0, 1.0)
        if rotated != 1.0:
            raise UnsupportedError(
                f"partial_rotary_factor {rotated:g} rotates only part of a head.",
                remedy="Use a model that rotates whole heads (partial_rotary_factor 1).",
                code="unsupported.rope",
            )
    outer_theta = top.number("rope_theta", 1.0, 1e12, theta)
    theta = fields.number("rope_theta", 1.0, 1e12, outer_theta)
    return _READERS[kind](fields, top, theta, context)


def _read_default(
    fields: ConfigFields, top: ConfigFields, theta: float, context: int
) -> RopeConfig:
    return RopeConfig(theta=theta)


def _read_linear(fields: ConfigFields, top: ConfigFields, theta: float, context: int) -> RopeConfig:
    return RopeConfig("linear", theta, _factor(fields))


def _read_llama3(fields: ConfigFields, top: ConfigFields, theta: float, context: int) -> RopeConfig:
    low = fields.number("low_freq_factor", 1e-3, 1e6)
    high = fields.number("high_freq_factor", 1e-3, 1e6)
    if high <= low:
        raise CheckpointError(
            f"high_freq_factor {high:g} in {fields.where} is not above low_freq_factor {low:g}.",
            remedy="Correct config.json; Llama 3.1 uses 4 and 1.",
            code="checkpoint.config",
        )
    return RopeConfig(
        "llama3",
        theta,
        _factor(fields),
        _original_context(fields, top, context),
        low_freq_factor=low,
        high_freq_factor=high,
    )


def _read_yarn(fields: ConfigFields, top: ConfigFields, theta: float, context: int) -> RopeConfig:
    original = _original_context(fields, top, context)
    factor = _factor(fields, default=max(1.0, context / original))
    beta_fast = fields.number("beta_fast", 0.0, 1e6, 32.0) or 32.0
    beta_slow = fields.number("beta_slow", 0.0, 1e6, 1.0) or 1.0
    if beta_fast < beta_slow or theta <= 1.0:
        raise CheckpointError(
            f"yarn needs beta_fast ({beta_fast:g}) at or above beta_slow ({beta_slow:g}) and "
            f"rope_theta ({theta:g}) above 1.",
            remedy="Correct config.json; the usual values are 32, 1 and 10000 or more.",
            code="checkpoint.config",
        )
    return RopeConfig(
        "yarn",
        theta,
        factor,
        original,
        beta_fast=beta_fast,
        beta_slow=beta_slow,
        attention_factor=_yarn_attention_factor(fields, factor),
        truncate=fields.flag("truncate", True),
    )


def _read_longrope(
    fields: ConfigFields, top: ConfigFields, theta: float, context: int
) -> RopeConfig:
    divisors = fields.numbers("long_factor", 1e-6, 1e32, most=MAX_PAIRS)
    if fields.numbers("short_factor", 1e-6, 1e32, most=MAX_PAIRS) != divisors:
        raise UnsupportedError(
            "A longrope whose short_factor and long_factor differ is not implemented: keys would "
            "turn with the length of the text.",
            remedy="Use a model that rotates short and long texts alike.",
            code="unsupported.rope",
        )
    original = _original_context(fields, top, context)
    factor = _factor(fields, default=max(1.0, context / original))
    scale = (
        math.sqrt(1 + math.log(factor) / math.log(original)) if min(factor, original) > 1 else 1.0
    )
    return RopeConfig(
        "longrope",
        theta,
        factor,
        original,
        attention_factor=fields.number("attention_factor", 1e-3, 1e3, scale),
        divisors=divisors,
    )


_READERS: dict[str, Callable[[ConfigFields, ConfigFields, float, int], RopeConfig]] = {
    "default": _read_default,
    "linear": _read_linear,
    "llama3": _read_llama3,
    "longrope": _read_longrope,
    "yarn": _read_yarn,
}


def _factor(fields: ConfigFields, **default: float) -> float:
    return fields.number("factor", 1.0, 1e6, **default)


def _original_context(fields: ConfigFields, top: ConfigFields, context: int) -> int:
    key = "original_max_position_embeddings"
    source = top if top.has(key) else fields
    return source.integer(key, 1, MAX_CONTEXT, context)


def _yarn_attention_factor(fields: ConfigFields, factor: float) -> float:
    if fields.has("attention_factor"):
        return fields.number("attention_factor", 1e-3, 1e3)
    mscale = fields.number("mscale", 0.0, 1e3, 0.0)
    all_dim = fields.number("mscale_all_dim", 0.0, 1e3, 0.0)
    if mscale and all_dim:
        return _yarn_mscale(factor, mscale) / _yarn_mscale(factor, all_dim)
    return _yarn_mscale(factor, 1.0)


def _yarn_mscale(factor: float, weight: float) -> float:
    return 1.0 if factor <= 1.0 else 0.1 * weight * math.log(factor) + 1.0


def inverse_frequencies(rope: RopeConfig, head_dim: int) -> Floats:
    """Radians per position of each pair of dimensions, float32 ``[head_dim / 2]``."""
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
    angles = np.outer(np.arange(context, dtype=np.float32), inverse_frequencies(rope, head_dim))
    table = np.empty((context, 2, head_dim // 2), np.float32)
    scale = np.float32(rope.attention_factor)
    for row, function in enumerate((np.cos, np.sin)):
        # In float64, because float32 implementations differ in the last bit between libraries.
        np.multiply(function(angles, dtype=np.float64).astype(np.float32), scale, out=table[:, row])
    return table
