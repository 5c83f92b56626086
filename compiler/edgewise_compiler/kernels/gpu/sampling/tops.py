"""The best tokens of each block of the vocabulary on the GPU, and the sum of its probabilities.

No order of threads shows: a sum is a tree of its own, and every token finds its own place among the
best. Subgroups are not used, so all programs share one shader.
"""

from __future__ import annotations

from functools import cache

from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer

from edgewise_compiler.kernels.function import STEP, Arg
from edgewise_compiler.kernels.gpu.operations import bits, f32, i32, lane
from edgewise_compiler.kernels.gpu.reduce import sum_groups
from edgewise_compiler.kernels.gpu.sampling.keys import BANNED, exp2_below, key_of, score_of
from edgewise_compiler.kernels.gpu.thread import (
    Launch,
    Thread,
    barrier,
    bind,
    keep,
    kernel,
    local,
    shared,
    store,
    when,
)
from edgewise_compiler.kernels.numbers import LOG2E
from edgewise_compiler.kernels.sampling import SamplingSpec
from edgewise_runtime.format.abi import NO_TOKEN, SEQUENCES, TOP_LOGPROBS

THREADS = 256
BLOCK = 4096  # tokens of a workgroup
_RUN = BLOCK // THREADS  # neighbouring tokens of a thread
# Fewer than 20 threads have a token above the bound, so this many tokens are above it at most.
_ABOVE = (TOP_LOGPROBS - 1) * _RUN
_FAR = -1e9  # differences of scores beyond it have long meant a probability of 0

# Fields of a block's row of `tops`: keys in order, their tokens, the sum of probabilities (bits).
IDS, SUM, FIELDS = TOP_LOGPROBS, 2 * TOP_LOGPROBS, 2 * TOP_LOGPROBS + 1


