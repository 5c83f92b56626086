"""MSL of kernels: what programs, compilers and devices can count on in every text."""

from __future__ import annotations

import re

import pytest
from tvm.tirx import Buffer

from edgewise_compiler.kernels.function import Arg
from edgewise_compiler.kernels.gpu.limits import LEAST
from edgewise_compiler.kernels.gpu.operations import OPERATIONS, cast, fma, lane, number, splat
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
from edgewise_compiler.targets.metal.codegen import shader
from edgewise_compiler.targets.metal.limits import LIMITS
from edgewise_compiler.targets.metal.prelude import FUNCTIONS, HEADER
from edgewise_compiler.targets.metal.spelling import MSL
from edgewise_compiler.targets.metal.variants import VARIANTS, features_of, variants_for
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
    assert MSL.operations.keys() == OPERATIONS.keys()


def test_a_kernel_is_a_function_of_its_name_with_its_threads_and_buffers_in_order() -> None:
    made = shader(scaled().function)
    assert (made.entry, made.workgroup) == ("scaled", (64, 1, 1))
    assert made.access == ("read", "read_write")
    assert made.source == HEADER + (
        "[[max_total_threads_per_threadgroup(64)]] kernel void scaled(\n"
        "    device const float4* b0_x [[buffer(0)]],\n"
        "    device float* b1_y [[buffer(1)]],\n"
        "    uint3 group [[threadgroup_position_in_grid]],\n"
        "    uint index [[thread_index_in_threadgroup]]) {\n"
        "  threadgroup float4 s1[64];\n"
        "  const int x = int(group.x);\n"
        "  const int y = int(group.y);\n"
        "  const int t = int(index);\n"
        "  const float4 v1 = b0_x[(x * 64) + t];\n"
        "  s1[t] = fma(v1, float4(2.0f), v1);\n"
        "  threadgroup_barrier(mem_flags::mem_threadgroup);\n"
        "  b1_y[t] = s1[t].w;\n"
        "}\n"
    )


def test_fast_math_is_off_in_every_text() -> None:
    for pragma in ("math_mode(safe)", "contract(off)"):
        assert f"#pragma METAL fp {pragma}\n" in HEADER


def test_the_width_of_a_simdgroup_is_asked_for_where_subgroups_are_used() -> None:
    source = shader(scaled(subgroups=True).function).source
    assert "uint simd_width [[threads_per_simdgroup]]) {" in source
    assert re.search(r"= simd_shuffle_xor\(v\d+\.y, ushort\(1u\)\);", source)
    assert "simd_width" not in shader(scaled().function).source


def test_functions_of_ours_are_in_the_texts_that_use_them() -> None:
    def body(thread: Thread, x: Buffer, y: Buffer) -> None:
        store(y, cast(x[thread.t], "uint32"), thread.t)

    arguments = [Arg("x", "float32", (4,)), Arg("y", "uint32", (4,))]
    made = kernel("cut", arguments, body, threads=4, grid=(1, 1), bounds={})
    source = shader(made.function).source
    assert FUNCTIONS in source
    assert "b1_y[t] = ew_uint(b0_x[t]);" in source
    assert FUNCTIONS not in shader(scaled().function).source


def test_a_kernel_beyond_the_limits_is_refused_by_the_targets_name() -> None:
    with pytest.raises(CompileError, match="Metal allows 1024") as caught:
        shader(scaled(LIMITS.threads * 2).function)
    assert caught.value.code == "compile.limits"


def test_the_limits_are_no_less_than_those_that_kernels_are_written_for() -> None:
    for name in ("buffers", "threads", "shared", "workgroups", "binding"):
        assert getattr(LIMITS, name) >= getattr(LEAST, name)


@pytest.mark.parametrize(
    ("scheme", "kv", "names"),
    [
        ("q4", "auto", {"metal-f16": "float16", "metal-f32": "float16"}),
        ("f32", "auto", {"metal-f16": "float16", "metal-f32": "float32"}),
        ("q4", "int8", {"metal-f16-kv8": "int8", "metal-f32-kv8": "int8"}),
    ],
)
def test_programs_need_nothing_and_their_pages_are_those_that_were_asked_for(
    scheme: str, kv: str, names: dict[str, str]
) -> None:
    assert {v.name: v.kv_dtype for v in variants_for(scheme, kv)} == names
    assert {features_of(variant) for variant in VARIANTS} == {()}
