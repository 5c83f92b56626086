"""No kernel is made whose indices may be more than their integers hold."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import pytest
from tvm import tirx
from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, PrimFunc

from edgewise_compiler.kernels.cpu.vector import let
from edgewise_compiler.kernels.function import STEP, Arg, block, kernel, live_rows
from edgewise_compiler.kernels.gpu.thread import Thread
from edgewise_compiler.kernels.gpu.thread import kernel as gpu_kernel
from edgewise_compiler.kernels.gpu.thread import store as gpu_store
from edgewise_compiler.kernels.ranges import Range
from edgewise_compiler.options import Bounds
from edgewise_compiler.targets.gpu.variant import Variant
from edgewise_compiler.targets.webgpu.variants import variants_for
from edgewise_runtime.errors import UnsupportedError
from edgewise_runtime.format.abi import (
    ROWS,
)
from tests.compiler.kernels.every_kernel import (
    QWEN3,
    cpu_calls,
    gpu_calls,
    kernels_of,
    wide_buffers,
)

ISA = "portable"
LARGEST = Bounds(rows=4096, batch=256, context=1 << 20)
VARIANTS = (*variants_for("q4"), *variants_for("q4", "int8"))


# --- every kernel of a program -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("quant", "isa", "kv"),
    [
        ("q4", "avx512vnni", None),
        pytest.param("q8", "avx2", "int8", marks=pytest.mark.full),
        pytest.param("f32", "portable", None, marks=pytest.mark.full),
    ],
)
def test_no_kernel_for_cpus_counts_in_64_bits_at_the_bounds_of_today(
    quant: str, isa: str, kv: str | None
) -> None:
    found = kernels_of(cpu_calls(QWEN3, LARGEST, quant, isa, kv))
    assert len(found) >= 14
    wide = {name: wide_buffers(function) for name, function in found.items()}
    assert {name: buffers for name, buffers in wide.items() if buffers} == {}


@pytest.mark.parametrize(
    "variant",
    [
        pytest.param(v, id=v.name, marks=() if v.name == "webgpu-f16" else pytest.mark.full)
        for v in VARIANTS
    ],
)
def test_every_kernel_for_gpus_is_proven_at_a_context_of_a_million(variant: Variant) -> None:
    bounds = Bounds(rows=4096, batch=8, context=1 << 20)
    assert len(kernels_of(gpu_calls(QWEN3, bounds, "q4", variant))) >= 20


# --- what the proof sees -------------------------------------------------------------------------

X = Arg("x", "float32", (1 << 10, 1 << 10))
NUMBERS = Arg("numbers", "int32", (8,))
PROMISED = Arg("promised", "int32", (8,), (Range(0, 99),))


def counted(x: Buffer, rounds: Expr | int, step: int) -> None:
    at = T.sblock_alloc_buffer((1,), "int32")
    T.buffer_store(at, 0, [0])
    with T.serial(0, rounds):
        T.buffer_store(at, at[0] + step, [0])
    T.buffer_store(x, 1.0, [0, at[0]])


def walked(x: Buffer, numbers: Buffer, *, bounded: bool) -> None:
    left, at = (T.sblock_alloc_buffer((1,), "int32") for _ in range(2))
    T.buffer_store(left, 1000, [0])
    T.buffer_store(at, 0, [0])
    more = left[0] >= T.max(numbers[0], 0)
    with T.While(tirx.all(at[0] < 99, more) if bounded else more):
        T.buffer_store(left, left[0] - T.max(numbers[0], 0), [0])
        T.buffer_store(at, at[0] + 1, [0])
    T.buffer_store(x, 1.0, [at[0], left[0]])


def guarded(x: Buffer, numbers: Buffer, *, again: bool) -> None:
    at = T.sblock_alloc_buffer((1,), "int32")
    T.buffer_store(at, numbers[0], [0])
    with T.If(tirx.all(at[0] >= 0, at[0] < 100)), T.Then():
        if again:
            T.buffer_store(at, numbers[1], [0])
        T.buffer_store(x, 1.0, [at[0], 0])


def around_the_clock(x: Buffer, most: int) -> None:
    with T.serial(0, most) as i:
        T.buffer_store(x, 1.0, [T.floordiv(i * 70000, 70000), 0])


def unless(x: Buffer, numbers: Buffer) -> None:
    at = T.bind(numbers[0])
    with T.If(tirx.any(at < 0, at > 99)):
        with T.Then():
            T.buffer_store(x, 1.0, [0, 0])
        with T.Else():
            T.buffer_store(x, 1.0, [at, 0])


Body = Callable[[Buffer, Buffer, Buffer], None]
PROVEN: dict[str, Body] = {
    "a product that fits": lambda x, a, b: around_the_clock(x, 30000),
    "what is counted up in a loop": lambda x, a, b: counted(x, 1000, 3),
    "as often as a number says that is kept": lambda x, a, b: counted(x, T.min(a[0], 1000), 3),
    "a walk that ends": lambda x, a, b: walked(x, a, bounded=True),
    "a number within a guard": lambda x, a, b: guarded(x, a, again=False),
    "a number where a guard does not hold": lambda x, a, b: unless(x, a),
    "a number that is kept": lambda x, a, b: T.buffer_store(x, 1.0, [T.max(0, T.min(a[0], 99)), 0]),
    "a number that is promised": lambda x, a, b: T.buffer_store(x, 1.0, [b[0] * 10, 0]),
}
NOT_PROVEN: dict[str, Body] = {
    "a product that does not fit, of which the quotient would": lambda x, a, b: around_the_clock(
        x, 31000
    ),
    "what is counted up too often": lambda x, a, b: counted(x, 1 << 30, 3),
    "as often as any number says": lambda x, a, b: counted(x, a[0], 3),
    "a walk without an end": lambda x, a, b: walked(x, a, bounded=False),
    "a number that changed since the guard": lambda x, a, b: guarded(x, a, again=True),
    "any number": lambda x, a, b: T.buffer_store(x, 1.0, [a[0], 0]),
    "any number in a register": lambda x, a, b: T.buffer_store(x, 1.0, [0, let(a[0])]),
    "a number that is promised, too many times": lambda x, a, b: T.buffer_store(
        x, 1.0, [b[0] * 21800000, 0]
    ),
}


def made(body: Body) -> PrimFunc:
    def whole(x: Buffer, numbers: Buffer, promised: Buffer) -> None:
        with block("all"):
            body(x, numbers, promised)

    return kernel("example", (X, NUMBERS, PROMISED), whole)


@pytest.mark.parametrize("what", PROVEN)
def test_it_follows_what_an_index_is_made_of(what: str) -> None:
    assert wide_buffers(made(PROVEN[what])) == set()


@pytest.mark.parametrize("what", NOT_PROVEN)
def test_it_refuses_what_an_index_may_not_hold(what: str) -> None:
    with pytest.raises(UnsupportedError, match="'example' counts up to") as refused:
        made(NOT_PROVEN[what])
    assert refused.value.code == "unsupported.index"


PARTS = (32, 32, 16384, 144)
"""Sequences, heads, segments, and a segment's results: attention with contexts of 1,048,576."""


