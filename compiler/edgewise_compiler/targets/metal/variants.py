"""Metal's programs: what each computes in."""

from __future__ import annotations

from edgewise_compiler.targets.gpu.variant import Variant, made_for

VARIANTS = (
    Variant("metal-f16", half=True, subgroups=True),
    Variant("metal-f32", half=False, subgroups=True),
)
"""Every program, in order of preference. Their subgroups are SIMD-groups, of any width. None
multiplies integers: MSL has no instruction for dot products of bytes."""


def variants_for(scheme: str, kv: str = "auto") -> tuple[Variant, ...]:
    """The programs made for a weight scheme, and for pages as the option ``kv`` has them."""
    return made_for(VARIANTS, (), scheme, kv)


def features_of(variant: Variant) -> tuple[str, ...]:
    """The features a program needs: none that any GPU of Apple's processors is without."""
    return ()
