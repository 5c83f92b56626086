"""No kernel is made whose indices may be more than their integers hold."""

from __future__ import annotations

from collections.abc import Callable
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
from edgewise_compiler.kernels.gpu.attention.decode import (
    attention_decode as gpu_attention_decode,
)
from edgewise_compiler.kernels.gpu.limits import LEAST
from edgewise_compiler.kernels.gpu.thread import Thread
from edgewise_compiler.kernels.gpu.thread import kernel as gpu_kernel
from edgewise_compiler.kernels.gpu.thread import store as gpu_store
from edgewise_compiler.kernels.matmul import MatmulSpec
from edgewise_compiler.kernels.norm import NormSpec
from edgewise_compiler.kernels.ranges import Range
from edgewise_compiler.kernels.sampling import SamplingSpec
from edgewise_compiler.options import Bounds
from edgewise_compiler.targets.gpu.variant import Variant
from edgewise_compiler.targets.webgpu.variants import variants_for
from edgewise_runtime.errors import UnsupportedError
from edgewise_runtime.format.abi import (
    LIMIT,
    PRESENCE,
    REPETITION,
    ROWS,
    SEQUENCES,
    SLOT,
    shared_buffers,
)
from tests.compiler.kernels.conftest import Array, aligned, build
from tests.compiler.kernels.every_kernel import QWEN3, cpu_calls, gpu_calls, kernels_of

ISA = "portable"
LARGEST = Bounds(rows=4096, batch=256, context=1 << 20)
VARIANTS = (*variants_for("q4"), *variants_for("q4", "int8"))


def sparse(folder: Path, shape: tuple[int, ...], dtype: str) -> Array:
    """Zeros that take no memory and no disk until they are written."""
    return np.memmap(folder / "sparse", dtype, "w+", shape=shape)


def run(function: PrimFunc, *arrays: Array) -> None:
    build([function], ISA)[str(function.attrs["global_symbol"])](*arrays)


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


@pytest.mark.parametrize(("batch", "fits"), [(124, True), (125, False)])
def test_attention_on_a_gpu_is_refused_where_its_parts_are_too_many(batch: int, fits: bool) -> None:
    spec = AttentionSpec(512, batch, 1 << 20, 32, 8, 128, "float16", scale=1.0)
    if fits:
        gpu_attention_decode(spec, LEAST)
        return
    with pytest.raises(UnsupportedError) as refused:
        gpu_attention_decode(spec, LEAST)
    assert refused.value.code == "unsupported.index"
    assert "attention_decode_" in refused.value.message
    assert "'b3_part'" in refused.value.message
    assert refused.value.remedy == "Choose a smaller --max-batch or --context."


# --- one kernel at its edge ----------------------------------------------------------------------

HEADS: dict[str, Any] = {"heads": 8, "kv_heads": 8, "head_dim": 128, "kv_dtype": "float32"}


