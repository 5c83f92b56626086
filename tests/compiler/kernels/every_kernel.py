"""Every kernel of a program of a model of which there is nothing but its sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tvm.tirx import PrimFunc

from edgewise_compiler.graph.build import (
    CPU_FLOAT,
    CPU_INTEGER,
    GPU_FEW_ROWS,
    GPU_MANY_ROWS,
    build_graphs,
    shared_sizes,
)
from edgewise_compiler.kernels.gpu.limits import Limits
from edgewise_compiler.layouts.order import linear_widths
from edgewise_compiler.layouts.packing import layout_tensors
from edgewise_compiler.layouts.schemes import linear_schemes
from edgewise_compiler.layouts.table import LAYOUTS
from edgewise_compiler.models.base import ModelConfig
from edgewise_compiler.models.families import find_family
from edgewise_compiler.options import Bounds
from edgewise_compiler.plan.calls import Call
from edgewise_compiler.quantize import find_preset
from edgewise_compiler.targets.cpu import lower as cpu
from edgewise_compiler.targets.gpu.lowering import GpuLowering
from edgewise_compiler.targets.gpu.plans import PlanSet
from edgewise_compiler.targets.gpu.plans import plans as gpu_plans
from edgewise_compiler.targets.gpu.variant import Variant
from edgewise_compiler.targets.lowering import param_tensors, parts_of
from edgewise_compiler.targets.webgpu.limits import LIMITS

LLAMA: Mapping[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 4096,
    "num_hidden_layers": 1,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "max_position_embeddings": 1 << 20,
    "rms_norm_eps": 1e-5,
    "rope_theta": 500000.0,
    "tie_word_embeddings": False,
}
"""A layer of a Llama of 8 billion weights."""

QWEN3 = {**LLAMA, "architectures": ["Qwen3ForCausalLM"], "attention_bias": True}


def cpu_calls(
    hf: Mapping[str, Any], bounds: Bounds, quant: str, isa: str, kv: str | None = None
) -> Iterator[Call]:
    """The calls of a CPU program's plans."""
    family, cfg = _model(hf)
    params = family.params(cfg)
    recipe = find_preset(quant)
    schemes = linear_schemes(recipe, params)
    tensors = param_tensors(layout_tensors(LAYOUTS["cpu"], schemes, params, bounds.context))
    arithmetic = cpu.ARITHMETICS[recipe.default.arithmetic]
    passes = CPU_INTEGER if arithmetic.exact else CPU_FLOAT
    graphs = build_graphs(family, cfg, linear_widths(params), passes)
    kv_dtype = kv or arithmetic.kv_dtype
    parts = parts_of(LAYOUTS["cpu"], schemes, params)
    low = cpu.CpuLowering(shared_sizes(graphs), bounds, tensors, parts, kv_dtype, arithmetic, isa)
    for plan in cpu.plans(low, graphs):
        yield from plan.calls


def gpu_calls(
    hf: Mapping[str, Any], bounds: Bounds, quant: str, variant: Variant, limits: Limits = LIMITS
) -> Iterator[Call]:
    """The calls of `gpu_program`."""
    for plan in gpu_program(hf, bounds, quant, variant, limits).plans:
        yield from plan.calls


def gpu_program(
    hf: Mapping[str, Any], bounds: Bounds, quant: str, variant: Variant, limits: Limits = LIMITS
) -> PlanSet:
    """The plans of a GPU program, of WebGPU, whose linears join, if no other target's limits are
    given."""
    family, cfg = _model(hf)
    params = family.params(cfg)
    schemes = linear_schemes(find_preset(quant), params)
    tensors = param_tensors(layout_tensors(LAYOUTS["gpu"], schemes, params, bounds.context))
    parts = parts_of(LAYOUTS["gpu"], schemes, params)
    many, few = (
        build_graphs(family, cfg, linear_widths(params), passes)
        for passes in (GPU_MANY_ROWS, GPU_FEW_ROWS)
    )
    shared = shared_sizes(many)
    low = GpuLowering(shared, bounds, tensors, parts, variant.kv_dtype, variant, limits)
    return gpu_plans(low, many, few, joining=limits is LIMITS)


def kernels_of(calls: Iterator[Call]) -> dict[str, PrimFunc]:
    """The kernels of calls by their names, each once."""
    return {str(call.kernel.attrs["global_symbol"]): call.kernel for call in calls}


def wide_buffers(function: PrimFunc) -> set[str]:
    """The arguments whose elements are counted in 64 bits; pages always are."""
    return {
        parameter.name
        for parameter in function.params
        if parameter.name not in ("kv", "kv_scale") and "int64" in str(parameter.shape[0].ty)
    }


def _model(hf: Mapping[str, Any]) -> tuple[Any, ModelConfig]:
    family = find_family(hf)
    return family, family.read_config(hf)
