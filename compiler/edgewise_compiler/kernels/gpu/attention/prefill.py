"""Causal attention of chunks of prompts on the GPU.

A workgroup takes 32 rows of one sequence for one query head and walks the sequence's segments of 64
positions with an online softmax (M. Milakov, N. Gimelshein, "Online normalizer calculation for
softmax", 2018). Keys, then weights and values go through shared memory:

    s[j] = q.k[j] * scale,  M' = max(M, max s[j]),  a = exp2(M - M'),  p[j] = exp2(s[j] - M')
    L = L*a + sum p[j],  O = O*a + sum p[j]*v[j],  and O / L in the end

from M = sink*log2(e), L = 1 where there are sinks.

A row's operations follow from its position alone: it skips segments that it does not see and adds
nothing for keys after itself, so it does not matter which rows share its tile.
"""

from __future__ import annotations

from functools import cache

from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer

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
from edgewise_compiler.kernels.function import STEP, Arg, symbol, table_arg
from edgewise_compiler.kernels.gpu.attention.common import (
    LOWEST,
    QUADS,
    SEEN,
    SEGMENT_QUADS,
    capped,
    deal,
    find_tile,
    kv_vectors,
    largest_divisor,
    low_and_high,
    masked,
    page_of,
    pages_of,
    pool_pages,
    power_of_two_up_to,
    spoiled,
    within,
)
from edgewise_compiler.kernels.gpu.limits import Limits
from edgewise_compiler.kernels.gpu.operations import (
    exp2,
    fma,
    lane,
    number,
    select,
    splat,
    vector_of,
)
from edgewise_compiler.kernels.gpu.thread import (
    Launch,
    Thread,
    barrier,
    bind,
    kernel,
    local,
    shared,
    store,
    when,
)
from edgewise_compiler.kernels.numbers import LOG2E, SEGMENT
from edgewise_runtime.format.abi import (
    KV_LEN,
    PAGE_TOKENS,
    Q_LEN,
    Q_START,
)

TILE = 32  # rows of a workgroup
_ROWS = 4  # rows of a thread, which share what it loads
_THREADS = TILE // _ROWS * SEGMENT_QUADS