def sampling_spec(vocab: int) -> SamplingSpec:
    return SamplingSpec(8, 8, 4, vocab, -(-vocab // 32) * 32)


Made = tuple[Callable[[int], PrimFunc], int, set[str]]
"""A kernel by a size, the largest one at which 32 bits count all elements, and whose they do not
count at one more."""

EDGES: dict[str, Made] = {
    "embed": (lambda n: embed("f16", 8, 4096, n * 32, ISA), 1 << 14, {"weight"}),
    "quantize": (lambda n: quantize(n, 4096, ISA), 1 << 19, {"x", "xq"}),
    "rms_norm": (
        lambda n: rms_norm(NormSpec(n, 4096, 1e-5), ISA, quantized=False),
        1 << 19,
        {"x", "y"},
    ),
    # What is asked for ahead of its use is counted, too.
    "matmul_int": (
        lambda n: matmul_int(MatmulSpec(8, n * 32, 4096, "q8"), ISA),
        (1 << 16) - 1,
        {"weight"},
    ),
    "matmul_float": (
        lambda n: matmul_float(MatmulSpec(8, n * 32, 4096, "f16"), ISA),
        (1 << 14) - 1,
        {"weight"},
    ),
    "add": (lambda n: add(n, 4096, 4096, in_place=False, count=ROWS), 1 << 19, {"x", "y", "out"}),
    "swiglu": (lambda n: swiglu(n, 4096, ISA, count=ROWS), 1 << 18, {"x"}),
    "gather": (lambda n: gather(n, 8, 4096), 1 << 19, {"x"}),
    "rope_append": (lambda n: rope_append(RopeSpec(n, 2, 64, **HEADS), ISA), 699050, {"qkv"}),
    # Rows are a sequence's first one and those before a tile: up to twice as many as there are.
    "attention_prefill": (
        lambda n: attention_prefill(AttentionSpec(n, 2, 64, scale=1.0, **HEADS), ISA),
        986887,
        {"q", "out"},
    ),
    "attention_decode": (
        lambda n: attention_decode(AttentionSpec(8, n, 1 << 16, scale=1.0, **HEADS), ISA),
        523264,
        {"table"},
    ),
    "sample": (
        lambda n: sample(sampling_spec(n), ISA, advance=True),
        (1 << 28) - 32,
        {"scores", "logits"},
    ),
    "record": (lambda n: record(sampling_spec(n), advance=True), 1 << 28, {"counts"}),
    "logprobs": (lambda n: logprobs(sampling_spec(n), ISA), 1 << 28, {"logits"}),
}


@pytest.mark.parametrize("name", EDGES)
def test_a_kernel_counts_elements_in_64_bits_from_the_size_on_that_needs_it(name: str) -> None:
    make, last, buffers = EDGES[name]
    assert wide_buffers(make(last)) == set()
    assert wide_buffers(make(last + 1)) == buffers


def test_what_is_counted_in_64_bits_is_still_so_once_it_is_lowered() -> None:
    make, last, _ = EDGES["record"]
    module = tvm.IRModule({"main": make(last + 1)})
    for step in (
        s_tir.transform.ConvertBlocksToOpaque(),
        s_tir.transform.LowerOpaqueBlock(),
        tirx.transform.FlattenBuffer(),
        tirx.transform.NarrowDataType(32),
        tirx.transform.StmtSimplify(),
    ):
        module = step(module)
    lines = [line for line in module.script().splitlines() if line.strip().startswith("counts_1[")]
    assert lines
    assert all(f"T.int64({last + 1})" in line for line in lines)


def test_an_embedding_table_of_more_than_2_31_numbers_is_read_at_its_end(
    tmp_path: Path,
) -> None:
    width, rows = 4096, (1 << 19) + 32
    table = sparse(tmp_path, (rows // 16, width, 16), "float16")
    table[-1, :, -1] = row = np.arange(width) % 2048
    x = aligned((2, width), "float32")
    step = aligned(8, "int32")
    step[ROWS] = 2
    tokens = aligned(2, "int32")
    tokens[...] = rows - 1, 0
    run(embed("f16", 2, width, rows, ISA), tokens, table, x, step)
    np.testing.assert_array_equal(x[0], row)
    np.testing.assert_array_equal(x[1], 0)


def test_tokens_are_counted_where_there_are_more_than_2_31_counts(
    tmp_path: Path,
) -> None:
    spec = sampling_spec((1 << 28) + 32)
    shared = shared_buffers(
        rows=spec.rows, batch=spec.batch, pages=spec.pages, hidden=32, vocab=spec.vocab
    )
    # In the order of the kernel's arguments.
    changed = ("sampled", "table", "tokens", "positions", "ring", "eos", "counts")
    names = (*changed, "sampling_f", "sampling_i", "step")
    buffers = {
        name: sparse(tmp_path, shape, dtype) if name == "counts" else aligned(shape, dtype)
        for name, (_, dtype, shape) in shared.items()
        if name in names
    }
    buffers["table"][0, [LIMIT, SLOT]] = 9, spec.batch - 1
    buffers["sampling_f"][0, [REPETITION, PRESENCE]] = 1.0, 0.5
    buffers["eos"][...] = -1
    buffers["sampled"][0] = spec.vocab - 1
    buffers["step"][SEQUENCES] = 1
    run(record(spec, advance=True), *(buffers[name] for name in names))
    assert buffers["counts"][-1, -1] == 2
    assert buffers["counts"][0, 0] == 0


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
