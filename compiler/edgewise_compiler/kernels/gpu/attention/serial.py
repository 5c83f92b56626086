"""Attention without barriers: one thread takes one query head of one row, page after page.

    s[j] = q.k[j] * scale,  m = max(M, max s[j]),  w = exp2(M - m),  p[j] = exp2(s[j] - m)
    L = L*w + sum p[j],  O = O*w + sum p[j]*v[j],  M = m          (j over a page's 16 tokens)

with scale = sm_scale*log2(e), from M = sink*log2(e), L = 1 where there are sinks: the online
softmax (M. Milakov, N. Gimelshein, "Online normalizer calculation for softmax", 2018). What a row
gives follows from its position and its pages alone, so decode and prefill, which use the same
kernel, give the same bits.
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
from edgewise_compiler.kernels.function import STEP, Arg, row_seq_arg, symbol, table_arg
from edgewise_compiler.kernels.gpu.attention.common import (
    LOWEST,
    QUADS,
    SEEN,
    capped,
    kv_vectors,
    low_and_high,
    masked,
    pages_of,
    pool_pages,
    spoiled,
)
from edgewise_compiler.kernels.gpu.operations import exp2, fma, lane, number, splat
from edgewise_compiler.kernels.gpu.thread import Launch, Thread, bind, kernel, local, store, when
from edgewise_compiler.kernels.numbers import LOG2E
from edgewise_runtime.format.abi import KV_LEN, PAGE_TOKENS, Q_START, ROWS, STOP, TABLE_HEADER

THREADS = 32


@cache
def attention_serial(spec: AttentionSpec) -> Launch:
    """Attention of every live row to its sequence's tokens up to its own.

    Arguments: qkv float32 [N, (HQ+2*HK)*D], of which the rotated queries are read; kv ``kv_dtype``
    [pages, 2, HK, 16*D], which holds the rows' own tokens already; of int8 pages kv_scale uint32
    [pages, HK, 16]; table int32 [B, 8+MP]; row_seq int32 [N]; with sinks those, float32 [HQ]; out
    float32 [N, HQ*D], written for
    rows of sequences that have not stopped; step int32 [8], whose field 0 is the number of rows.
    Grid: 32 of the rows' query heads at a time.

    Args:
        spec: N rows, B sequences, MP pages of a sequence at most; HQ and HK heads of D.

    Raises:
        CompileError: heads or dtypes that attention is not written for.
        UnsupportedError: a trait that it does not have.
    """
    group = check_attention(spec, KNOWN)
    window = spec.window
    N, B, C, MP = spec.rows, spec.batch, spec.context, spec.pages
    HQ, HK, D = spec.heads, spec.kv_heads, spec.head_dim
    vectors, seen = D // 4, SEEN[spec.kv_dtype]
    arguments = [
        Arg("qkv", "float32", (N, HQ + 2 * HK, D)),
        *kv_vectors(spec),
        table_arg(spec, pool_pages(spec)),
        row_seq_arg(spec),
        *sinks_arg(spec),
        Arg("out", "float32x4", (N, HQ, vectors)),
        STEP,
    ]

    def body(thread: Thread, *buffers: Buffer) -> None:
        named = {arg.name: buffer for arg, buffer in zip(arguments, buffers, strict=True)}
        qkv, kv, table, row_seq = (named[name] for name in ("qkv", "kv", "table", "row_seq"))
        kv_scale = [named[name] for name in ("kv_scale",) if name in named]
        out, step = buffers[-2:]
        place = bind(thread.x * THREADS + thread.t)
        row, head = bind(T.floordiv(place, HQ)), bind(T.floormod(place, HQ))
        h = bind(T.floordiv(head, group))
        best, total = local((1,)), local((1,))
        outputs = local((vectors,), "float32x4")
        scores = local((QUADS,), "float32x4")
        weights = local((PAGE_TOKENS,))

        def one_page(page: Expr, keys: Expr) -> None:
            low = None if window is None else bind(keys - window)
            for u in range(QUADS):
                store(scores, 0.0, u)
            with T.serial(0, D // seen.packed) as i:
                qs = [
                    bind(qkv[row, head, i * seen.packed + j] * number(score_scale(spec)))
                    for j in range(seen.packed)
                ]
                for u in range(QUADS):
                    loaded = bind(kv[page, 0, h, i * QUADS + u])
                    for q, key in zip(qs, seen.keys(loaded), strict=True):
                        store(scores, fma(splat(q), key, scores[u]), u)
            scales = [low_and_high(bind(kv_scale[0][page, h, u])) for u in range(QUADS) if kv_scale]
            for u, (of_keys, _) in enumerate(scales):
                store(scores, scores[u] * of_keys, u)
            largest = bind(best[0])
            for u in range(QUADS):
                score = capped(scores[u], log2_cap(spec))
                store(scores, masked(score, T.int32(u * 4), keys, LOWEST, low), u)
                for j in range(4):
                    largest = bind(T.max(largest, lane(scores[u], j)))
            rest = bind(exp2(best[0] - largest))
            store(best, largest, 0)
            store(total, total[0] * rest, 0)
            for u in range(QUADS):
                p = bind(masked(exp2(scores[u] - splat(largest)), T.int32(u * 4), keys, 0.0, low))
                weight = bind(p * scales[u][1]) if kv_scale else p
                for j in range(4):
                    store(weights, lane(weight, j), u * 4 + j)
                    store(total, total[0] + lane(p, j), 0)
                store(total, spoiled(total[0], scores[u]), 0)
            for c in range(vectors):
                store(outputs, outputs[c] * splat(rest), c)
            # Tokens after the row's own may hold anything: they are not read.
            live = T.min(keys, PAGE_TOKENS)
            start = None if low is None else bind(T.max(0, low))
            with T.serial(0, live if start is None else T.max(0, live - start)) as nth:
                token = nth if start is None else bind(T.min(start + nth, PAGE_TOKENS - 1))
                p = bind(splat(weights[token]))
                runs = vectors // seen.packed
                for c in range(runs):
                    loaded = bind(kv[page, 1, h, token * runs + c])
                    for j, value in enumerate(seen.values(loaded), c * seen.packed):
                        store(outputs, fma(p, value, outputs[j]), j)

        with when(row < T.min(step[ROWS], N)):
            s = bind(row_seq[row])
            with when(table[s, STOP] == 0):
                keys = bind(table[s, KV_LEN] + (row - table[s, Q_START]) + 1)
                if spec.sinks:
                    store(best, named["sinks"][head] * number(LOG2E), 0)
                    store(total, 1.0, 0)
                else:
                    store(best, LOWEST, 0)
                    store(total, 0.0, 0)
                for c in range(vectors):
                    store(outputs, 0.0, c)
                begin = None
                if window is not None:
                    begin = bind(T.floordiv(first_seen(spec, keys), PAGE_TOKENS))
                count = pages_of(keys) if begin is None else pages_of(keys) - begin
                with T.serial(0, count) as nth:
                    i = nth if begin is None else bind(begin + nth)
                    one_page(bind(table[s, TABLE_HEADER + i]), bind(keys - i * PAGE_TOKENS))
                for c in range(vectors):
                    store(out, outputs[c] / splat(total[0]), row, head, c)

    return kernel(
        symbol(
            "attention_serial",
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
        threads=THREADS,
        grid=(("ceildiv", ("mul", "n", HQ), THREADS), 1),
        bounds={"n": N},
    )
