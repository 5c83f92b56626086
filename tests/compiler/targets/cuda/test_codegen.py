"""CUDA C of kernels: what programs, compilers and devices can count on in every text."""

from __future__ import annotations

import re

import pytest
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer

from edgewise_compiler.kernels.function import Arg
from edgewise_compiler.kernels.gpu.operations import (
    MATRIX_OPERATIONS,
    OPERATIONS,
    fma,
    lane,
    number,
    splat,
)
from edgewise_compiler.kernels.gpu.thread import (
    Launch,
    Thread,
    barrier,
    bind,
    kernel,
    shared,
    shuffle_xor,
    store,
)
from edgewise_compiler.targets.cuda.codegen import shader
from edgewise_compiler.targets.cuda.limits import LIMITS
from edgewise_compiler.targets.cuda.spelling import CUDA
from edgewise_runtime.errors import CompileError


def scaled(threads: int = 64, *, subgroups: bool = False) -> Launch:
    """``y = x * 2 + x`` through shared memory, or through the neighbour's lane."""

    def body(thread: Thread, x: Buffer, y: Buffer) -> None:
        value = bind(x[thread.x * threads + thread.t])
        if subgroups:
            store(y, fma(lane(value, 0), number(2.0), shuffle_xor(lane(value, 1), 1)), thread.t)
            return
        scratch = shared((threads,), "float32x4")
        store(scratch, fma(value, splat(number(2.0)), value), thread.t)
        barrier()
        store(y, lane(scratch[thread.t], 3), thread.t)

    arguments = [Arg("x", "float32x4", (threads * 2,)), Arg("y", "float32", (threads,))]
    return kernel(
        "scaled", arguments, body, threads=threads, grid=(2, 1), bounds={}, subgroups=subgroups
    )


def test_every_operation_is_spelled() -> None:
    assert CUDA.operations.keys() == OPERATIONS.keys() | MATRIX_OPERATIONS.keys()


def test_a_kernel_is_a_function_of_its_name_with_its_threads_and_arguments_in_order() -> None:
    made = shader(scaled().function)
    assert made.entry == "scaled"
    assert made.workgroup == (64, 1, 1)
    assert made.access == ("read", "read_write")
    head = """\
extern "C" __global__ void __launch_bounds__(64) scaled(
    const float4* __restrict__ b0_x,
    float* __restrict__ b1_y) {
  __shared__ float4 s1[64];
  const int x = (int)blockIdx.x;
  const int y = (int)blockIdx.y;
  const int t = (int)threadIdx.x;
"""
    assert head in made.source


def test_a_product_that_is_added_to_stays_one_operation() -> None:
    source = shader(scaled(subgroups=True).function).source
    (line,) = (line for line in source.splitlines() if "b1_y[" in line)
    assert re.fullmatch(r"\s*b1_y\[t\] = __fmaf_rn\(v1\.x, 2\.0f, v\d+\);", line)


def test_a_text_needs_no_header_and_only_the_preludes_that_it_uses() -> None:
    def body(thread: Thread, x: Buffer) -> None:
        store(x, x[thread.t] + 1, thread.t)

    made = kernel("one", [Arg("x", "int32", (4,))], body, threads=4, grid=(1, 1), bounds={})
    assert shader(made.function).source.startswith('extern "C" __global__ void')
    with_vectors = shader(scaled().function).source
    assert "EDGEWISE_VECTORS" in with_vectors
    assert "EDGEWISE_HALVES" not in with_vectors
    assert "#include" not in with_vectors


def test_subgroups_are_whole_warps() -> None:
    with pytest.raises(CompileError, match="48 threads, which are no whole warps") as caught:
        shader(scaled(48, subgroups=True).function)
    assert caught.value.code == "compile.limits"


def test_a_kernel_beyond_the_limits_is_refused_by_the_targets_name() -> None:
    with pytest.raises(CompileError, match="CUDA allows 1024") as caught:
        shader(scaled(LIMITS.threads * 2).function)
    assert caught.value.code == "compile.limits"


def test_what_the_language_has_no_word_for_is_refused_by_name() -> None:
    def body(thread: Thread, x: Buffer) -> None:
        store(x, T.sin(x[thread.t]), thread.t)

    made = kernel("odd", [Arg("x", "float32", (4,))], body, threads=4, grid=(1, 1), bounds={})
    with pytest.raises(CompileError, match=r"'odd' asks for .*sin.* CUDA C") as caught:
        shader(made.function)
    assert caught.value.code == "compile.operation"
