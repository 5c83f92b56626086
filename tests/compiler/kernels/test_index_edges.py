"""Each kernel at the largest size whose elements 32 bits count, and at one more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import s_tir, tirx
from tvm.tirx import PrimFunc

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
from edgewise_compiler.kernels.gpu.attention import decode as gpu_decode
from edgewise_compiler.kernels.gpu.attention import merge as gpu_merge
from edgewise_compiler.kernels.gpu.attention import prefill as gpu_prefill
from edgewise_compiler.kernels.gpu.attention import serial as gpu_serial_attention
from edgewise_compiler.kernels.gpu.attention import tensor as gpu_tensor
from edgewise_compiler.kernels.gpu.elementwise import embed as gpu_embed
from edgewise_compiler.kernels.gpu.elementwise import norm as gpu_norm
from edgewise_compiler.kernels.gpu.elementwise import rope as gpu_rope
from edgewise_compiler.kernels.gpu.elementwise import unfused as gpu_unfused
from edgewise_compiler.kernels.gpu.limits import LEAST
from edgewise_compiler.kernels.gpu.matmul import matmul as gpu_matmul
from edgewise_compiler.kernels.gpu.matmul import matmul_int8 as gpu_int8
from edgewise_compiler.kernels.gpu.matmul import matvec as gpu_matvec
from edgewise_compiler.kernels.gpu.matmul import serial as gpu_serial
from edgewise_compiler.kernels.gpu.matmul.spec import PartSpec
from edgewise_compiler.kernels.gpu.sampling import draw as gpu_draw
from edgewise_compiler.kernels.gpu.sampling import logprobs as gpu_logprobs
from edgewise_compiler.kernels.gpu.sampling import scores as gpu_scores
from edgewise_compiler.kernels.gpu.sampling import tops as gpu_tops
from edgewise_compiler.kernels.gpu.sampling import weigh as gpu_weigh
from edgewise_compiler.kernels.gpu.sampling import whole as gpu_whole
from edgewise_compiler.kernels.gpu.thread import Launch
from edgewise_compiler.kernels.matmul import MatmulSpec
from edgewise_compiler.kernels.norm import NormSpec
from edgewise_compiler.kernels.sampling import SamplingSpec
from edgewise_runtime.errors import UnsupportedError
from edgewise_runtime.format.abi import (
    LIMIT,
    PAGE_TOKENS,
    PRESENCE,
    Q_LEN,
    Q_START,
    REPETITION,
    ROWS,
    SEQUENCES,
    SLOT,
    TABLE_HEADER,
    shared_buffers,
)
from tests.compiler.kernels.conftest import Array, aligned, build
from tests.compiler.kernels.every_kernel import wide_buffers

ISA = "portable"


def sparse(folder: Path, shape: tuple[int, ...], dtype: str) -> Array:
    """Zeros that take no memory and no disk until they are written."""
    return np.memmap(folder / "sparse", dtype, "w+", shape=shape)


def run(function: PrimFunc, *arrays: Array) -> None:
    build([function], ISA)[str(function.attrs["global_symbol"])](*arrays)


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


def test_sequences_that_may_have_a_million_tokens_each_are_attended_to_all_32() -> None:
    heads, width, count = 32, 128, 32
    spec = AttentionSpec(count, count, 1 << 20, heads, 8, width, "float32", scale=1.0)
    function = attention_decode(spec, ISA)
    (part,) = (p.shape for p in function.params if p.name == "part")
    q, out = (aligned((count, heads * width), "float32") for _ in range(2))
    kv = aligned((count, 2, 8, PAGE_TOKENS * width), "float32")
    values = np.arange(count)[:, None] + np.arange(width) / width
    kv[:, 1, :, :width] = values[:, None]
    table, step = aligned((count, TABLE_HEADER + spec.pages), "int32"), aligned(8, "int32")
    table[:, TABLE_HEADER] = table[:, Q_START] = np.arange(count)
    table[:, Q_LEN] = 1
    step[[ROWS, SEQUENCES]] = count
    run(function, q, kv, table, aligned(tuple(map(int, part)), "float32"), out, step)
    np.testing.assert_array_equal(out.reshape(count, heads, width), values[:, None].repeat(32, 1))


def gpu_attention_spec(rows: int, batch: int = 2, context: int = 64) -> AttentionSpec:
    return AttentionSpec(rows, batch, context, scale=1.0, **HEADS)


def gpu_sampling_spec(batch: int) -> SamplingSpec:
    return SamplingSpec(8, batch, 4, 1 << 17, 1 << 17)


def gpu_part(rows: int) -> PartSpec:
    return PartSpec(rows=rows, outputs=4096, inputs=4096, scheme="q8", live=rows, width=4096)


PREFILL, BATCH = "--prefill-chunk", "--max-batch"
GpuMade = tuple[Callable[[int], Launch], int, str, str]
"""A kernel by a size, the largest one that is not refused, for which buffer one more is, and which
options have to be smaller."""

GPU_EDGES: dict[str, GpuMade] = {
    "embed": (
        lambda n: gpu_embed.embed((gpu_embed.TablePart("f16", 4096),), n, 4096),
        1 << 21,
        "x",
        PREFILL,
    ),
    "rms_norm": (
        lambda n: gpu_norm.rms_norm(NormSpec(n, 4096, 1e-5), subgroups=False),
        1 << 21,
        "x",
        PREFILL,
    ),
    "add": (
        lambda n: gpu_unfused.add(n, 4096, 4096, in_place=False, count=ROWS),
        1 << 21,
        "out",
        PREFILL,
    ),
    "swiglu": (lambda n: gpu_unfused.swiglu(n, 4096, count=ROWS), 1 << 20, "x", PREFILL),
    "gather": (lambda n: gpu_unfused.gather(n, 8, 4096), 1 << 21, "x", PREFILL),
    "rope_append": (
        lambda n: gpu_rope.rope_append(RopeSpec(n, 2, 64, **HEADS), subgroups=False),
        2796202,
        "qkv",
        PREFILL,
    ),
    "attention_prefill": (
        lambda n: gpu_prefill.attention_prefill(gpu_attention_spec(n), LEAST),
        1398091,
        "qkv",
        f"{BATCH} or {PREFILL}",
    ),
    "attention_tensor": (
        lambda n: gpu_tensor.attention_tensor(replace(gpu_attention_spec(n), kv_dtype="float16")),
        1398080,
        "qkv",
        f"{BATCH} or {PREFILL}",
    ),
    "attention_decode": (
        lambda n: gpu_decode.attention_decode(gpu_attention_spec(8, 1, n * 64), LEAST),
        8134407,
        "part",
        f"{BATCH} or --context",
    ),
    "attention_near": (
        lambda n: gpu_decode.attention_near(gpu_attention_spec(8, n, 1 << 16), LEAST),
        523266,
        "table",
        BATCH,
    ),
    "attention_merge": (
        lambda n: gpu_merge.attention_merge(gpu_attention_spec(8, 1, n * 64)),
        8134407,
        "part",
        f"{BATCH} or --context",
    ),
    "attention_serial": (
        lambda n: gpu_serial_attention.attention_serial(gpu_attention_spec(n)),
        699051,
        "qkv",
        PREFILL,
    ),
    "quantize": (lambda n: gpu_int8.quantize(n, 4096), 1 << 21, "xq", PREFILL),
    "matmul": (
        lambda n: gpu_matmul.matmul(gpu_part(n), few=False, half=False),
        1 << 19,
        "out",
        PREFILL,
    ),
    "matmul_int8": (
        lambda n: gpu_int8.matmul_int8(gpu_part(n), few=False),
        1 << 19,
        "out",
        PREFILL,
    ),
    "matmul_serial": (
        lambda n: gpu_serial.matmul_serial(gpu_part(n), single=False),
        1 << 19,
        "out",
        PREFILL,
    ),
    "matvec": (lambda n: gpu_matvec.matvec(gpu_part(n), batch=8), 1 << 19, "out", PREFILL),
    "scores": (
        lambda n: gpu_scores.scores(gpu_sampling_spec(n), advance=True),
        1 << 14,
        "counts",
        BATCH,
    ),
    "weigh": (lambda n: gpu_weigh.weigh(gpu_sampling_spec(n)), 58151, "keys", BATCH),
    "draw": (
        lambda n: gpu_draw.draw(gpu_sampling_spec(n), subgroups=False),
        58151,
        "keys",
        BATCH,
    ),
    "whole": (
        lambda n: gpu_whole.whole(gpu_sampling_spec(n), subgroups=False),
        1 << 14,
        "counts",
        BATCH,
    ),
    "tops": (lambda n: gpu_tops.tops(gpu_sampling_spec(n)), 1 << 16, "logits", BATCH),
    "logprobs": (lambda n: gpu_logprobs.logprobs(gpu_sampling_spec(n)), 1 << 14, "logits", BATCH),
}


@pytest.mark.parametrize("name", GPU_EDGES)
def test_a_gpu_kernel_is_refused_from_the_size_on_that_32_bits_do_not_count(name: str) -> None:
    make, last, buffer, options = GPU_EDGES[name]
    make(last)
    with pytest.raises(UnsupportedError) as refused:
        make(last + 1)
    assert refused.value.code == "unsupported.index"
    assert refused.value.message.startswith("The kernel ")
    assert f"_{buffer}', more than int32 holds." in refused.value.message
    assert refused.value.remedy == f"Choose a smaller {options}."
