"""No kernel is made whose indices may be more than their integers hold."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import s_tir, tirx
from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, PrimFunc

from edgewise_compiler.kernels.attention import AttentionSpec, RopeSpec
from edgewise_compiler.kernels.cpu.attention.decode import attention_decode
from edgewise_compiler.kernels.cpu.attention.prefill import attention_prefill
from edgewise_compiler.kernels.cpu.elementwise.embed import embed
from edgewise_compiler.kernels.cpu.elementwise.norm import rms_norm
from edgewise_compiler.kernels.cpu.elementwise.quantize import quantize
from edgewise_compiler.kernels.cpu.elementwise.rope import rope_append
from edgewise_compiler.kernels.cpu.elementwise.unfused import add, gather, swiglu
from edgewise_compiler.kernels.cpu.matmul.floats import matmul_float
from edgewise_compiler.kernels.cpu.matmul.ints import matmul_int
from edgewise_compiler.kernels.cpu.sampling.logprobs import logprobs
from edgewise_compiler.kernels.cpu.sampling.record import record
from edgewise_compiler.kernels.cpu.sampling.sample import sample
from edgewise_compiler.kernels.cpu.vector import let
from edgewise_compiler.kernels.function import STEP, Arg, block, kernel, live_rows
from edgewise_compiler.kernels.gpu.limits import LEAST
from edgewise_compiler.kernels.gpu.thread import Thread
from edgewise_compiler.kernels.gpu.thread import kernel as gpu_kernel
from edgewise_compiler.kernels.gpu.thread import store as gpu_store
from edgewise_compiler.kernels.matmul import MatmulSpec
from edgewise_compiler.kernels.norm import NormSpec
from edgewise_compiler.kernels.ranges import Range
from edgewise_compiler.kernels.sampling import SamplingSpec
from edgewise_compiler.options import Bounds
from edgewise_compiler.targets.webgpu.variants import variants_for
from edgewise_runtime.errors import UnsupportedError
from edgewise_runtime.format.abi import ROWS
from tests.compiler.kernels.every_kernel import LLAMA, QWEN3, cpu_calls, gpu_calls, kernels_of

ISA = "portable"
LIMIT = 1 << 31
LARGEST = Bounds(rows=4096, batch=256, context=1 << 20)
VARIANTS = (*variants_for("q4"), *variants_for("q4", "int8"))


def wide_buffers(function: PrimFunc) -> set[str]:
    """The arguments whose elements are counted in 64 bits; pages always are."""
    return {
        parameter.name
        for parameter in function.params
        if parameter.name not in ("kv", "kv_scale") and "int64" in str(parameter.shape[0].ty)
    }


# --- every kernel of a program -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("quant", "isa", "kv"),
    [("q4", "avx512vnni", None), ("q8", "avx2", "int8"), ("f32", "portable", None)],
)
def test_no_kernel_for_cpus_counts_in_64_bits_at_the_bounds_of_today(
    quant: str, isa: str, kv: str | None
) -> None:
    found = kernels_of(cpu_calls(QWEN3, LARGEST, quant, isa, kv))
    assert len(found) >= 14
    wide = {name: wide_buffers(function) for name, function in found.items()}
    assert {name: buffers for name, buffers in wide.items() if buffers} == {}
