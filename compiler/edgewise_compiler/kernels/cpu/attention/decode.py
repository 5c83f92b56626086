"""Attention of one query token of a sequence: bound by the speed at which pages are read.

Decode's sequences have one each. So have those that decode beside chunks of prompts: a prefill
plan calls this kernel for them, and :mod:`prefill` for the others.
"""

from __future__ import annotations

import functools

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
    segments_of,
    sinks_arg,
    trait_names,
)
from edgewise_compiler.kernels.cpu.attention.common import (
    accumulate,
    begin,
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

# Segments whose partial results are kept at a time: a few megabytes, which caches hold, however
# many sequences there are and however long they get.
ROUND = 512

# A run: segments of one sequence that follow each other, within a round.
_SEQUENCE, _SLOT, _SEGMENT, _COUNT = range(4)


def part_elements(spec: AttentionSpec) -> int:
    """How many float32 `part` takes: o, m, l and padding for every query head, of the segments of a
    round, and of the sequences that came from the round before and go on in the next one."""
    return (_slots(spec) + 2) * spec.heads * _width(spec)


def _slots(spec: AttentionSpec) -> int:
    """The most segments of a round."""
    return min(spec.batch * -(-spec.pages // SEGMENT_PAGES), ROUND)


def _width(spec: AttentionSpec) -> int:
    return spec.head_dim + LANES  # o, then m and l


@functools.cache
def attention_decode(spec: AttentionSpec, isa: str) -> PrimFunc:
    """Attention of the newest token of a sequence over all its tokens, where it is its only row.

    Arguments of the PrimFunc: q float32 [N, HQ*D]; kv ``kv_dtype`` [pages, 2, HK, 16*D], which
    holds the row's own token already; of int8 pages kv_scale uint32 [pages, HK, 16]; table int32
    [B, 8+MP]; with sinks those, float32 [HQ]; part float32 [`part_elements`], scratch; out float32
    [N, HQ*D], written; step int32 [8], whose field 1 is the number of sequences. Rows of a stopped
    sequence are left alone, and so are those of a sequence that has several.

    A segment of one KV head is one item of parallel work, so a single long sequence keeps all
    threads busy; the query heads that share the KV head share what is loaded. The results of the
    segments (o, m, l) go to ``part`` and are merged in order. That is done in rounds of `ROUND`
    segments, of which the last sequence may go on in the next one: what has been merged of it is
    kept behind the round's results, in one of two places in turn, because the round that reads one
    may have another sequence to keep.

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
    slots, width = _slots(spec), _width(spec)
    coded = kv_arguments(HK, D, kv_dtype)[1:]
    line_elements = {"int8": 64, "float16": 32, "float32": 16}[kv_dtype]  # of a cache line
    arguments = [
        Arg("q", "float32", (N, HQ * D)),
        *kv_arguments(HK, D, kv_dtype),
        table_arg(spec),
        *sinks_arg(spec),
        Arg("part", "float32", (part_elements(spec),)),
        Arg("out", "float32", (N, HQ * D)),
        STEP,
    ]

    def body(q: Buffer, kv: Buffer, *rest: Buffer) -> None:
        kv_scale, rest = rest[: len(coded)], rest[len(coded) :]
        table, *sinks, part, out, step = rest

        def segments(s: Expr) -> Expr:
            alone = (table[s, STOP] == 0) & (table[s, Q_LEN] == 1)
            return T.Select(alone, segments_of(table[s, KV_LEN] + 1), 0)

        def first_of(s: Expr) -> Expr:
            """The segment that a sequence begins with: those before lie behind its window."""
            if spec.window is None:
                return T.int32(0)
            return T.floordiv(first_seen(spec, table[s, KV_LEN] + 1), SEGMENT)

        def partial(slot: Expr | int, head: Expr) -> Expr:
            return (slot * HQ + head) * width

        def page_of(s: Expr, segment: Expr, i: Expr | int) -> Expr:
            return let(T.Cast("int64", table[s, TABLE_HEADER + segment * SEGMENT_PAGES + i]))

        def attend(runs: Buffer, run_of: Buffer, item: Expr) -> None:
            """One segment of one KV head: o, m and l of every query head that shares it."""
            scores = T.sblock_alloc_buffer((GQ, SEGMENT), "float32")
            acc = registers(tile)
            slot, h = let(T.floordiv(item, HK)), let(T.floormod(item, HK))
            run = let(run_of[slot])
            s = let(runs[run, _SEQUENCE])
            row = let(table[s, Q_START])
            segment = let(runs[run, _SEGMENT] + slot - runs[run, _SLOT])
            keys = let(T.min(table[s, KV_LEN] + 1 - segment * SEGMENT, SEGMENT))
            pages = let(T.floordiv(keys + (PAGE_TOKENS - 1), PAGE_TOKENS))
            low = None
            if spec.window is not None:
                seen = first_seen(spec, table[s, KV_LEN] + 1)
                low = let(T.max(0, T.min(seen - segment * SEGMENT, SEGMENT - 1)))
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
                first_page = None if low is None else let(T.floordiv(low, PAGE_TOKENS))
                with T.serial(0, pages if first_page is None else pages - first_page) as nth:
                    i = nth if first_page is None else let(first_page + nth)
                    page = page_of(s, segment, i)

                    def token(t: Expr) -> None:
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

                    stop = T.min(keys - i * PAGE_TOKENS, PAGE_TOKENS)
                    if low is None:
                        with T.serial(0, stop) as t:
                            token(t)
                    else:
                        start = let(T.max(0, low - i * PAGE_TOKENS))
                        with T.serial(0, T.max(0, stop - start)) as t:
                            token(let(T.min(start + t, PAGE_TOKENS - 1)))
                for r in range(rows):
                    at = let(partial(slot, h * GQ + first + r) + column * LANES)
                    for c in range(columns):
                        store(part, load(acc[r * columns + c], 0), at + c * LANES)

            for_blocks(GQ, tile.rows, dot)
            with T.serial(0, GQ) as g:
                m, l = softmax(scores, g, keys, scale, isa, scales, low=low, cap=log2_cap(spec))
                at = let(partial(slot, h * GQ + g) + D)
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

        def merge(runs: Buffer, turn: Expr, item: Expr) -> None:
            """All segments of one query head in a run, after those of rounds before."""
            run, head = let(T.floordiv(item, HQ)), let(T.floormod(item, HQ))
            s, segment, count = (let(runs[run, i]) for i in (_SEQUENCE, _SEGMENT, _COUNT))
            state = T.sblock_alloc_buffer((2,), "float32")
            O = T.sblock_alloc_buffer((D,), "float32")
            before, after = let(partial(slots + turn, head)), let(partial(slots + 1 - turn, head))
            with T.If(segment == first_of(s)):
                with T.Then():
                    begin(state, head, sinks)
                    with T.serial(0, D // LANES) as i:
                        store(O, splat(0.0), i * LANES)
                with T.Else():
                    store(state, part[before + D], 0)
                    store(state, part[before + D + 1], 1)
                    with T.serial(0, D // LANES) as i:
                        store(O, load(part, before + i * LANES), i * LANES)
            with T.serial(0, count) as nth:
                at = let(partial(runs[run, _SLOT] + nth, head))
                M, L, a, c = merge_weights(state[0], state[1], part[at + D], part[at + D + 1], isa)
                store(state, M, 0)
                store(state, L, 1)
                with T.serial(0, D // LANES) as i:
                    d = i * LANES
                    store(O, merged(load(O, d), a, load(part, at + d), c, isa), d)
            row = let(table[s, Q_START])
            with T.If(segment + count == segments(s)):
                with T.Then(), T.serial(0, D // LANES) as i:
                    d = i * LANES
                    store(out, load(O, d) / splat(state[1]), row, head * D + d)
                with T.Else():
                    store(part, state[0], after + D)
                    store(part, state[1], after + D + 1)
                    with T.serial(0, D // LANES) as i:
                        store(part, load(O, i * LANES), after + i * LANES)

        with block("decode"):
            runs = T.sblock_alloc_buffer((min(slots, B), 4), "int32")
            run_of = T.sblock_alloc_buffer((slots,), "int32")
            # The sequence and the segment that come next; runs and segments of the round; its turn.
            cursor, filled = (T.sblock_alloc_buffer((2,), "int32") for _ in range(2))
            turn = T.sblock_alloc_buffer((1,), "int32")
            sequences = live_rows(step, SEQUENCES, B)

            def fill() -> None:
                """Take the segments of the next round, in order."""
                T.buffer_store(filled, 0, [0])
                T.buffer_store(filled, 0, [1])
                with (
                    T.While((cursor[0] < sequences) & (filled[1] < slots)),
                    block("run"),
                ):
                    s, segment = let(cursor[0]), let(cursor[1])
                    run, slot = let(filled[0]), let(filled[1])
                    if spec.window is not None:
                        segment = let(T.max(segment, first_of(s)))
                    left = let(segments(s) - segment)
                    if spec.window is not None:
                        left = let(T.max(0, left))
                    count = let(T.max(0, T.min(left, slots - slot)))
                    with T.If(count > 0), T.Then():
                        for i, value in enumerate((s, slot, segment, count)):
                            T.buffer_store(runs, value, [run, i])
                        with T.serial(0, count) as i:
                            T.buffer_store(run_of, run, [slot + i])
                        T.buffer_store(filled, T.min(run + 1, slots), [0])
                        T.buffer_store(filled, slot + count, [1])
                    going_on = T.min(segment + count, -(-MP // SEGMENT_PAGES))
                    T.buffer_store(cursor, T.Select(count == left, s + 1, s), [0])
                    T.buffer_store(cursor, T.Select(count == left, 0, going_on), [1])

            T.buffer_store(cursor, 0, [0])
            T.buffer_store(cursor, 0, [1])
            T.buffer_store(turn, 0, [0])
            with T.While(cursor[0] < sequences):
                fill()
                # Many a prefill has no such sequence; then no thread is woken.
                with T.If(filled[1] > 0), T.Then():
                    with T.parallel(0, filled[1] * HK) as item, block("segment"):
                        attend(runs, run_of, item)
                    with T.If(filled[1] * HQ < _PARALLEL_MERGE):
                        with T.Then(), T.serial(0, filled[0] * HQ) as item, block("merge"):
                            merge(runs, turn[0], item)
                        with T.Else(), T.parallel(0, filled[0] * HQ) as item, block("merge"):
                            merge(runs, turn[0], item)
                T.buffer_store(turn, 1 - turn[0], [0])

    name = symbol("attention_decode", N, B, MP, HQ, HK, D, kv_dtype, spec.scale, *trait_names(spec))
    return kernel(name, arguments, body)
