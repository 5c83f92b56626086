"""Vulkan's programs: what each computes in, and the features it needs."""

from __future__ import annotations

from edgewise_compiler.targets.gpu.variant import Variant, made_for

VARIANTS = (
    Variant("vulkan-f16-subgroups", half=True, subgroups=True),
    Variant("vulkan-f16", half=True, subgroups=False),
    Variant("vulkan-f32-subgroups", half=False, subgroups=True),
    Variant("vulkan-f32", half=False, subgroups=False),
    Variant("vulkan-f32-serial", half=False, subgroups=False, serial=True),
)
"""Every program of float arithmetic, in order of preference."""

INT8_VARIANTS = (
    Variant("vulkan-a8-subgroups", half=True, subgroups=True, int8=True),
    Variant("vulkan-a8", half=True, subgroups=False, int8=True),
)
"""Programs for integer weights that round a prompt's activations to int8: on request, or where a
device finds them much faster."""


def variants_for(scheme: str, kv: str = "auto") -> tuple[Variant, ...]:
    """The programs made for a weight scheme, and for pages as the option ``kv`` has them."""
    return made_for(VARIANTS, INT8_VARIANTS, scheme, kv)


def features_of(variant: Variant) -> tuple[str, ...]:
    """What a program needs, by the names that bundles have for it in WebGPU's programs too:
    shaderFloat16 with storageBuffer16BitAccess, shuffles and arithmetic of subgroups that are
    consecutive threads, and shaderIntegerDotProduct."""
    wanted = {
        "shader-f16": variant.half,
        "subgroups": variant.subgroups,
        "packed_4x8_integer_dot_product": variant.int8,
    }
    return tuple(feature for feature, needed in wanted.items() if needed)
