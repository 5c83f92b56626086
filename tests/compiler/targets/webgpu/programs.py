"""The plans of WebGPU programs, without weights, shaders or a bundle."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from edgewise_compiler.checkpoint import open_checkpoint
from edgewise_compiler.graph.build import GPU_FEW_ROWS, GPU_MANY_ROWS, build_graphs, shared_sizes
from edgewise_compiler.layouts.order import linear_widths
from edgewise_compiler.layouts.packing import layout_tensors
from edgewise_compiler.layouts.rows import GPU
from edgewise_compiler.layouts.schemes import linear_schemes
from edgewise_compiler.options import Bounds
from edgewise_compiler.quantize import find_preset
from edgewise_compiler.targets.gpu.lowering import GpuLowering
from edgewise_compiler.targets.gpu.plans import PlanSet, plans
from edgewise_compiler.targets.gpu.variant import Variant
from edgewise_compiler.targets.lowering import param_tensors, parts_of
from edgewise_compiler.targets.webgpu.program import LANGUAGE

BOUNDS = Bounds(rows=512, batch=8, context=1024)


@cache
def program_plans(
    checkpoint: Path, quant: str, variant: Variant, bounds: Bounds = BOUNDS
) -> tuple[GpuLowering, PlanSet]:
    """How the checkpoint is lowered for a variant over a weight scheme, and its plans."""
    with open_checkpoint(checkpoint) as opened:
        cfg, family = opened.model, opened.family
    params = family.params(cfg)
    schemes = linear_schemes(find_preset(quant), params)
    tensors = param_tensors(layout_tensors(GPU, schemes, params, bounds.context))
    widths = linear_widths(params)
    many, few = (
        build_graphs(family, cfg, widths, passes) for passes in (GPU_MANY_ROWS, GPU_FEW_ROWS)
    )
    shared = shared_sizes(many)
    low = GpuLowering(
        shared,
        bounds,
        tensors,
        parts_of(GPU, schemes, params),
        variant.kv_dtype,
        variant,
        LANGUAGE.limits,
    )
    return low, plans(low, many, few, joining=LANGUAGE.joining)
