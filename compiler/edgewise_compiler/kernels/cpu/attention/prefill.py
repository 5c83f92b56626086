"""Attention of chunks of a prompt: bound by multiply-adds, with the bits of decode attention.

A chunk of one token is :mod:`decode`'s: a tile of keys and values widened for 16 rows costs a
single row several times what it costs there.
"""

from __future__ import annotations

import functools
import math

from tvm import tirx
from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, PrimFunc

from edgewise_compiler.kernels.attention import (
    KNOWN,
    AttentionSpec,
    check_attention,
    first_seen,
    log2_cap,
    score_scale,
    sinks_arg,
    trait_names,
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
from edgewise_compiler.kernels.numbers import LOG2E, SEGMENT, SEGMENT_PAGES
from edgewise_runtime.format.abi import (
    KV_LEN,
    PAGE_TOKENS,
    Q_LEN,
    Q_START,
    SEQUENCES,
    STOP,
    TABLE_HEADER,
)

# Query positions of one tile. Tiles start at multiples of it, so that none straddles a segment and
# the tile that ends a segment needs a whole number of its pages.
_ROWS = 16


@functools.cache
def attention_prefill(spec: AttentionSpec, isa: str) -> PrimFunc:
    """Causal attention of a ragged batch's rows over the tokens of their sequence up to themselves.

    Arguments of the PrimFunc: q float32 [N, HQ*D]; kv ``kv_dtype`` [pages, 2, HK, 16*D], which
    holds the rows' own tokens already; of int8 pages kv_scale uint32 [pages, HK, 16]; table int32
    [B, 8+MP]; with sinks those, float32 [HQ]; out float32 [N, HQ*D], written; step int32 [8], whose
    field 1 is the number of sequences. Rows of a stopped sequence are left alone, and so is a
    sequence's only row: that is for :func:`attention_decode`, which gives what this would.

    An item of parallel work is 16 positions of a sequence for one KV head with all the query heads
    that share it. Keys and values of a segment are widened once for an item, into a panel as wide
    as the block of accumulators in registers.

    N, B, MP are the most rows, sequences and pages of a sequence; HQ, HK, D query heads, KV heads
    and head dimension.

    Raises:
        CompileError: heads or dtypes that attention is not written for.
        UnsupportedError: a trait that it does not have.
    """
    GQ = check_attention(spec, KNOWN)
    N, B, MP, kv_dtype = spec.rows, spec.batch, spec.pages, spec.kv_dtype
    HQ, HK, D = spec.heads, spec.kv_heads, spec.head_dim
    tile, scale = tile_for(isa), score_scale(spec)
    window = spec.window
    pairs = _ROWS * GQ  # (row, query head): pair row*GQ + g
    pages_wide = pages_at_once(tile, tile.rows)
    chunks_wide = tile.columns(tile.rows, D // LANES)
    coded = kv_arguments(HK, D, kv_dtype)[1:]
    arguments = [
        Arg("q", "float32", (N, HQ * D)),
        *kv_arguments(HK, D, kv_dtype),
        table_arg(spec),
        *sinks_arg(spec),
        Arg("out", "float32", (N, HQ * D)),
        STEP,
    ]

    def body(q: Buffer, kv: Buffer, *rest: Buffer) -> None:
        kv_scale, rest = rest[: len(coded)], rest[len(coded) :]
        table, *sinks, out, step = rest

        def first_tile(s: Expr) -> Expr:
            return T.floordiv(table[s, KV_LEN], _ROWS)

        def tiles(s: Expr) -> Expr:
            # From the beginning of its first tile on.
            rows = T.floormod(table[s, KV_LEN], _ROWS) + table[s, Q_LEN]
            count = T.floordiv(rows + (_ROWS - 1), _ROWS)
            runs = (table[s, STOP] == 0) & (table[s, Q_LEN] > 1)
            return T.Select(runs, count, 0)

        def attend(index: Expr, h: Expr) -> None:
            """Tile ``index`` of the batch for KV head ``h``."""
            cursor = T.sblock_alloc_buffer((2,), "int32")
            queries = T.sblock_alloc_buffer((pairs, D), "float32")
            O = T.sblock_alloc_buffer((pairs, D), "float32")
            scores = T.sblock_alloc_buffer((pairs, SEGMENT), "float32")
            # Whether a row sees anything of a segment: behind its window it does not.
            sees = T.sblock_alloc_buffer((pairs,), "int32") if window is not None else None
            M, L, m, l, a, c = (T.sblock_alloc_buffer((pairs,), "float32") for _ in range(6))
            keys_panel = T.sblock_alloc_buffer((pages_wide, D * PAGE_TOKENS), "float32")
            values_panel = T.sblock_alloc_buffer((SEGMENT, chunks_wide * LANES), "float32")
            acc = registers(tile)

            T.buffer_store(cursor, 0, [0])
            T.buffer_store(cursor, index, [1])
            with T.While(tirx.all(cursor[0] < B - 1, cursor[1] >= tiles(cursor[0]))):
                T.buffer_store(cursor, cursor[1] - tiles(cursor[0]), [1])
                T.buffer_store(cursor, cursor[0] + 1, [0])
            s, nth = let(cursor[0]), let(cursor[1])
            # Tiles from both ends in turn: any run of items then has a like share of long rows.
            tile_index = T.Select(
                T.floormod(nth, 2) == 0, T.floordiv(nth, 2), tiles(s) - 1 - T.floordiv(nth, 2)
            )
            # Tokens of the chunk before the tile.
            before = (first_tile(s) + tile_index) * _ROWS - table[s, KV_LEN]
            before = let(T.max(0, T.min(before, table[s, Q_LEN] - 1)))
            start = let(table[s, KV_LEN] + before)
            end = table[s, KV_LEN] + table[s, Q_LEN]
            last = let(T.min((first_tile(s) + tile_index + 1) * _ROWS, end) - 1)
            # Rows of a tile that lies partly outside the chunk repeat its last row.
            row = let(table[s, Q_START] + before)
            last_row = let(row + T.max(0, last - start))
            # A short chunk, the draft tokens of a sequence say, has few of a tile's rows.
            live = let(T.min(last - start + 1, _ROWS) * GQ)
            blocks = let(T.floordiv(live + (tile.rows - 1), tile.rows))

            def position(pair: Expr) -> Expr:
                return T.min(start + T.floordiv(pair, GQ), last)

            with T.serial(0, pairs) as pair:
                source = let(T.min(row + T.floordiv(pair, GQ), last_row))
                head = let(h * GQ + T.floormod(pair, GQ))
                with T.serial(0, D // LANES) as i:
                    store(queries, load(q, source, head * D + i * LANES), pair, i * LANES)
                    store(O, splat(0.0), pair, i * LANES)
            if sinks:
                with T.serial(0, pairs) as pair:
                    sink = sinks[0][h * GQ + T.floormod(pair, GQ)]
                    store(M, sink * splat(LOG2E, 1), pair)
                    store(L, splat(1.0, 1), pair)
            else:
                with T.serial(0, pairs // LANES) as i:
                    store(M, splat(-math.inf), i * LANES)
                    store(L, splat(0.0), i * LANES)

            first_segment = 0
            if window is not None:
                first_segment = let(T.floordiv(first_seen(spec, start + 1), SEGMENT))
            with T.serial(first_segment, T.floordiv(last, SEGMENT) + 1) as segment:
                base = let(segment * SEGMENT)
                keys = let(T.min(last + 1 - base, SEGMENT))
                pages = let(T.floordiv(keys + (PAGE_TOKENS - 1), PAGE_TOKENS))

                def page_of(i: Expr) -> Expr:
                    return let(
                        T.Cast("int64", table[s, TABLE_HEADER + segment * SEGMENT_PAGES + i])
                    )

                def valid(pair: Expr) -> Expr:
                    return T.min(position(pair) + 1 - base, SEGMENT)

                def low(pair: Expr) -> Expr:
                    """The first key of the segment that a row sees."""
                    seen = first_seen(spec, position(pair) + 1) - base
                    return T.max(0, T.min(seen, SEGMENT))

                scales = None
                if kv_scale:
                    scales = segment_scales(kv_scale[0], page_of, pages, h, scale, isa)

                def dot(start_page: Expr) -> None:
                    for i in range(pages_wide):
                        page = page_of(T.min(start_page + i, pages - 1))

                        def copy(d: Expr, keys: list[Expr], i: int = i) -> None:
                            store(keys_panel, keys[0], i, d * PAGE_TOKENS)

                        each_dimension(kv, [page], h, isa, copy)
                    with T.serial(0, blocks) as i:
                        first = let(i * tile.rows)
                        clear(acc, tile.rows * pages_wide)
                        with T.serial(0, D) as d:
                            accumulate(
                                acc,
                                [queries[first + r, d] for r in range(tile.rows)],
                                [load(keys_panel, i, d * PAGE_TOKENS) for i in range(pages_wide)],
                                isa,
                            )
                        for r in range(tile.rows):
                            for i in range(pages_wide):
                                value = load(acc[r * pages_wide + i], 0)
                                store(scores, value, first + r, (start_page + i) * PAGE_TOKENS)

                def mix(chunk: Expr, chunks: int) -> None:
                    with T.serial(0, pages) as i:
                        page = page_of(i)
                        with T.serial(0, T.min(keys - i * PAGE_TOKENS, PAGE_TOKENS)) as t:
                            for j in range(chunks):
                                at = t * D + (chunk + j) * LANES
                                value = widen_kv(load(kv, page, 1, h, at), isa)
                                store(values_panel, value, i * PAGE_TOKENS + t, j * LANES)
                    with T.serial(0, blocks) as i:
                        first = let(i * tile.rows)
                        clear(acc, tile.rows * chunks)
                        common, most = let(valid(first)), let(valid(first + (tile.rows - 1)))

                        def key(j: Expr, where: list[Expr] | None = None) -> None:
                            weights = [scores[first + r, j] for r in range(tile.rows)]
                            values = [load(values_panel, j, i * LANES) for i in range(chunks)]
                            accumulate(acc, weights, values, isa, where=where)

                        if window is None:
                            with T.serial(0, common) as j:
                                key(j)
                            with T.serial(common, most) as j:
                                key(j, [j < valid(first + r) for r in range(tile.rows)])
                        else:
                            begin, every = let(low(first)), let(low(first + (tile.rows - 1)))

                            def some(j: Expr) -> None:
                                rows = [first + r for r in range(tile.rows)]
                                key(j, [(j >= low(row)) & (j < valid(row)) for row in rows])

                            with T.serial(begin, T.min(every, most)) as j:
                                some(j)
                            with T.serial(every, common) as j:
                                key(j)
                            with T.serial(T.max(every, common), most) as j:
                                some(j)
                        for r in range(tile.rows):
                            for i in range(chunks):
                                at = let((chunk + i) * LANES)
                                o = load(acc[r * chunks + i], 0)
                                old = load(O, first + r, at)
                                value = merged(old, a[first + r], o, c[first + r], isa)
                                store(O, value, first + r, at)

                with T.serial(0, T.floordiv(pages + (pages_wide - 1), pages_wide)) as i:
                    dot(let(i * pages_wide))
                with T.serial(0, blocks * tile.rows) as pair:
                    first_key = None if window is None else let(low(pair))
                    best, total = softmax(
                        scores,
                        pair,
                        let(valid(pair)),
                        scale,
                        isa,
                        scales,
                        low=first_key,
                        cap=log2_cap(spec),
                    )
                    if sees is not None and first_key is not None:
                        T.buffer_store(sees, T.Select(first_key < valid(pair), 1, 0), [pair])
                    store(m, best, pair)
                    store(l, total, pair)
                with T.serial(0, pairs // LANES) as i:
                    at = i * LANES
                    results = merge_weights(load(M, at), load(L, at), load(m, at), load(l, at), isa)
                    if sees is not None:
                        there = let(load(sees, at))
                        before = load(M, at), load(L, at), splat(1.0), splat(0.0)
                        results = [
                            let(T.Select(there > splat(0, LANES, "int32"), new, let(old)))
                            for new, old in zip(results, before, strict=True)
                        ]
                    for buffer, value in zip((M, L, a, c), results, strict=True):
                        store(buffer, value, at)
                for_blocks(D // LANES, chunks_wide, mix)

            with T.serial(0, live) as pair:
                source = let(row + T.floordiv(pair, GQ))
                head = let(h * GQ + T.floormod(pair, GQ))
                with T.serial(0, D // LANES) as i:
                    value = load(O, pair, i * LANES) / splat(L[pair])
                    store(out, value, source, head * D + i * LANES)

        with block("prefill"):
            total = T.sblock_alloc_buffer((1,), "int32")
            T.buffer_store(total, 0, [0])
            with T.serial(0, live_rows(step, SEQUENCES, B)) as s:
                T.buffer_store(total, total[0] + tiles(s), [0])
            with T.If(total[0] > 0), T.Then():
                with T.parallel(0, total[0] * HK) as item, block("tile"):
                    attend(let(T.floormod(item, total[0])), let(T.floordiv(item, total[0])))

    name = symbol(
        "attention_prefill", N, B, MP, HQ, HK, D, kv_dtype, spec.scale, *trait_names(spec)
    )
    return kernel(name, arguments, body)
