"""Attention of one query token per sequence: bound by the speed at which pages are read."""

from __future__ import annotations

import functools
import math

from tvm import tirx
from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, PrimFunc

from edgewise_compiler.kernels.attention import (
    AttentionSpec,
    check_attention,
    log2_scale,
    segments_of,
)
from edgewise_compiler.kernels.cpu.attention.common import (
    accumulate,
    clear,
    for_blocks,
    merge_weights,
    merged,
    pages_at_once,
    registers,
    softmax,
    tile_for,
)
from edgewise_compiler.kernels.cpu.attention.pages import (
    each_dimension,
    kv_arguments,
    prefetch,
    segment_scales,
    widen_kv,
)
from edgewise_compiler.kernels.cpu.vector import LANES, let, load, splat, store
from edgewise_compiler.kernels.function import (
    STEP,
    Arg,
    block,
    kernel,
    live_rows,
    symbol,
    table_arg,
)
from edgewise_compiler.kernels.numbers import SEGMENT, SEGMENT_PAGES
from edgewise_runtime.format.abi import KV_LEN, PAGE_TOKENS, SEQUENCES, STOP, TABLE_HEADER

# Partial results of fewer segments than this are merged before other threads would have woken up.
_PARALLEL_MERGE = 128


def decode_part(spec: AttentionSpec) -> tuple[int, ...]:
    """The shape of the partial results: o, m, l and padding for every segment of a query head."""
    return spec.batch, spec.heads, -(-spec.pages // SEGMENT_PAGES), spec.head_dim + LANES


@functools.cache
def attention_decode(spec: AttentionSpec, isa: str) -> PrimFunc:
    """Attention of row i, the newest token of sequence i, over all tokens of the sequence.

    Arguments of the PrimFunc: q float32 [N, HQ*D]; kv ``kv_dtype`` [pages, 2, HK, 16*D], which
    holds the row's own token already; of int8 pages kv_scale uint32 [pages, HK, 16]; table int32
    [B, 8+MP]; part float32 [B, HQ, ceil(MP/4), D+16], scratch; out float32 [N, HQ*D], written; step
    int32 [8], whose field 1 is the number of sequences. Rows of a stopped sequence are left alone.

    A segment of one KV head is one item of parallel work, so a single long sequence keeps all
    threads busy; the query heads that share the KV head share what is loaded. The results of the
    segments (o, m, l) go to ``part`` and are merged in order.

    N, B, MP are the most rows, sequences and pages of a sequence; HQ, HK, D query heads, KV heads
    and head dimension.

    Raises:
        CompileError: heads or dtypes that attention is not written for.
        UnsupportedError: a window, a softcap or sinks.
    """
    GQ = check_attention(spec)
    N, B, MP, kv_dtype = spec.rows, spec.batch, spec.pages, spec.kv_dtype
    HQ, HK, D = spec.heads, spec.kv_heads, spec.head_dim
    tile, scale = tile_for(isa), log2_scale(spec.scale)
    line_elements = {"int8": 64, "float16": 32, "float32": 16}[kv_dtype]  # of a cache line
    arguments = [
        Arg("q", "float32", (N, HQ * D)),
        *kv_arguments(HK, D, kv_dtype),
        table_arg(spec),
        Arg("part", "float32", decode_part(spec)),
        Arg("out", "float32", (N, HQ * D)),
        STEP,
    ]

    def body(q: Buffer, kv: Buffer, *rest: Buffer) -> None:
        *kv_scale, table, part, out, step = rest

        def segments(s: Expr) -> Expr:
            return T.Select(table[s, STOP] == 0, segments_of(table[s, KV_LEN] + 1), 0)

        def page_of(s: Expr, segment: Expr, i: Expr | int) -> Expr:
            return let(T.Cast("int64", table[s, TABLE_HEADER + segment * SEGMENT_PAGES + i]))

        def attend(item: Expr) -> None:
            """One segment of one KV head: o, m and l of every query head that shares it."""
            cursor = T.sblock_alloc_buffer((2,), "int32")
            scores = T.sblock_alloc_buffer((GQ, SEGMENT), "float32")
            acc = registers(tile)
            T.buffer_store(cursor, 0, [0])
            T.buffer_store(cursor, item, [1])
            with T.While(tirx.all(cursor[0] < B - 1, cursor[1] >= segments(cursor[0]) * HK)):
                T.buffer_store(cursor, cursor[1] - segments(cursor[0]) * HK, [1])
                T.buffer_store(cursor, cursor[0] + 1, [0])
            s = let(cursor[0])
            segment, h = let(T.floordiv(cursor[1], HK)), let(T.floormod(cursor[1], HK))
            keys = let(T.min(table[s, KV_LEN] + 1 - segment * SEGMENT, SEGMENT))
            pages = let(T.floordiv(keys + (PAGE_TOKENS - 1), PAGE_TOKENS))
            scales = None
            if kv_scale:
                scales = segment_scales(
                    kv_scale[0], functools.partial(page_of, s, segment), pages, h, scale, isa
                )

            def dot(first: Expr, rows: int) -> None:
                columns = pages_at_once(tile, rows)
                with T.serial(0, T.floordiv(pages + (columns - 1), columns)) as i:
                    start = let(i * columns)
                    # Past the last page the last one is read again: its id is known to be one.
                    ids = [page_of(s, segment, T.min(start + c, pages - 1)) for c in range(columns)]
                    clear(acc, rows * columns)

                    def add(d: Expr, keys: list[Expr]) -> None:
                        queries = [q[s, (h * GQ + first + r) * D + d] for r in range(rows)]
                        accumulate(acc, queries, keys, isa)

                    each_dimension(kv, ids, h, isa, add, fetch_values=True)
                    for r in range(rows):
                        for c in range(columns):
                            value = load(acc[r * columns + c], 0)
                            store(scores, value, first + r, (start + c) * PAGE_TOKENS)

            def mix(first: Expr, rows: int, column: Expr, columns: int) -> None:
                clear(acc, rows * columns)
                with T.serial(0, pages) as i:
                    page = page_of(s, segment, i)
                    with T.serial(0, T.min(keys - i * PAGE_TOKENS, PAGE_TOKENS)) as t:
                        for line in range(0, columns * LANES, line_elements):
                            prefetch(
                                kv, page, 0, h, PAGE_TOKENS * D + t * D + column * LANES + line
                            )
                        accumulate(
                            acc,
                            [scores[first + r, i * PAGE_TOKENS + t] for r in range(rows)],
                            [
                                widen_kv(load(kv, page, 1, h, t * D + (column + c) * LANES), isa)
                                for c in range(columns)
                            ],
                            isa,
                        )
                for r in range(rows):
                    head = let(h * GQ + first + r)
                    for c in range(columns):
                        value = load(acc[r * columns + c], 0)
                        store(part, value, s, head, segment, (column + c) * LANES)

            for_blocks(GQ, tile.rows, dot)
            with T.serial(0, GQ) as g:
                m, l = softmax(scores, g, keys, scale, isa, scales)
                head = let(h * GQ + g)
                store(part, m, s, head, segment, D)
                store(part, l, s, head, segment, D + 1)
            for_blocks(
                GQ,
                tile.rows,
                lambda first, rows: for_blocks(
                    D // LANES,
                    tile.columns(rows, D // LANES),
                    lambda column, columns: mix(first, rows, column, columns),
                ),
            )

        def merge(item: Expr) -> None:
            """All segments of one query head."""
            s, head = let(T.floordiv(item, HQ)), let(T.floormod(item, HQ))
            state = T.sblock_alloc_buffer((2,), "float32")
            O = T.sblock_alloc_buffer((D,), "float32")
            store(state, splat(-math.inf, 1), 0)
            store(state, splat(0.0, 1), 1)
            with T.serial(0, D // LANES) as i:
                store(O, splat(0.0), i * LANES)
            with T.serial(0, segments(s)) as segment:
                m, l = (part[s, head, segment, D + i] for i in range(2))
                M, L, a, c = merge_weights(state[0], state[1], m, l, isa)
                store(state, M, 0)
                store(state, L, 1)
                with T.serial(0, D // LANES) as i:
                    d = i * LANES
                    o = load(part, s, head, segment, d)
                    store(O, merged(load(O, d), a, o, c, isa), d)
            with T.If(table[s, STOP] == 0), T.Then():
                with T.serial(0, D // LANES) as i:
                    d = i * LANES
                    store(out, load(O, d) / splat(state[1]), s, head * D + d)

        with block("decode"):
            total = T.sblock_alloc_buffer((1,), "int32")
            sequences = live_rows(step, SEQUENCES, B)
            T.buffer_store(total, 0, [0])
            with T.serial(0, sequences) as s:
                T.buffer_store(total, total[0] + segments(s), [0])
            with T.parallel(0, total[0] * HK) as item, block("segment"):
                attend(item)
            with T.If(total[0] * HQ < _PARALLEL_MERGE):
                with T.Then(), T.serial(0, sequences * HQ) as item, block("merge"):
                    merge(item)
                with T.Else(), T.parallel(0, sequences * HQ) as item, block("merge"):
                    merge(item)

    name = symbol("attention_decode", N, B, MP, HQ, HK, D, kv_dtype, spec.scale)
    return kernel(name, arguments, body)
