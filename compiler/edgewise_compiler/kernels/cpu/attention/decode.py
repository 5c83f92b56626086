"""Attention of one query token of a sequence: bound by the speed at which pages are read.

Decode's sequences have one each. So have those that decode beside chunks of prompts: a prefill
plan calls this kernel for them, and :mod:`prefill` for the others.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

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
from edgewise_compiler.kernels.function import STEP, Arg, block, kernel, live_rows, symbol
from edgewise_compiler.kernels.numbers import SEGMENT, SEGMENT_PAGES
from edgewise_runtime.format.abi import (
    KV_LEN,
    PAGE_TOKENS,
    Q_LEN,
    Q_START,
    SEQUENCES,
    STOP,
    TABLE_HEADER,
)

# Partial results of fewer segments than this are merged before other threads would have woken up.
_PARALLEL_MERGE = 128


@functools.cache
def attention_decode(spec: AttentionSpec, isa: str) -> PrimFunc:
    """Attention of the newest token of a sequence over all its tokens, where it is its only row.

    Arguments of the PrimFunc: q float32 [N, HQ*D]; kv ``kv_dtype`` [pages, 2, HK, 16*D], which
    holds the row's own token already; of int8 pages kv_scale uint32 [pages, HK, 16]; table int32
    [B, 8+MP]; part float32
    [B * HQ * ceil(MP/4) * (D+16)], scratch; out float32 [N, HQ*D], written; step int32 [8], whose
    field 1 is the number of sequences. Rows of a stopped sequence are left alone, and so are those
    of a sequence that has several.

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
    segments_bound = -(-MP // SEGMENT_PAGES)
    width = D + LANES  # o, then m and l
    line_elements = {"int8": 64, "float16": 32, "float32": 16}[kv_dtype]  # of a cache line
    arguments = [
        Arg("q", "float32", (N, HQ * D)),
        *kv_arguments(HK, D, kv_dtype),
        Arg("table", "int32", (B, TABLE_HEADER + MP)),
        Arg("part", "float32", (B * HQ * segments_bound * width,)),
        Arg("out", "float32", (N, HQ * D)),
        STEP,
    ]

    def body(q: Buffer, kv: Buffer, *rest: Buffer) -> None:
        *kv_scale, table, part, out, step = rest

        def segments(s: Expr) -> Expr:
            runs = (table[s, STOP] == 0) & (table[s, Q_LEN] == 1)
            return T.Select(runs, segments_of(table[s, KV_LEN] + 1), 0)

        def partial(s: Expr, head: Expr, segment: Expr) -> Expr:
            return ((s * HQ + head) * segments_bound + segment) * width

        def page_of(s: Expr, segment: Expr, i: Expr | int) -> Expr:
            return let(T.Cast("int64", table[s, TABLE_HEADER + segment * SEGMENT_PAGES + i]))

        def attend(item: Expr) -> None:
            """One segment of one KV head: o, m and l of every query head that shares it."""
            cursor = T.sblock_alloc_buffer((2,), "int32")
            scores = T.sblock_alloc_buffer((GQ, SEGMENT), "float32")
            acc = registers(tile)
            T.buffer_store(cursor, 0, [0])
            T.buffer_store(cursor, item, [1])
            with T.While(cursor[1] >= segments(cursor[0]) * HK):
                T.buffer_store(cursor, cursor[1] - segments(cursor[0]) * HK, [1])
                T.buffer_store(cursor, cursor[0] + 1, [0])
            s = let(cursor[0])
            row = let(table[s, Q_START])
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
                        queries = [q[row, (h * GQ + first + r) * D + d] for r in range(rows)]
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
                    at = let(partial(s, h * GQ + first + r, segment) + column * LANES)
                    for c in range(columns):
                        store(part, load(acc[r * columns + c], 0), at + c * LANES)

            for_blocks(GQ, tile.rows, dot)
            with T.serial(0, GQ) as g:
                m, l = softmax(scores, g, keys, scale, isa, scales)
                at = let(partial(s, h * GQ + g, segment) + D)
                store(part, m, at)
                store(part, l, at + 1)
            for_blocks(
                GQ,
                tile.rows,
                lambda first, rows: for_blocks(
                    D // LANES,
                    tile.columns(rows, D // LANES),
                    lambda column, columns: mix(first, rows, column, columns),
                ),
            )

        def merge(s: Expr, head: Expr) -> None:
            """All segments of one query head."""
            state = T.sblock_alloc_buffer((2,), "float32")
            O = T.sblock_alloc_buffer((D,), "float32")
            store(state, splat(-math.inf, 1), 0)
            store(state, splat(0.0, 1), 1)
            with T.serial(0, D // LANES) as i:
                store(O, splat(0.0), i * LANES)
            with T.serial(0, segments(s)) as segment:
                at = let(partial(s, head, segment))
                M, L, a, c = merge_weights(state[0], state[1], part[at + D], part[at + D + 1], isa)
                store(state, M, 0)
                store(state, L, 1)
                with T.serial(0, D // LANES) as i:
                    d = i * LANES
                    store(O, merged(load(O, d), a, load(part, at + d), c, isa), d)
            row = let(table[s, Q_START])
            with T.serial(0, D // LANES) as i:
                d = i * LANES
                store(out, load(O, d) / splat(state[1]), row, head * D + d)

        def merge_each(frame: Callable[..., Any], sequences: Expr) -> None:
            with frame(0, sequences * HQ) as item, block("merge"):
                s = let(T.floordiv(item, HQ))
                with T.If(segments(s) > 0), T.Then():
                    merge(s, let(T.floormod(item, HQ)))

        with block("decode"):
            total = T.sblock_alloc_buffer((1,), "int32")
            sequences = live_rows(step, SEQUENCES, B)
            T.buffer_store(total, 0, [0])
            with T.serial(0, sequences) as s:
                T.buffer_store(total, total[0] + segments(s), [0])
            # A prefill has often no such sequence; then no thread is woken.
            with T.If(total[0] > 0), T.Then():
                with T.parallel(0, total[0] * HK) as item, block("segment"):
                    attend(item)
                with T.If(total[0] * HQ < _PARALLEL_MERGE):
                    with T.Then():
                        merge_each(T.serial, sequences)
                    with T.Else():
                        merge_each(T.parallel, sequences)

    name = symbol("attention_decode", N, B, MP, HQ, HK, D, kv_dtype, spec.scale)
    return kernel(name, arguments, body)