def tops_shape(B: int, VP: int) -> tuple[int, int, int]:
    """The shape of the scratch between the two launches, int32."""
    return B, -(-VP // BLOCK), FIELDS


@cache
def tops(spec: SamplingSpec) -> Launch:
    """The 20 best tokens of each block of 4096, and the sum of its probabilities.

    Arguments: logits float32 [B, VP], tops int32 `tops_shape`, step. Probabilities are relative to
    the best token of the block. Where a block has fewer than 20 tokens above -infinity, banned keys
    of no token follow.
    """
    B, V, VP = spec.batch, spec.vocab, spec.columns
    arguments = (
        Arg("logits", "float32x4", (B, VP // 4)),
        Arg("tops", "int32", tops_shape(B, VP)),
        STEP,
    )

    def body(thread: Thread, logits: Buffer, tops: Buffer, step: Buffer) -> None:
        with when(thread.y < T.min(step[SEQUENCES], B)):
            _block_tops(thread, logits, tops, V, VP)

    return kernel(
        f"tops_{B}_{V}_{VP}",
        arguments,
        body,
        threads=THREADS,
        grid=(tops_shape(B, VP)[1], "b"),
        bounds={"b": B},
    )


def _block_tops(thread: Thread, logits: Buffer, tops: Buffer, V: int, VP: int) -> None:
    row, block, t = thread.y, thread.x, thread.t
    first = keep(block * BLOCK + t * _RUN)
    keys = local((_RUN,), "int32")
    mine = local((1,), "int32")
    store(mine, BANNED, 0)
    for i in range(_RUN):
        store(keys, BANNED, i)
    for v in range(_RUN // 4):
        with when(first + v * 4 < VP):
            four = bind(logits[row, T.floordiv(first, 4) + v])
            for i in range(v * 4, v * 4 + 4):
                key = key_of(lane(four, i % 4))
                store(keys, T.Select(first + i < V, key, i32(BANNED)), i)
                store(mine, T.max(mine[0], keys[i]), 0)

    best, bound = _bound(thread, mine[0])
    likely = local((1,))
    store(likely, 0.0, 0)
    counts = local((1,), "int32")  # tokens above the bound, and 2**16 times those at it
    store(counts, 0, 0)
    peak = score_of(T.max(best, i32(BANNED + 1)))
    for i in range(_RUN):
        with when(keys[i] > i32(BANNED)):
            store(likely, likely[0] + likeness(score_of(keys[i]), peak), 0)
            with when(keys[i] > bound):
                store(counts, counts[0] + 1, 0)
            with when(T.EQ(keys[i], bound)):
                store(counts, counts[0] + (1 << 16), 0)
    total = sum_groups(thread, [likely[0]], THREADS)

    before, every = _sums_before(thread, counts[0])
    above, tied = keep(every & i32(0xFFFF)), keep(every >> i32(16))
    near, near_ids = shared((_ABOVE,), "int32"), shared((_ABOVE,), "int32")
    place = local((2,), "int32")
    store(place, before & i32(0xFFFF), 0)
    store(place, above + (before >> i32(16)), 1)

    def put(rank: Expr, key: Expr, token: Expr) -> None:
        with when(rank < TOP_LOGPROBS):
            store(tops, key, row, block, rank)
            store(tops, token, row, block, rank + IDS)

    for i in range(_RUN):
        key = keep(keys[i])
        with when(T.And(key > i32(BANNED), key >= bound)):
            with T.If(T.EQ(key, bound)):
                with T.Then():
                    # Threads and their tokens are in order, and so are those that are equal.
                    put(place[1], key, first + i)
                    store(place, place[1] + 1, 1)
                with T.Else():
                    store(near, key, place[0])
                    store(near_ids, first + i, place[0])
                    store(place, place[0] + 1, 0)
    barrier()
    with T.serial(0, -(-_ABOVE // THREADS)) as i:
        at = keep(i * THREADS + t)
        with when(at < above):
            put(_rank(near, keep(near[at]), at, above), near[at], near_ids[at])
    with when(T.And(t < TOP_LOGPROBS, t >= above + tied)):
        put(t, i32(BANNED), i32(NO_TOKEN))
    with when(T.EQ(t, 0)):
        store(tops, bits(keep(total(0, 0)), "int32"), row, block, SUM)


def _bound(thread: Thread, mine: Expr) -> tuple[Expr, Expr]:
    """The best key of the block, and the 20th of the threads' best: 20 tokens reach it."""
    bests, bound = shared((THREADS,), "int32"), shared((1,), "int32")
    store(bests, mine, thread.t)
    barrier()
    best = local((1,), "int32")
    store(best, BANNED, 0)
    with T.serial(0, THREADS) as i:
        store(best, T.max(best[0], bests[i]), 0)
    with when(T.EQ(_rank(bests, mine, thread.t, i32(THREADS)), TOP_LOGPROBS - 1)):
        store(bound, mine, 0)
    barrier()
    return keep(best[0]), keep(bound[0])


def _rank(keys: Buffer, mine: Expr, place: Expr, count: Expr) -> Expr:
    """How many of ``count`` keys are larger than the one at ``place``, or as large and before."""
    rank = local((1,), "int32")
    store(rank, 0, 0)
    with T.serial(0, count) as i:
        ahead = T.Or(keys[i] > mine, T.And(T.EQ(keys[i], mine), i < place))
        store(rank, rank[0] + T.Select(ahead, 1, 0), 0)
    return keep(rank[0])


def _sums_before(thread: Thread, value: Expr) -> tuple[Expr, Expr]:
    """The sum of the values of the threads before this one, and of all."""
    values, sums = shared((THREADS,), "int32"), local((2,), "int32")
    store(values, value, thread.t)
    barrier()
    store(sums, 0, 0)
    store(sums, 0, 1)
    with T.serial(0, THREADS) as i:
        store(sums, sums[0] + T.Select(i < thread.t, values[i], 0), 0)
        store(sums, sums[1] + values[i], 1)
    return keep(sums[0]), keep(sums[1])


def likeness(score: Expr, peak: Expr) -> Expr:
    """How likely a score is relative to the best one."""
    difference = keep(T.max(score - peak, f32(_FAR)))
    return exp2_below(keep(difference * f32(LOG2E)))