@cache
def attention_prefill(spec: AttentionSpec, limits: Limits) -> Launch:
    """Attention of every row of a ragged batch over the tokens of its sequence up to itself.

    Arguments: qkv float32 [N, (HQ+2*HK)*D], of which the rotated queries are read; kv ``kv_dtype``
    [pages, 2, HK, 16*D], which holds the rows' own tokens already; of int8 pages kv_scale uint32
    [pages, HK, 16]; table int32 [B, 8+MP]; with sinks those, float32 [HQ]; out float32
    [N, HQ*D], written; step int32 [8], whose
    field 1 is the number of sequences. Rows of a stopped sequence are left alone. Grid: tiles of 32
    rows in x, query heads in y.

    Args:
        spec: N rows, B sequences, MP pages of a sequence at most; HQ and HK heads of D.
        limits: of the target, whose shared memory decides how much is staged at once.

    Raises:
        CompileError: heads or dtypes that attention is not written for.
        UnsupportedError: a trait that it does not have.
    """
    group = check_attention(spec, KNOWN)
    window = spec.window
    N, B, C, MP = spec.rows, spec.batch, spec.context, spec.pages
    HQ, HK, D = spec.heads, spec.kv_heads, spec.head_dim
    vectors = D // 4
    size = limits.shared // 16  # of shared memory, in vectors
    staged = size - TILE * SEGMENT_QUADS  # behind so many lie the weights p
    # What is staged at once: so many d of a segment's keys, so many tokens of its values.
    ds = largest_divisor(D, size // SEGMENT_QUADS, multiple=8)
    tokens = power_of_two_up_to(min(SEGMENT, staged // vectors))
    seen = SEEN[spec.kv_dtype]
    packed = seen.packed
    columns = -(-vectors // SEGMENT_QUADS)  # vectors of a row's output that a thread sums
    arguments = [
        Arg("qkv", "float32x4", (N, HQ + 2 * HK, vectors)),
        *kv_vectors(spec),
        table_arg(spec, pool_pages(spec)),
        *sinks_arg(spec),
        Arg("out", "float32x4", (N, HQ, vectors)),
        STEP,
    ]

    def body(thread: Thread, *buffers: Buffer) -> None:
        named = {arg.name: buffer for arg, buffer in zip(arguments, buffers, strict=True)}
        qkv, kv, table = (named[name] for name in ("qkv", "kv", "table"))
        kv_scale = [named[name] for name in ("kv_scale",) if name in named]
        out, step = buffers[-2:]
        t, head = thread.t, thread.y
        h = bind(T.floordiv(head, group))
        block, column = bind(T.floordiv(t, SEGMENT_QUADS)), bind(T.floormod(t, SEGMENT_QUADS))
        space = shared((size,), "float32x4")
        found = find_tile(thread, table, step, B, TILE)
        scores, outputs = local((_ROWS,), "float32x4"), local((_ROWS * columns,), "float32x4")
        state = local((2,), "float32x4")  # M and this thread's share of L, of its four rows

        def attend(s: Expr, tile: Expr) -> None:
            live = bind(T.min(table[s, Q_LEN] - tile * TILE, TILE))
            first_row = bind(table[s, Q_START] + tile * TILE)
            first_position = bind(table[s, KV_LEN] + tile * TILE)
            busy = bind(block * _ROWS < live)
            # Rows that the tile does not have repeat its last one.
            nth = [bind(T.min(block * _ROWS + r, live - 1)) for r in range(_ROWS)]
            rows = [bind(first_row + i) for i in nth]

            if spec.sinks:
                # Of a row's sum every thread has a share: the sink is in that of the first.
                store(state, splat(named["sinks"][head] * number(LOG2E)), 0)
                store(state, splat(T.Select(column == 0, number(1.0), number(0.0))), 1)
            else:
                store(state, LOWEST, 0)
                store(state, 0.0, 1)
            for i in range(_ROWS * columns):
                store(outputs, 0.0, i)

            def one_segment(segment: Expr) -> None:
                base = bind(segment * SEGMENT)
                pages = bind(T.max(1, pages_of(T.min(first_position + live - base, SEGMENT))))
                # Keys of the segment each row sees: none, some or, from 64 on, all.
                keys = [bind(first_position + i + 1 - base) for i in nth]
                lows = [None if window is None else bind(count - window) for count in keys]

                def sees(r: int) -> Expr:
                    """Whether a row sees anything of the segment."""
                    low = lows[r]
                    return keys[r] > 0 if low is None else T.And(keys[r] > 0, low < SEGMENT)

                def stage_keys(chunk: Expr) -> None:
                    runs = ds // packed

                    def copy(item: Expr, _: int) -> None:
                        nth_page = bind(T.floordiv(item, runs * QUADS))
                        at = bind(T.floormod(item, runs * QUADS))
                        page = page_of(table, s, segment, nth_page, pages)
                        vector = bind(kv[page, 0, h, chunk * (runs * QUADS) + at])
                        first = bind(T.floordiv(at, QUADS) * (packed * SEGMENT_QUADS))
                        place = first + nth_page * QUADS + T.floormod(at, QUADS)
                        for j, column in enumerate(seen.keys(vector)):
                            store(space, column, place + j * SEGMENT_QUADS)

                    deal(thread, runs * SEGMENT_QUADS, copy)

                def dot(chunk: Expr) -> None:
                    with T.serial(0, ds // 4) as i:
                        queries = [bind(qkv[row, head, chunk * (ds // 4) + i]) for row in rows]
                        for j in range(4):
                            key = bind(space[(i * 4 + j) * SEGMENT_QUADS + column])
                            for r, query in enumerate(queries):
                                store(scores, fma(splat(lane(query, j)), key, scores[r]), r)

                def softmax() -> None:
                    best = local((1,), "float32x4")
                    most = []
                    of_keys = of_values = None
                    if kv_scale:
                        nth_page = T.floordiv(column, QUADS)
                        page = page_of(table, s, segment, nth_page, pages)
                        words = bind(kv_scale[0][page, h, T.floormod(column, QUADS)])
                        of_keys, of_values = low_and_high(words)
                    for r in range(_ROWS):
                        scaled = scores[r] * number(score_scale(spec), "float32x4")
                        if of_keys is not None:
                            scaled = scaled * of_keys
                        scaled = capped(scaled, log2_cap(spec))
                        store(scores, masked(scaled, column * 4, keys[r], LOWEST, lows[r]), r)
                        x = [lane(scores[r], j) for j in range(4)]
                        most.append(T.max(T.max(x[0], x[1]), T.max(x[2], x[3])))
                    store(space, vector_of(*most), staged + t)
                    barrier()
                    store(best, state[0], 0)
                    with T.serial(0, SEGMENT_QUADS) as i:
                        other = space[staged + block * SEGMENT_QUADS + i]
                        store(best, T.max(best[0], other), 0)
                    barrier()
                    scale = bind(exp2(state[0] - best[0]))
                    sums = []
                    for r in range(_ROWS):
                        p = exp2(scores[r] - splat(lane(best[0], r)))
                        p = bind(masked(p, column * 4, keys[r], 0.0, lows[r]))
                        weight = p
                        if of_values is not None:
                            weight = masked(p * of_values, column * 4, keys[r], 0.0, lows[r])
                        place = staged + (block * _ROWS + r) * SEGMENT_QUADS + column
                        store(space, weight, place)
                        total = lane(p, 0) + lane(p, 1) + lane(p, 2) + lane(p, 3)
                        total = spoiled(total, scores[r])
                        old = lane(state[1], r)
                        new = fma(old, lane(scale, r), total)
                        sums.append(bind(T.Select(sees(r), new, old)))
                        for c in range(r * columns, (r + 1) * columns):
                            new = outputs[c] * splat(lane(scale, r))
                            store(outputs, select(sees(r), new, outputs[c]), c)
                    store(state, best[0], 0)
                    store(state, vector_of(*sums), 1)

                def stage_values(chunk: Expr) -> None:
                    runs = vectors // packed

                    def copy(item: Expr, _: int) -> None:
                        token = bind(chunk * tokens + T.floordiv(item, runs))
                        at = T.floormod(token, PAGE_TOKENS) * runs + T.floormod(item, runs)
                        page = page_of(table, s, segment, T.floordiv(token, PAGE_TOKENS), pages)
                        vector = bind(kv[page, 1, h, at])
                        for j, part in enumerate(seen.values(vector)):
                            store(space, part, item * packed + j)

                    deal(thread, tokens * runs, copy)

                def mix(chunk: Expr) -> None:
                    def quad(i: Expr, *, every_row: bool) -> None:
                        """Four tokens of the chunk."""
                        at = bind(chunk * (tokens // 4) + i)
                        first = staged + block * (_ROWS * SEGMENT_QUADS) + at
                        weights = [bind(space[first + r * SEGMENT_QUADS]) for r in range(_ROWS)]
                        for j in range(4):
                            for c in range(columns):
                                d = column + c * SEGMENT_QUADS
                                if (c + 1) * SEGMENT_QUADS > vectors:
                                    d = T.min(d, vectors - 1)
                                value = bind(space[(i * 4 + j) * vectors + d])
                                for r, weight in enumerate(weights):
                                    old = outputs[r * columns + c]
                                    new = fma(splat(lane(weight, j)), value, old)
                                    if not every_row:
                                        # Not by a weight of zero: 0*NaN is NaN.
                                        new = select(within(at * 4 + j, keys[r], lows[r]), new, old)
                                    store(outputs, new, r * columns + c)

                    def inside(quads: Expr) -> Expr:
                        left = quads - chunk * (tokens // 4)
                        return bind(T.max(0, T.min(left, tokens // 4)))

                    common = inside(T.floordiv(keys[0], 4)) if window is None else T.int32(0)
                    some = inside(T.floordiv(keys[-1] + 3, 4))
                    if window is None:
                        with T.serial(0, common) as i:
                            quad(i, every_row=True)
                    with T.serial(common, some) as i:
                        quad(i, every_row=False)

                for r in range(_ROWS):
                    store(scores, 0.0, r)
                with T.serial(0, D // ds) as chunk:
                    stage_keys(chunk)
                    barrier()
                    with when(busy):
                        dot(chunk)
                    barrier()
                softmax()
                with T.serial(0, T.floordiv(pages * PAGE_TOKENS + (tokens - 1), tokens)) as chunk:
                    stage_values(chunk)
                    barrier()
                    with when(busy):
                        mix(chunk)
                    barrier()

            segments = T.floordiv(first_position + live - 1, SEGMENT) + 1
            if window is None:
                with T.serial(0, segments) as segment:
                    one_segment(segment)
            else:
                begin = bind(T.floordiv(first_seen(spec, first_position + 1), SEGMENT))
                with T.serial(0, segments - begin) as i:
                    one_segment(bind(begin + i))
            store(space, state[1], t)
            barrier()
            total = local((1,), "float32x4")
            store(total, space[block * SEGMENT_QUADS], 0)
            with T.serial(1, SEGMENT_QUADS) as i:
                store(total, total[0] + space[block * SEGMENT_QUADS + i], 0)
            for r in range(_ROWS):
                for c in range(columns):
                    d = column + c * SEGMENT_QUADS
                    with when((block * _ROWS + r < live) & (d < vectors)):
                        value = outputs[r * columns + c] / splat(lane(total[0], r))
                        store(out, value, rows[r], head, d)

        sequence = bind(found[0])
        with when(sequence >= 0):
            attend(sequence, bind(found[1]))

    return kernel(
        symbol(
            "attention_prefill",
            N,
            B,
            MP,
            HQ,
            HK,
            D,
            C,
            spec.kv_dtype,
            spec.scale,
            *trait_names(spec),
        ),
        arguments,
        body,
        threads=_THREADS,
        grid=(("add", ("ceildiv", "n", TILE), "b"), HQ),
        bounds={"n": N, "b": B},
    )
