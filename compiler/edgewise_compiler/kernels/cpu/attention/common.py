"""What decode and prefill attention share, so that both do the same arithmetic to the bit.

A query row sees its keys in segments of 64 positions of the sequence. Within a segment:

    score[j] = (fma over d of q[d]*K[d,j], in order, from 0) * scale,    scale = sm_scale*log2(e)
    m = max score[j],  p[j] = exp2(score[j] - m),  l = sum p[j],  o[d] = fma over j of p[j]*V[j,d]

and the segments are merged in order, starting from M = -inf, L = 0, O = 0, with sinks from
M = sink*log2(e), L = 1 (the online softmax of M. Milakov, N. Gimelshein, "Online normalizer
calculation for softmax", 2018):

    M' = max(M, m),  a = exp2(M - M'),  c = exp2(m - M'),  L = fma(L, a, l*c),  O = fma(O, a, o*c)

The result is O / L. A softcap makes cap*tanh(score/cap) of a score; a window leaves out keys that
lie too far back, and segments of nothing else. Of int8 pages K and V are the codes: a key's scale
is part of its ``scale``, a value's goes into p[j] once l has been summed. Keys after the row's own
position take no part, not even as zeros: memory that was never written may hold anything. Which
registers do the work differs between instruction sets and between decode and prefill; the order of
the operations on one number never does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer

from edgewise_compiler.kernels.attention import spread
from edgewise_compiler.kernels.cpu.isa import isa_named
from edgewise_compiler.kernels.cpu.vector import (
    LANES,
    exp2,
    fma,
    lane_max,
    lane_sum,
    lanes_of,
    let,
    llvm,
    load,
    softcapped,
    splat,
    store,
)
from edgewise_compiler.kernels.numbers import LOG2E, SEGMENT_PAGES
from edgewise_runtime.format.abi import PAGE_TOKENS


@dataclass(frozen=True)
class Tile:
    """A block of accumulators that stays in registers.

    Attributes:
        rows: query heads at once, at most.
        vectors: accumulators of 16 lanes, at most; at least ``rows``.
    """

    rows: int
    vectors: int

    def columns(self, rows: int, available: int) -> int:
        """Vectors beside each other for ``rows`` rows, of ``available`` in all."""
        return min(max(1, self.vectors // rows), available)


def tile_for(isa: str) -> Tile:
    """The block that fits the registers of ``isa`` and hides the latency of an fma."""
    found = isa_named(isa)
    if "avx512f" in found.features:
        return Tile(rows=8, vectors=16)
    return Tile(rows=4, vectors=4) if found.fused else Tile(rows=2, vectors=2)


def pages_at_once(tile: Tile, rows: int) -> int:
    """How many pages of keys a block of ``rows`` rows covers: a divisor of a segment's pages."""
    return 1 << (tile.columns(rows, SEGMENT_PAGES).bit_length() - 1)


def for_blocks(count: int, most: int, body: Callable[[Expr, int], None]) -> None:
    """Emits ``body(first, size)`` for every block of :func:`spread`."""
    for first, size, times in spread(count, most):
        with T.serial(0, times) as block:
            body(let(first + block * size), size)


def registers(tile: Tile) -> list[Buffer]:
    """Accumulators of 16 lanes: buffers small enough that LLVM keeps them in registers.

    TVM allocates 1024 bytes and more from the heap, where a loop writes every sum to memory.
    """
    return [T.sblock_alloc_buffer((LANES,), "float32") for _ in range(tile.vectors)]


def clear(acc: Sequence[Buffer], vectors: int) -> None:
    """Sets the first ``vectors`` accumulators to zero."""
    for register in acc[:vectors]:
        store(register, splat(0.0), 0)


def accumulate(
    acc: Sequence[Buffer],
    rows: Sequence[Expr],
    columns: Sequence[Expr],
    isa: str,
    *,
    where: Sequence[Expr] | None = None,
) -> None:
    """acc[r*len(columns)+c] = fma(rows[r], columns[c], itself), for each r and c.

    ``rows`` are scalars, ``columns`` vectors. A row whose ``where`` is false stays as it is.
    """
    vectors = [let(column) for column in columns]
    for r, scalar in enumerate(rows):
        factor = let(splat(scalar))
        keep = None if where is None else let(where[r])
        for c, vector in enumerate(vectors):
            register = acc[r * len(vectors) + c]
            new = fma(factor, vector, load(register, 0), isa)
            if keep is not None:
                new = T.Select(splat(keep), new, load(register, 0))
            store(register, new, 0)


