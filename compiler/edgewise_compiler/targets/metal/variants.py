"""Metal's programs: what each computes in."""

from __future__ import annotations

from dataclasses import replace

from edgewise_compiler.quantize import SCHEMES
from edgewise_compiler.state import KV_KINDS, KV_SUFFIXES
from edgewise_compiler.targets.gpu.variant import Variant

VARIANTS = (
    Variant("metal-f16", half=True, subgroups=True),
    Variant("metal-f32", half=False, subgroups=True),
)
"""Every program, in order of preference. Their subgroups are SIMD-groups, of any width. None
multiplies integers: MSL has no instruction for dot products of bytes."""


def variants_for(scheme: str, kv: str = "auto") -> tuple[Variant, ...]:
    """The programs made for a weight scheme, and for pages as the option ``kv`` has them.

    Of their own they hold float16, and float32 where weights are floats themselves and float16 is
    nowhere else.
    """
    made = []
    for variant in VARIANTS:
        own = "float16" if SCHEMES[scheme].integer or variant.half else "float32"
        dtype = KV_KINDS[kv] or own
        suffix = "" if dtype == own else KV_SUFFIXES[dtype]
        made.append(replace(variant, name=variant.name + suffix, kv_dtype=dtype))
    return tuple(made)


def features_of(variant: Variant) -> tuple[str, ...]:
    """The features a program needs: none that any GPU of Apple's processors is without."""
    return ()
