"""Rotary position embeddings as config.json describes them; `rotation` computes their tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from edgewise_compiler.models.fields import ConfigFields
from edgewise_compiler.models.traits import Trait, refuse, said
from edgewise_runtime.errors import CheckpointError
from edgewise_runtime.format.reading import shorten

MAX_CONTEXT = 1 << 24
"""Positions are exact in float32 below this, tokens."""

MAX_PAIRS = 1 << 10
"""Pairs of dimensions that a list of divisors may have."""


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
        short_divisors: the same where the context is not stretched; empty where they do not differ.
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
    short_divisors: tuple[float, ...] = ()


def read_rope(
    hf: Mapping[str, Any], *, context: int, theta: float, has: Collection[str] = ()
) -> RopeConfig:
    """The rotary embedding of a parsed config.json, in either spelling.

    transformers 5 writes ``rope_parameters`` with everything inside; earlier versions wrote
    ``rope_theta`` beside a ``rope_scaling`` that may call its kind ``type``.

    Args:
        context: the model's most positions, which stands in for a missing original context.
        theta: the family's base where the config names none.
        has: names of the traits below that the family knows.

    Raises:
        UnsupportedError: a kind or a partial rotation that is not implemented.
        CheckpointError: a missing, mistyped or senseless value.
    """
    top = ConfigFields(hf)
    refuse((trait for trait in TRAITS if trait.name not in has), top)
    fields = _scaling(top)
    outer_theta = top.number("rope_theta", 1.0, 1e12, theta)
    theta = fields.number("rope_theta", 1.0, 1e12, outer_theta)
    return _READERS[_kind(fields)](fields, top, theta, context)


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
    short, divisors = (
        fields.numbers(key, 1e-6, 1e32, most=MAX_PAIRS) for key in ("short_factor", "long_factor")
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
        short_divisors=() if short == divisors else short,
    )


def _scaling(top: ConfigFields) -> ConfigFields:
    """What config.json says of the rotation, under either name."""
    key = "rope_scaling" if top.mapping("rope_scaling") else "rope_parameters"
    return ConfigFields(top.mapping(key) or {}, where=f"{key!r} of config.json")


def _kind(fields: ConfigFields) -> str:
    return fields.text("rope_type", fields.text("type", "default"))


_READERS: dict[str, Callable[[ConfigFields, ConfigFields, float, int], RopeConfig]] = {
    "default": _read_default,
    "linear": _read_linear,
    "llama3": _read_llama3,
    "longrope": _read_longrope,
    "yarn": _read_yarn,
}

KINDS = tuple(_READERS)
"""What ``rope_type`` may be."""


def _several(top: ConfigFields) -> str | None:
    """transformers 5 has an object by kind of layer where these rotate differently."""
    kinds = [kind for kind, value in _scaling(top).values.items() if isinstance(value, dict)]
    return f"rope_parameters has {shorten(kinds, 60)}" if kinds else None


def _unknown_kind(top: ConfigFields) -> str | None:
    kind = _kind(_scaling(top))
    return None if kind in KINDS else said("rope_type", kind)


def _partial(top: ConfigFields) -> str | None:
    for fields in (top, _scaling(top)):
        for key in ("partial_rotary_factor", "rotary_pct"):
            rotated = fields.number(key, 0.0, 1.0, 1.0)
            if rotated != 1.0:
                return said(key, rotated)
    return None


PARTIAL = "rotations of a part of each head"

TRAITS = tuple(
    Trait(name, keys, have, "unsupported.rope", find)
    for name, keys, have, find in (
        (
            "a rotation for each kind of layer",
            ("rope_parameters",),
            "one rotation for all layers",
            _several,
        ),
        (
            "rotary embeddings of this type",
            ("rope_scaling", "rope_parameters"),
            f"rope_type {', '.join(KINDS)}",
            _unknown_kind,
        ),
        (
            PARTIAL,
            ("partial_rotary_factor", "rotary_pct"),
            "heads that are rotated as a whole",
            _partial,
        ),
    )
)
"""What configurations may ask for of rotations that is not there."""


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