def softmax(
    scores: Buffer,
    row: Expr | int,
    valid: Expr,
    scale: float,
    isa: str,
    scales: tuple[Buffer, Buffer] | None = None,
    *,
    low: Expr | None = None,
    cap: float | None = None,
) -> list[Expr]:
    """Turns one segment of q.k into probabilities before normalization, in place.

    Args:
        scores: float32 [rows, SEGMENT]; row ``row`` is replaced by p, zero from ``valid`` on.
        valid: int32, how many keys of the segment the row sees, at least 1.
        scale: see :func:`score_scale`.
        low: the first key that the row sees, where a window leaves some out.
        cap: see :func:`log2_cap`.
        scales: of int8 keys and values, see :func:`segment_scales`; those of the keys include
            ``scale``, those of the values end up in p.

    Returns:
        [m, l], scalars.
    """
    best = T.sblock_alloc_buffer((LANES,), "float32")
    total = T.sblock_alloc_buffer((LANES,), "float32")

    def seen(first: Expr, value: Expr, otherwise: float) -> Expr:
        lane = T.ramp(first, 1, PAGE_TOKENS)
        none = splat(otherwise)
        value = T.Select(lane < splat(valid, PAGE_TOKENS, "int32"), value, none)
        if low is None:
            return value
        return T.Select(lane >= splat(low, PAGE_TOKENS, "int32"), let(value), none)

    store(best, splat(-math.inf), 0)
    with T.serial(0, SEGMENT_PAGES) as i:
        factor = splat(scale) if scales is None else load(scales[0], i * PAGE_TOKENS)
        # The fence keeps LLVM from fusing this product with the subtraction below.
        score = llvm(
            "float32x16", "llvm.arithmetic.fence", load(scores, row, i * PAGE_TOKENS) * factor
        )
        if cap is not None:
            score = softcapped(score, cap, isa)
        score = let(seen(i * PAGE_TOKENS, score, -math.inf))
        store(scores, score, row, i * PAGE_TOKENS)
        store(best, T.max(load(best, 0), score), 0)
    m = let(lane_max(load(best, 0)))
    store(total, splat(0.0), 0)
    with T.serial(0, SEGMENT_PAGES) as i:
        p = exp2(load(scores, row, i * PAGE_TOKENS) - splat(m), isa)
        p = let(seen(i * PAGE_TOKENS, p, 0.0))
        weight = p
        if scales is not None:
            weight = seen(i * PAGE_TOKENS, p * load(scales[1], i * PAGE_TOKENS), 0.0)
        store(scores, weight, row, i * PAGE_TOKENS)
        store(total, load(total, 0) + p, 0)
    return [m, let(lane_sum(load(total, 0)))]


def begin(state: Buffer, head: Expr, sinks: Sequence[Buffer]) -> None:
    """M and L of a query head before its first segment, to ``state[0]`` and ``state[1]``."""
    store(state, sinks[0][head] * splat(LOG2E, 1) if sinks else splat(-math.inf, 1), 0)
    store(state, splat(1.0 if sinks else 0.0, 1), 1)


def merge_weights(M: Expr, L: Expr, m: Expr, l: Expr, isa: str) -> list[Expr]:
    """[M', L', a, c] of one merge; scalars or vectors alike."""
    best = let(T.max(M, m))
    a = let(exp2(M - best, isa))
    c = let(exp2(m - best, isa))
    return [best, let(fma(L, a, l * c, isa)), a, c]


def merged(O: Expr, a: Expr, o: Expr, c: Expr, isa: str) -> Expr:
    """O after one merge; ``a`` and ``c`` are scalars."""
    lanes = lanes_of(O)
    return fma(O, splat(a, lanes), o * splat(c, lanes), isa)
