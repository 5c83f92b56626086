"""Rotary position embedding on the GPU, and the keys' and values' way into the pages."""

from __future__ import annotations

from functools import cache

from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer

from edgewise_compiler.kernels.attention.common import HEADER, PAGE, STOP, check_heads, symbol
from edgewise_compiler.kernels.attention.gpu_common import PAGES
from edgewise_compiler.kernels.function import STEP, Arg
from edgewise_compiler.kernels.gpu import (
    Launch,
    Thread,
    bind,
    cast,
    dtype_of,
    fma,
    gpu_kernel,
    lane,
    number,
    shared,
    store,
    vec4,
    wgsl,
    when,
)
from edgewise_compiler.kernels.gpu_reduce import combine_group

_THREADS = 128


@cache
def gpu_rope_append(
    N: int,
    B: int,
    MP: int,
    HQ: int,
    HK: int,
    D: int,
    C: int,
    kv_dtype: str,
    eps: float,
    *,
    qk_norm: bool,
    subgroups: bool,
) -> Launch:
    """Rotates queries and keys (the halves of a head form the pairs) and appends keys and values.

    Arguments: qkv float32 [N, (HQ+2*HK)*D], whose queries are replaced by the rotated ones; rope
    float32 [C, 2, D/2], the cosines then the sines of a position; positions int32 [N, 1]; row_seq
    int32 [N]; table int32 [B, 8+MP]; with ``qk_norm`` qk_norm float32 [2, D], the weights of an
    RMSNorm of every query head, then of every key head, before the rotation (Qwen3); kv
    ``kv_dtype`` [pages, 2, HK, 16*D], written; step int32 [8], whose field 0 is the number of rows.
    Rows of a stopped sequence leave kv alone. Grid: a workgroup for some heads of one row.

    Args:
        N, B, MP, C: the most rows, sequences, pages of a sequence and positions.
        HQ, HK, D: query heads, KV heads, head dimension.
        kv_dtype: float16 (WGSL leaves the rounding to the device) or float32.
        eps: of the RMSNorm.
        subgroups: for the sums of the RMSNorm; without it the kernel is the same for both.

    Raises:
        CompileError: heads or dtypes that attention is not written for.
    """
    check_heads(HQ, HK, D, kv_dtype)
    subgroups = subgroups and qk_norm
    half = D // 8  # vectors of half a head, one a thread
    lanes = 1 << (half - 1).bit_length()
    heads, side_by_side = HQ + 2 * HK, _THREADS // lanes
    arguments = [
        Arg("qkv", "float32x4", (N, heads, 2, half)),
        Arg("rope", "float32x4", (C, 2, half)),
        Arg("positions", "int32", (N, 1)),
        Arg("row_seq", "int32", (N,)),
        Arg("table", "int32", (B, HEADER + MP)),
        *([Arg("qk_norm", "float32x4", (2, 2, half))] if qk_norm else []),
        Arg("kv", kv_dtype, (PAGES, 2, HK, PAGE * D)),
        STEP,
    ]

    def body(
        thread: Thread,
        qkv: Buffer,
        rope: Buffer,
        positions: Buffer,
        row_seq: Buffer,
        table: Buffer,
        *rest: Buffer,
    ) -> None:
        *norm, kv, step = rest
        row = thread.x
        head = bind(thread.y * side_by_side + T.floordiv(thread.t, lanes))
        place = bind(T.floormod(thread.t, lanes))
        # Threads without a head or without a vector read a neighbour's and write nothing.
        busy = bind((head < heads) & (place < half))
        source, i = bind(T.min(head, heads - 1)), bind(T.min(place, half - 1))

        def normalized(pair: list[Expr]) -> list[Expr]:
            square = number(0.0)
            for vector in pair:
                for j in range(4):
                    square = fma(lane(vector, j), lane(vector, j), square)
            square = T.Select(busy, square, number(0.0))
            scratch = shared((_THREADS,))
            total = combine_group(thread, square, lanes, lambda a, b: a + b, scratch)
            mean = fma(total, number(1.0 / D), number(eps))
            inverse = bind(vec4(wgsl("float32", "inverseSqrt", mean)))
            which = bind(T.Select(source < HQ, 0, 1))
            return [bind(x * inverse * norm[0][which, j, i]) for j, x in enumerate(pair)]

        def append(which: Expr, head: Expr, pair: list[Expr], stride: Expr, first: Expr) -> None:
            """Writes numbers d of a head to ``first + d*stride`` of a row's page."""
            sequence = bind(row_seq[row])
            with when(table[sequence, STOP] == 0):
                page = bind(table[sequence, HEADER + T.floordiv(positions[row, 0], PAGE)])
                for j, vector in enumerate(pair):
                    for k in range(4):
                        d = bind((j * half + i) * 4 + k)
                        value = lane(vector, k)
                        stored = value if kv_dtype == dtype_of(value) else cast(value, kv_dtype)
                        store(kv, stored, page, which, head, first + d * stride)

        def one_row() -> None:
            loaded = [bind(qkv[row, source, j, i]) for j in range(2)]
            first, second = normalized(loaded) if qk_norm else loaded
            position = bind(positions[row, 0])
            slot = bind(T.floormod(position, PAGE))
            cos, sin = (bind(rope[position, j, i]) for j in range(2))
            rotated = [
                bind(fma(first, cos, second * (sin * number(-1.0, "float32x4")))),
                bind(fma(second, cos, first * sin)),
            ]
            with when(busy & (head < HQ)):
                for j, vector in enumerate(rotated):
                    store(qkv, vector, row, head, j, i)
            with when(busy & (head >= HQ) & (head < HQ + HK)):
                append(0, head - HQ, rotated, PAGE, slot)
            with when(busy & (head >= HQ + HK)):
                append(1, head - (HQ + HK), loaded, 1, slot * D)

        with when(row < step[0]):
            one_row()

    flags = (*((f"norm{eps}",) if qk_norm else ()), *(("subgroups",) if subgroups else ()))
    return gpu_kernel(
        symbol("rope_append", N, B, MP, HQ, HK, D, C, kv_dtype, *flags),
        arguments,
        body,
        threads=_THREADS,
        grid=("n", -(-heads // side_by_side)),
        bounds={"n": N},
        subgroups=subgroups,
    )
