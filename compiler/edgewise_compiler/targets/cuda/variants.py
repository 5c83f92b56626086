"""CUDA's programs: what each computes in."""

from __future__ import annotations

from dataclasses import replace

from edgewise_compiler.quantize import SCHEMES
from edgewise_compiler.state import KV_KINDS, KV_SUFFIXES
from edgewise_compiler.targets.cuda.fatbin import CUBINS
from edgewise_compiler.targets.gpu.variant import Variant

VARIANTS = (
    Variant("cuda-f16", half=True, subgroups=True),
    Variant("cuda-f32", half=False, subgroups=True),
)
"""Every program of float arithmetic, in order of preference. Their subgroups are warps."""

INT8_VARIANTS = (Variant("cuda-a8", half=True, subgroups=True, int8=True),)
"""Programs for integer weights that round a prompt's activations to int8: on request, or where a
device finds them much faster."""


def variants_for(scheme: str, kv: str = "auto") -> tuple[Variant, ...]:
    """The programs made for a weight scheme, and for pages as the option ``kv`` has them.

    Of their own they hold float16, and float32 where weights are floats themselves and float16 is
    nowhere else.
    """
    integer = SCHEMES[scheme].integer
    made = []
    for variant in VARIANTS + (INT8_VARIANTS if integer else ()):
        own = "float16" if integer or variant.half else "float32"
        dtype = KV_KINDS[kv] or own
        suffix = "" if dtype == own else KV_SUFFIXES[dtype]
        made.append(replace(variant, name=variant.name + suffix, kv_dtype=dtype))
    return tuple(made)


def features_of(variant: Variant) -> tuple[str, ...]:
    """The features a program needs: an architecture that its fatbins have code for, or a later."""
    return (f"sm_{min(CUBINS)}",)