def parts_written(shape: tuple[int, ...]) -> PrimFunc:
    """Writes to each sequence's last part: by four indices, or by the one that they come to."""

    def body(part: Buffer, numbers: Buffer, promised: Buffer) -> None:
        with block("all"), T.serial(0, T.min(promised[0], PARTS[0] - 1)) as s:
            at = (s, 31, 16383, 0)
            if len(shape) == 1:
                at = ((((s * PARTS[1]) + 31) * PARTS[2] + 16383) * PARTS[3],)
            T.buffer_store(part, 1.0, list(at))

    return kernel("example", (Arg("part", "float32", shape), NUMBERS, PROMISED), body)


def test_parts_of_a_million_tokens_are_counted_in_64_bits_or_refused() -> None:
    assert wide_buffers(parts_written(PARTS)) == {"part"}
    with pytest.raises(UnsupportedError, match=r"counts up to 2,340,421,488 for 'part', more than"):
        parts_written((prod(PARTS),))


def test_a_refusal_names_the_option_that_has_to_be_smaller() -> None:
    def body(x: Buffer, step: Buffer) -> None:
        with block("all"), T.serial(0, live_rows(step, ROWS, 1 << 30)) as i:
            T.buffer_store(x, 1.0, [i * 4])

    with pytest.raises(UnsupportedError) as refused:
        kernel("example", (Arg("x", "float32", (1 << 32,)), STEP), body)
    assert refused.value.message == (
        "The kernel 'example' counts up to 4,294,967,292 for 'x', more than int32 holds."
    )
    assert refused.value.remedy == "Choose a smaller --prefill-chunk."


@pytest.mark.parametrize(("rows", "fits"), [(1 << 11, True), ((1 << 11) + 1, False)])
def test_a_gpu_kernel_is_refused_where_a_cpu_would_count_in_64_bits(rows: int, fits: bool) -> None:
    def body(thread: Thread, x: Buffer) -> None:
        gpu_store(x, 1.0, thread.x, thread.t * (1 << 14))

    def make() -> None:
        arguments = (Arg("x", "float32", (rows, 1 << 20)),)
        gpu_kernel("example", arguments, body, threads=64, grid=("b", 1), bounds={"b": rows})

    if fits:
        make()
        return
    with pytest.raises(UnsupportedError) as refused:
        make()
    assert refused.value.remedy == "Choose a smaller --max-batch."
