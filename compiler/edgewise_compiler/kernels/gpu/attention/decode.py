"""Attention of one query token per sequence on the GPU: segments side by side, then their merge.

A workgroup takes one segment of positions of one KV head, for all the query heads that share it:

    s[j] = q.k[j] * scale,  scale = sm_scale*log2(e)
    m = max s[j],  p[j] = exp2(s[j] - m),  l = sum p[j],  o = sum p[j]*v[j]

and :func:`attention_merge` joins the segments:

    M = max m,  w = exp2(m - M) or 1 where m = M,  out = sum w*o / sum w*l

where a sink is one more m = sink*log2(e), l = 1, o = 0 before the others.

A workgroup of :func:`attention_near` takes all segments of a short sequence after each other and
joins them itself: one launch, the same bits. Every sum has an order that follows from the sizes of
heads and segments and the number of keys alone.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from functools import cache

from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer

from edgewise_compiler.kernels.attention import (
    KNOWN,
    AttentionSpec,
    RopeSpec,
    check_attention,
    first_seen,
    log2_cap,
    score_scale,
    segment_names,
    sinks_arg,
    spread,
    trait_names,
)
from edgewise_compiler.kernels.function import STEP, Arg, symbol, table_arg
from edgewise_compiler.kernels.gpu.attention.common import (
    LOWEST,
    QUADS,
    SEEN,
    capped,
    deal,
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
from edgewise_compiler.kernels.gpu.attention.division import division_of, lends
from edgewise_compiler.kernels.gpu.attention.merge import Slice, few_segments, part_arg, slices_of
from edgewise_compiler.kernels.gpu.attention.newest import Newest, combines, newest_arguments
from edgewise_compiler.kernels.gpu.attention.shares import Share, whole
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
from edgewise_runtime.format.abi import KV_LEN, PAGE_TOKENS, SEQUENCES, STOP

_LOADS = 4  # vectors of keys or values a thread asks for at once

NEAR_TOKENS = 256
"""Of a sequence that one workgroup takes: what that takes longer than segments side by side is
estimated to be less than another launch does (docs/decisions/0065-*)."""


def attention_decode(
    spec: AttentionSpec,
    limits: Limits,
    share: Share | None = None,
    rope: RopeSpec | None = None,
) -> Launch:
    """Every segment's part of the attention of row i, the newest token of sequence i.

    Arguments: qkv float32 [N, (HQ+2*HK)*D], of which the rotated queries are read; kv ``kv_dtype``
    [pages, 2, HK, 16*D], which holds the row's own token already; of int8 pages kv_scale uint32
    [pages, HK, 16]; table int32 [B, 8+MP]; part float32 [G, HQ, ceil(R/S), D+4], written: o, m, l
    and padding for the G sequences of a share, of R tokens at most, in segments of S; step int32
    [8], whose field 1 is the number of sequences. Segments that a sequence does not reach and
    stopped sequences are left alone. Grid: segments of ``t`` tokens in x, sequences of the share
    times KV heads in y.

    With ``rope`` it takes the token in first: qkv is what the projection gave, rope and qk_norm
    follow it (`newest_arguments`), and kv and kv_scale are written.

    Args:
        spec: N rows, B sequences, MP pages of a sequence and C positions at most; HQ and HK heads
            of D.
        limits: of the target, whose shared memory decides how many heads are computed at once.
        share: the sequences. Default: all, of any length.
        rope: how queries and keys are rotated, of the same heads. Default: they were before.

    Raises:
        CompileError: heads or dtypes that attention is not written for.
        UnsupportedError: a trait that it does not have.
    """
    # Sinks join with the segments.
    return _segments(replace(spec, sinks=False), limits, share or whole(spec), rope)


def attention_near(spec: AttentionSpec, limits: Limits, rope: RopeSpec | None = None) -> Launch:
    """The attention of row i, where no sequence has more than `NEAR_TOKENS` keys.

    Arguments, bits and errors are those of :func:`attention_decode` and :func:`attention_merge`, in
    place of part stands out float32 [N, HQ*D]. Grid: sequences times KV heads in y.
    """
    return _segments(spec, limits, None, rope)


@cache
def _segments(
    spec: AttentionSpec, limits: Limits, share: Share | None, rope: RopeSpec | None
) -> Launch:
    """`attention_decode`, or without a share `attention_near`."""
    group = check_attention(spec, KNOWN)
    scale, window = score_scale(spec), spec.window
    N, B, C, MP = spec.rows, spec.batch, spec.context, spec.pages
    HQ, HK, D = spec.heads, spec.kv_heads, spec.head_dim
    near, first_sequence = share is None, 0 if share is None else share.first
    S, quads, S_pages = spec.segment, spec.segment // 4, spec.segment // PAGE_TOKENS
    long = S > SEGMENT  # pages that no key is seen of are passed over
    count = min(NEAR_TOKENS // S, -(-C // S)) if near else 0  # segments that are joined here
    single = count == 1  # which is joined where it lies
    kept = 0 if single else count
    combining = rope is not None and combines(rope)
    division = division_of(spec, limits, kept)
    threads, most = division.threads, division.heads
    vectors = D // 4
    # Scores: a thread has four tokens of one page and every `slices`-th vector of d.
    slices = threads // quads
    seen = SEEN[spec.kv_dtype]
    packed = seen.packed  # d of a vector of keys
    per_slice, runs_left = divmod(D // packed, slices)
    # Values: a thread has four d and every `strides`-th token of a page.
    strides = min(PAGE_TOKENS, power_of_two_up_to(threads // vectors))
    per_stride = PAGE_TOKENS // strides
    projected = (Arg("qkv", "float32", (N, HQ + 2 * HK, D)),)
    arguments = [
        *(projected if rope is None else newest_arguments(rope)),
        *kv_vectors(spec),
        table_arg(spec, pool_pages(spec)),
        *sinks_arg(spec),
        Arg("out", "float32x4", (N, HQ, vectors)) if share is None else part_arg(spec, share),
        STEP,
    ]

    def body(thread: Thread, *buffers: Buffer) -> None:
        named = {arg.name: buffer for arg, buffer in zip(arguments, buffers, strict=True)}
        qkv, kv, table, step = (named[name] for name in ("qkv", "kv", "table", "step"))
        kv_scale = [named[name] for name in ("kv_scale",) if name in named]
        result = buffers[-2]
        t = thread.t
        place, h = bind(T.floordiv(thread.y, HK)), bind(T.floormod(thread.y, HK))
        s = bind(place + first_sequence) if first_sequence else place
        queries = shared((most * D,))
        sums = shared((threads * most,), "float32x4")  # over slices, then over strides
        weights = shared((most * S,))
        quad_max, quad_sum = (shared((most * quads,)) for _ in range(2))
        if kept:
            outputs = shared((most * kept * vectors,), "float32x4")
            stats = shared((most * kept * 2,))
        acc = local((most,), "float32x4")
        rounds = -(-most * quads // threads)
        scores = local((rounds,), "float32x4")
        scales = local((rounds,), "uint32x4") if kv_scale else None

        newest = None
        if rope is not None:
            scratch = None
            if combining:
                scratch = weights if lends(spec) else shared((threads,))
            newest = Newest(thread, rope, named, s, table[s, KV_LEN], scratch)

        def rotate(head: Expr, heads: int) -> None:
            def stage(item: Expr, i: int) -> None:
                g, d = T.floordiv(item, D), T.floormod(item, D)
                value = qkv[s, head + g, d] * number(scale)
                store(queries, value, item)

            if newest is None:
                deal(thread, heads * D, stage)
            else:
                newest.queries(queries, head, heads, scale)
            barrier()

        def summed(item: Expr, heads: int) -> Expr:
            """Four elements of what a segment adds up to, of all strides."""
            store(acc, sums[item], 0)
            with T.serial(1, strides) as j:
                store(acc, acc[0] + sums[j * heads * vectors + item], 0)
            return acc[0]

        def attend(head: Expr, heads: int, segment: Expr, keys: Expr, low: Expr | None) -> None:
            """The part of one segment, of which there are so many keys, for some heads; of a window
            those from ``low`` on."""
            pages = pages_of(keys)
            live, behind = (pages, 0) if long else (S_pages, 0)
            if long and low is not None:
                behind = bind(T.floordiv(T.max(low, 0), PAGE_TOKENS))
            quad, z = T.floormod(t, QUADS), bind(T.floormod(T.floordiv(t, QUADS), slices))
            nth = bind(T.floordiv(t, QUADS * slices))
            page = page_of(table, s, segment, nth, pages, S_pages)
            for g in range(heads):
                store(acc, 0.0, g)

            def add(runs: list[Expr]) -> None:
                """Runs of ``packed`` d, one vector of the page each."""
                loaded = [bind(kv[page, 0, h, run * QUADS + quad]) for run in runs]
                for run, vector in zip(runs, loaded, strict=True):
                    for j, key in enumerate(seen.keys(vector)):
                        for g in range(heads):
                            q = queries[g * D + run * packed + j]
                            store(acc, fma(splat(q), key, acc[g]), g)

            with when(T.And(nth < pages, nth >= behind)) if long else nullcontext():
                if per_slice:
                    unrolled = largest_divisor(per_slice, _LOADS)
                    with T.serial(0, per_slice // unrolled) as i:
                        add([bind(z + (i * unrolled + j) * slices) for j in range(unrolled)])
                if runs_left:
                    with when(z < runs_left):
                        add([bind(z + per_slice * slices)])
            for g in range(heads):
                at = (z * heads + g) * quads + nth * QUADS + quad
                store(sums, acc[g], at)
            barrier()

            def page_at(item: Expr) -> Expr:
                nth = T.floordiv(T.floormod(item, quads), QUADS)
                return page_of(table, s, segment, nth, pages, S_pages)

            def score(item: Expr, i: int) -> None:
                store(scores, sums[item], i)
                with T.serial(1, slices) as j:
                    store(scores, scores[i] + sums[j * heads * quads + item], i)
                first = T.floormod(item, quads) * 4
                if scales is not None:
                    store(scales, kv_scale[0][page_at(item), h, T.floormod(item, QUADS)], i)
                    store(scores, scores[i] * low_and_high(scales[i])[0], i)
                score = capped(scores[i], log2_cap(spec))
                store(scores, masked(score, first, keys, LOWEST, low), i)
                four = [lane(scores[i], j) for j in range(4)]
                store(quad_max, T.max(T.max(four[0], four[1]), T.max(four[2], four[3])), item)

            deal(thread, heads * quads, score)
            barrier()

            best = local((1,))

            def largest(g: Expr) -> Expr:
                store(best, quad_max[g * quads], 0)
                with T.serial(1, live * QUADS) as j:
                    store(best, T.max(best[0], quad_max[g * quads + j]), 0)
                return bind(best[0])

            def weigh(item: Expr, i: int) -> None:
                m = largest(T.floordiv(item, quads))
                first = bind(T.floormod(item, quads) * 4)
                p = bind(masked(exp2(scores[i] - splat(m)), first, keys, 0.0, low))
                weight = p
                if scales is not None:
                    weight = bind(masked(p * low_and_high(scales[i])[1], first, keys, 0.0, low))
                for j in range(4):
                    store(weights, lane(weight, j), item * 4 + j)
                total = lane(p, 0) + lane(p, 1) + lane(p, 2) + lane(p, 3)
                store(quad_sum, spoiled(total, scores[i]), item)

            deal(thread, heads * quads, weigh)
            barrier()

            c, stride = bind(T.floormod(t, vectors)), bind(T.floordiv(t, vectors))
            with when(stride < strides):
                for g in range(heads):
                    store(acc, 0.0, g)
                at_once = min(per_stride, _LOADS)
                of_page = per_stride // at_once
                with T.serial(behind * of_page, live * of_page) as i:
                    nth_page = bind(T.floordiv(i * at_once, per_stride))
                    page = page_of(table, s, segment, nth_page, pages, S_pages)
                    first = bind(T.floormod(i * at_once, per_stride))
                    tokens = [bind(stride + (first + j) * strides) for j in range(at_once)]
                    loaded = [
                        bind(kv[page, 1, h, token * (vectors // packed) + T.floordiv(c, packed)])
                        for token in tokens
                    ]
                    for token, vector in zip(tokens, loaded, strict=True):
                        j = bind(nth_page * PAGE_TOKENS + token)
                        # A token without a weight may hold anything, and 0*NaN is NaN.
                        value = seen.run(vector, c)
                        value = bind(select(within(j, keys, low), value, splat(number(0.0))))
                        for g in range(heads):
                            store(acc, fma(splat(weights[g * S + j]), value, acc[g]), g)
                for g in range(heads):
                    store(sums, acc[g], (stride * heads + g) * vectors + c)
            barrier()

            def total(g: Expr) -> Expr:
                store(best, quad_sum[g * quads], 0)
                with T.serial(1, live * QUADS) as j:
                    store(best, best[0] + quad_sum[g * quads + j], 0)
                return bind(best[0])

            if single:
                with when(t < heads):
                    m, l = largest(t), total(t)
                    store(quad_max, m, t * quads)
                    store(quad_sum, l, t * quads)
                return

            def join(item: Expr, i: int) -> None:
                output = summed(item, heads)
                g, c = T.floordiv(item, vectors), T.floormod(item, vectors)
                if near:
                    store(outputs, output, (g * kept + segment) * vectors + c)
                else:
                    store(result, output, place, head + g, segment, c)

            deal(thread, heads * vectors, join)
            with when(t < heads):
                if near:
                    store(stats, largest(t), (t * kept + segment) * 2)
                    store(stats, total(t), (t * kept + segment) * 2 + 1)
                else:
                    held = vector_of(largest(t), total(t), number(0.0), number(0.0))
                    store(result, held, place, head + t, segment, vectors)

        def merge(head: Expr, heads: int, segments: Expr, first: Expr | None) -> None:
            """What `attention_merge` does, of parts in shared memory; ``first`` is the first of so
            many segments."""
            parts = slices_of(vectors)
            state, part = local((2,)), local((1,), "float32x4")
            joined, weight = local((1,), "float32x4"), local((1,))

            def one(item: Expr, i: int) -> None:
                g, c = bind(T.floordiv(item, vectors)), bind(T.floormod(item, vectors))

                def stats_of(i: Expr) -> tuple[Expr, Expr]:
                    if single:
                        return quad_max[g * quads], quad_sum[g * quads]
                    at = (g * kept + i) * 2
                    return stats[at], stats[at + 1]

                def output_of(i: Expr) -> Expr:
                    if single:
                        return summed(item, heads)
                    return outputs[(g * kept + i) * vectors + c]

                sink = bind(named["sinks"][head + g] * number(LOG2E)) if spec.sinks else None
                of = Slice(segments, parts, stats_of, output_of, first, sink)
                of.largest(state)
                of.add(0, state, part)
                store(joined, part[0], 0)
                store(weight, state[1], 0)
                # Slices without a segment add zero, as often as one likes.
                with T.serial(1, min(parts, kept + 1)) as z:
                    of.add(z, state, part)
                    store(joined, joined[0] + part[0], 0)
                    store(weight, weight[0] + state[1], 0)
                store(result, joined[0] / splat(weight[0]), s, head + g, c)

            deal(thread, heads * vectors, one)

        def some_heads(head: Expr, heads: int, length: Expr) -> None:
            rotate(head, heads)
            first = None if window is None else bind(first_seen(spec, length))

            def low_of(segment: Expr) -> Expr | None:
                return None if first is None else bind(first - segment * S)

            if not near:
                keys = bind(T.min(length - thread.x * S, S))
                attend(head, heads, thread.x, keys, low_of(thread.x))
                return
            if single:
                attend(head, heads, T.int32(0), bind(T.min(length, S)), low_of(T.int32(0)))
                barrier()
                merge(head, heads, T.int32(1), None)
                return
            segments, begin = few_segments(spec, length, kept)
            with T.serial(0, segments) as i:
                segment = i if begin is None else bind(T.min(begin + i, kept - 1))
                keys = T.min(length - segment * S, S)
                # No segment is empty, which whoever counts indices does not see.
                attend(head, heads, segment, bind(T.max(keys, 1)), low_of(segment))
                barrier()
            merge(head, heads, segments, begin)

        with when(s < step[SEQUENCES]):
            with when(table[s, STOP] == 0):
                length = bind(table[s, KV_LEN] + 1)
                # What only segments side by side have to ask.
                there = length > thread.x * S
                if window is not None:
                    # Segments behind the window are left alone: nobody joins them.
                    there = T.And(there, length - window < (thread.x + 1) * S)
                lives = nullcontext() if near else when(there)
                with lives:
                    if newest is not None:
                        last = T.floordiv(newest.position, S) == thread.x
                        with nullcontext() if near else when(last):
                            newest.append(h)
                    for first, heads, times in spread(group, most):
                        with T.serial(0, times) as i:
                            some_heads(bind(h * group + first + i * heads), heads, length)

    return kernel(
        symbol(
            f"attention_{'near' if near else 'decode'}",
            *(N, B, MP, HQ, HK, D, C, spec.kv_dtype, spec.scale, *trait_names(spec)),
            *segment_names(spec),
            *(() if share is None else share.parts),
            *(() if rope is None else rope.rope_names or ("rope",)),
            *(() if rope is None or rope.norm_eps is None else (f"norm{rope.norm_eps}",)),
        ),
        arguments,
        body,
        threads=threads,
        grid=(
            1 if share is None else ("ceildiv", "t", S),
            ("mul", "b" if share is None else share.live, HK),
        ),
        bounds={"t": C if share is None else share.reach, "b": B},
    )
