"""Log-probabilities of the tokens just drawn and of the likeliest ones, from raw logits.

Each block of the vocabulary is looked at by itself: its best logit, the sum of its probabilities
relative to that one, its 20 best tokens. Then the blocks of a row are merged in order. So every sum
has one order, whatever the batch and the threads.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from tvm import tirx
from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, PrimFunc

from edgewise_compiler.kernels.cpu.sampling.scores import clean
from edgewise_compiler.kernels.cpu.sampling.scratch import BLOCK, MINUS_INFINITY, float32, when
from edgewise_compiler.kernels.cpu.vector import (
    LANES,
    exp2,
    fma,
    lane_max,
    lane_sum,
    let,
    ln,
    load,
    splat,
    store,
)
from edgewise_compiler.kernels.function import STEP, Arg, block, kernel, live_rows
from edgewise_compiler.kernels.numbers import FLOAT_MAX, LOG2E
from edgewise_compiler.kernels.sampling import SamplingSpec
from edgewise_runtime.format.abi import LOGPROBS, NO_TOKEN, SEQUENCES, TOP_LOGPROBS

# Fields of a block's row of `tops`: its best logits in order, then the sum of its probabilities.
_SUM = TOP_LOGPROBS
_FIELDS = 32


def logprobs_scratch(spec: SamplingSpec) -> tuple[Arg, ...]:
    """The scratch arguments of ``logprobs``, in order."""
    B, blocks = spec.batch, -(-spec.columns // BLOCK)
    return (
        Arg("tops", "float32", (B, blocks, _FIELDS)),
        Arg("top_ids", "int32", (B, blocks, _FIELDS)),
    )


@dataclass(frozen=True)
class _Work:
    """The buffers of one kernel, its sizes and its instruction set."""

    V: int
    VP: int
    isa: str
    logits: Buffer
    sampled: Buffer
    logprobs: Buffer
    logprob_ids: Buffer
    tops: Buffer
    top_ids: Buffer
    step: Buffer

    @property
    def blocks(self) -> int:
        return -(-self.VP // BLOCK)


@functools.cache
def logprobs(spec: SamplingSpec, isa: str) -> PrimFunc:
    """The logarithm of the softmax of the logits: of the sampled token, and the 20 largest.

    Logits count as they came from the model: no penalty, bias or temperature. NaN is -inf, and
    +inf the largest finite number. A token's log-probability is -inf where its logit is, else a
    finite number of at most 0. Rows of stopped sequences are computed like the others, and results
    depend on nothing but the row: not on batch, threads or instruction set.

    Arguments of the PrimFunc: logits float32 [B, VP], of which the first V columns count; sampled
    int32 [B]; logprobs float32 [B, 21] and logprob_ids int32 [B, 21], written: column 0 is about
    the sampled token (-inf for one outside the vocabulary), the others about the likeliest in
    order, of equals the lowest id first; after the last token whose logit is above -inf come id -1
    and -inf; the arguments of :func:`logprobs_scratch`, written; step int32 [8], whose field 1 is
    the number of sequences.
    """
    B, V, VP = spec.batch, spec.vocab, spec.columns
    arguments = [
        Arg("logits", "float32", (B, VP)),
        Arg("sampled", "int32", (B,)),
        Arg("logprobs", "float32", (B, LOGPROBS)),
        Arg("logprob_ids", "int32", (B, LOGPROBS)),
        *logprobs_scratch(spec),
        STEP,
    ]

    def body(*buffers: Buffer) -> None:
        named = {argument.name: buffer for argument, buffer in zip(arguments, buffers, strict=True)}
        w = _Work(V=V, VP=VP, isa=isa, **named)
        with block("logprobs"):
            rows = live_rows(w.step, SEQUENCES, B)
            # A single block is less work than waking the other threads.
            loop = T.parallel if w.blocks > 1 else T.serial
            with loop(0, rows * w.blocks) as item, block("part"):
                _look(w, T.bind(T.floordiv(item, w.blocks)), T.bind(T.floormod(item, w.blocks)))
            with T.serial(0, rows) as row, block("row"):
                _merge(w, row)

    return kernel(f"logprobs_{B}_{V}_{VP}", arguments, body)


class _Best:
    """The best tokens so far, in order."""

    def __init__(self) -> None:
        self.scores = T.sblock_alloc_buffer((TOP_LOGPROBS,), "float32")
        self.ids = T.sblock_alloc_buffer((TOP_LOGPROBS,), "int32")
        with T.serial(0, TOP_LOGPROBS) as i:
            store(self.scores, float32(MINUS_INFINITY), i)
            store(self.ids, tirx.const(NO_TOKEN, "int32"), i)

    def offer(self, score: Expr, token: Expr) -> None:
        """Takes a token in behind all that are as good; the last one falls out."""
        with when(score > self.scores[TOP_LOGPROBS - 1]), T.serial(0, TOP_LOGPROBS - 1) as i:
            at = T.bind(TOP_LOGPROBS - 1 - i)
            with T.If(self.scores[at - 1] < score):
                with T.Then():
                    self._put(at, self.scores[at - 1], self.ids[at - 1])
                with T.Else(), when(self.scores[at] < score):
                    self._put(at, score, token)
        with when(self.scores[0] < score):
            self._put(0, score, token)

    def _put(self, at: Expr | int, score: Expr, token: Expr) -> None:
        store(self.scores, score, at)
        store(self.ids, token, at)


def _scores(w: _Work, row: Expr, at: Expr) -> Expr:
    """The logits of 16 tokens, cleaned; -inf beyond the vocabulary."""
    inside = T.ramp(at, 1, LANES) < splat(w.V, LANES, "int32")
    return let(clean(T.Select(inside, load(w.logits, row, at), splat(MINUS_INFINITY))))


def _peak(score: Expr) -> Expr:
    """What logits are compared with where the best one is ``score``: finite."""
    return let(T.max(score, float32(-FLOAT_MAX)))


def _look(w: _Work, row: Expr, part: Expr) -> None:
    """Writes the 20 best tokens of a block and the sum of its probabilities."""
    first = T.bind(part * BLOCK)
    vectors = T.bind(T.floordiv(T.min(w.VP - first, BLOCK), LANES))
    best = T.sblock_alloc_buffer((LANES,), "float32")
    total = T.sblock_alloc_buffer((LANES,), "float32")
    store(best, splat(MINUS_INFINITY), 0)
    store(total, splat(0.0), 0)
    with T.serial(0, vectors) as i:
        store(best, T.max(load(best, 0), _scores(w, row, T.bind(first + i * LANES))), 0)
    peak = let(splat(_peak(lane_max(load(best, 0)))))
    found = _Best()
    with T.serial(0, vectors) as i:
        at = T.bind(first + i * LANES)
        scores = _scores(w, row, at)
        store(total, load(total, 0) + exp2((scores - peak) * splat(LOG2E), w.isa), 0)
        with when(lane_max(scores) > found.scores[TOP_LOGPROBS - 1]):
            store(best, scores, 0)
            with T.serial(0, LANES) as lane:
                found.offer(let(best[lane]), T.bind(at + lane))
    with T.serial(0, TOP_LOGPROBS) as i:
        store(w.tops, found.scores[i], row, part, i)
        store(w.top_ids, found.ids[i], row, part, i)
    store(w.tops, lane_sum(load(total, 0)), row, part, _SUM)


def _merge(w: _Work, row: Expr) -> None:
    """Writes the log-probabilities of a row from what its blocks have."""
    best = T.sblock_alloc_buffer((1,), "float32")
    total = T.sblock_alloc_buffer((1,), "float32")
    store(best, float32(MINUS_INFINITY), 0)
    store(total, float32(0.0), 0)
    with T.serial(0, w.blocks) as part:
        store(best, T.max(best[0], w.tops[row, part, 0]), 0)
    peak = _peak(best[0])
    found = _Best()
    with T.serial(0, w.blocks) as part:
        below = let((_peak(w.tops[row, part, 0]) - peak) * float32(LOG2E))
        store(total, fma(w.tops[row, part, _SUM], exp2(below, w.isa), total[0], w.isa), 0)
        with T.serial(0, TOP_LOGPROBS) as i:
            found.offer(let(w.tops[row, part, i]), w.top_ids[row, part, i])
    normalizer = let(ln(total[0], w.isa))

    def write(column: Expr | int, score: Expr, token: Expr) -> None:
        likely = T.max(score - peak, float32(-FLOAT_MAX)) - normalizer
        banned = float32(MINUS_INFINITY)
        store(w.logprobs, T.Select(score > banned, likely, banned), row, column)
        store(w.logprob_ids, token, row, column)

    token = let(w.sampled[row])
    inside = let(T.max(0, T.min(token, w.V - 1)))
    score = clean(let(w.logits[row, inside]))
    write(0, let(T.Select(T.EQ(inside, token), score, float32(MINUS_INFINITY))), token)
    with T.serial(0, TOP_LOGPROBS) as i:
        write(T.bind(i + 1), let(found.scores[i]), found.ids[i])
