"""CUDA's programs: what each computes in."""

from __future__ import annotations

from edgewise_compiler.targets.cuda.fatbin import CUBINS
from edgewise_compiler.targets.gpu.variant import Variant, made_for

VARIANTS = (
    Variant("cuda-f16", half=True, subgroups=True, tensor=True),
    Variant("cuda-f32", half=False, subgroups=True),
)
"""Every program of float arithmetic, in order of preference. Their subgroups are warps."""

INT8_VARIANTS = (Variant("cuda-a8", half=True, subgroups=True, int8=True),)
"""Programs for integer weights that round a prompt's activations to int8: on request, or where a
device finds them much faster."""


def variants_for(scheme: str, kv: str = "auto") -> tuple[Variant, ...]:
    """The programs made for a weight scheme, and for pages as the option ``kv`` has them."""
    return made_for(VARIANTS, INT8_VARIANTS, scheme, kv)


def features_of(variant: Variant) -> tuple[str, ...]:
    """The features a program needs: an architecture that its fatbins have code for, or a later."""
    return (f"sm_{min(CUBINS)}",)
