"""Log-probabilities on the GPU: the best tokens of each block of the vocabulary, then of the row.

No order of threads shows: every sum is a tree or a list of its own, and every token finds its own
place among the best. Subgroups are not used, so all programs share two shaders.
"""

from __future__ import annotations

from functools import cache

from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer

from edgewise_compiler.kernels.function import STEP, Arg
from edgewise_compiler.kernels.gpu import (
    Launch,
    Thread,
    barrier,
    bits,
    f32,
    fma,
    gpu_kernel,
    i32,
    keep,
    local,
    shared,
    store,
    when,
)
from edgewise_compiler.kernels.gpu_reduce import sum_groups
from edgewise_compiler.kernels.sampling.gpu_keys import BANNED, exp2_below, key_of, score_of
from edgewise_compiler.kernels.sampling.logprobs import COLUMNS, NO_TOKEN, TOP
from edgewise_compiler.kernels.sampling.scratch import FLOAT_MAX
from edgewise_compiler.kernels.vector import _LN2, _SQRT_HALF_BITS, LOG2E

THREADS = 256
BLOCK = 4096  # tokens of a workgroup
_RUN = BLOCK // THREADS  # neighbouring tokens of a thread
# Fewer than 20 threads have a token above the bound, so this many tokens are above it at most.
_ABOVE = (TOP - 1) * _RUN
_MERGERS = 64  # threads that merge the blocks of a row
_FAR = -1e9  # differences of scores beyond it have long meant a probability of 0

# Fields of a block's row of `tops`: keys in order, their tokens, the sum of probabilities (bits).
_IDS, _SUM, _FIELDS = TOP, 2 * TOP, 2 * TOP + 1


def tops_shape(B: int, VP: int) -> tuple[int, int, int]:
    """The shape of the scratch between the two launches, int32."""
    return B, -(-VP // BLOCK), _FIELDS


@cache
def gpu_tops(B: int, V: int, VP: int) -> Launch:
    """The 20 best tokens of each block of 4096, and the sum of its probabilities.

    Arguments: logits float32 [B, VP], tops int32 `tops_shape`, step. Probabilities are relative to
    the best token of the block. Where a block has fewer than 20 tokens above -infinity, banned keys
    of no token follow.
    """
    arguments = (
        Arg("logits", "float32", (B, VP)),
        Arg("tops", "int32", tops_shape(B, VP)),
        STEP,
    )

    def body(thread: Thread, logits: Buffer, tops: Buffer, step: Buffer) -> None:
        with when(thread.y < T.min(step[1], B)):
            _block_tops(thread, logits, tops, V)

    return gpu_kernel(
        f"tops_{B}_{V}_{VP}",
        arguments,
        body,
        threads=THREADS,
        grid=(tops_shape(B, VP)[1], "b"),
        bounds={"b": B},
    )


def _block_tops(thread: Thread, logits: Buffer, tops: Buffer, V: int) -> None:
    row, block, t = thread.y, thread.x, thread.t
    first = keep(block * BLOCK + t * _RUN)
    keys = local((_RUN,), "int32")
    mine = local((1,), "int32")
    store(mine, BANNED, 0)
    for i in range(_RUN):
        store(keys, BANNED, i)
        with when(first + i < V):
            store(keys, key_of(logits[row, first + i]), i)
        store(mine, T.max(mine[0], keys[i]), 0)

    best, bound = _bound(thread, mine[0])
    likely = local((1,))
    store(likely, 0.0, 0)
    counts = local((1,), "int32")  # tokens above the bound, and 2**16 times those at it
    store(counts, 0, 0)
    peak = score_of(T.max(best, i32(BANNED + 1)))
    for i in range(_RUN):
        with when(keys[i] > i32(BANNED)):
            store(likely, likely[0] + _likeness(score_of(keys[i]), peak), 0)
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
        with when(rank < TOP):
            store(tops, key, row, block, rank)
            store(tops, token, row, block, rank + _IDS)

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
    with when(T.And(t < TOP, t >= above + tied)):
        put(t, i32(BANNED), i32(NO_TOKEN))
    with when(T.EQ(t, 0)):
        store(tops, bits(keep(total(0, 0)), "int32"), row, block, _SUM)


def _bound(thread: Thread, mine: Expr) -> tuple[Expr, Expr]:
    """The best key of the block, and the 20th of the threads' best: 20 tokens reach it."""
    bests, bound = shared((THREADS,), "int32"), shared((1,), "int32")
    store(bests, mine, thread.t)
    barrier()
    best = local((1,), "int32")
    store(best, BANNED, 0)
    with T.serial(0, THREADS) as i:
        store(best, T.max(best[0], bests[i]), 0)
    with when(T.EQ(_rank(bests, mine, thread.t, i32(THREADS)), TOP - 1)):
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


@cache
def gpu_logprobs(B: int, V: int, VP: int) -> Launch:
    """Log-probabilities of each row's sampled token and its 20 likeliest; after `gpu_tops`.

    The rules are those of `logprobs` on the CPU. Arguments: logits float32 [B, VP], sampled int32
    [B], tops int32 `tops_shape`, logprobs [B, 21], float32 by their bits: WGSL lets a compiler
    assume that floats are finite; logprob_ids int32 [B, 21], step.
    """
    arguments = (
        Arg("logits", "float32", (B, VP)),
        Arg("sampled", "int32", (B,)),
        Arg("tops", "int32", tops_shape(B, VP)),
        Arg("logprobs", "int32", (B, COLUMNS)),
        Arg("logprob_ids", "int32", (B, COLUMNS)),
        STEP,
    )

    def body(
        thread: Thread,
        logits: Buffer,
        sampled: Buffer,
        tops: Buffer,
        logprobs: Buffer,
        logprob_ids: Buffer,
        step: Buffer,
    ) -> None:
        row, t = thread.x, thread.t
        with when(row < T.min(step[1], B)):
            found, sums = shared((2, COLUMNS), "int32"), shared((2,))
            _merge(thread, tops, found, sums)
            with when(T.EQ(t, 0)):
                token = keep(sampled[row])
                inside = keep(T.max(0, T.min(token, V - 1)))
                key = key_of(logits[row, inside])
                store(found, T.Select(T.EQ(inside, token), key, i32(BANNED)), 0, 0)
                store(found, token, 1, 0)
            barrier()
            with when(t < COLUMNS):
                key = keep(found[0, t])
                difference = keep(T.max(score_of(key) - sums[0], f32(-FLOAT_MAX)))
                value = bits(keep(difference - sums[1]), "int32")
                banned = bits(score_of(i32(BANNED)), "int32")
                store(logprobs, T.Select(T.EQ(key, i32(BANNED)), banned, value), row, t)
                store(logprob_ids, found[1, t], row, t)

    return gpu_kernel(
        f"logprobs_{B}_{V}_{VP}",
        arguments,
        body,
        threads=_MERGERS,
        grid=("b", 1),
        bounds={"b": B},
    )


def _merge(thread: Thread, tops: Buffer, found: Buffer, sums: Buffer) -> None:
    """Merges blocks in order: the best keys and tokens, the best score, the sum's logarithm."""
    row, t, blocks = thread.x, thread.t, int(tops.shape[1])
    heads, taken = shared((blocks,), "int32"), shared((blocks,), "int32")
    parts = shared((blocks,))
    rounds = -(-blocks // thread.threads)
    with T.serial(0, rounds) as i:
        at = keep(i * thread.threads + t)
        with when(at < blocks):
            store(heads, tops[row, at, 0], at)
            store(taken, 0, at)
    barrier()
    best = local((1,), "int32")
    store(best, BANNED + 1, 0)
    with T.serial(0, blocks) as i:
        store(best, T.max(best[0], heads[i]), 0)
    peak = score_of(best[0])
    with T.serial(0, rounds) as i:
        at = keep(i * thread.threads + t)
        with when(at < blocks):
            share = _likeness(score_of(T.max(heads[at], i32(BANNED + 1))), peak)
            store(parts, keep(bits(tops[row, at, _SUM], "float32")) * share, at)
    barrier()
    with when(T.EQ(t, 0)):
        total = local((1,))
        store(total, 0.0, 0)
        with T.serial(0, blocks) as i:
            store(total, total[0] + parts[i], 0)
        store(sums, peak, 0)
        store(sums, _ln(keep(total[0])), 1)
        with T.serial(1, TOP + 1) as column:
            _take_best(tops, row, heads, taken, found, column)


def _take_best(
    tops: Buffer, row: Expr, heads: Buffer, taken: Buffer, found: Buffer, column: Expr
) -> None:
    """Moves the best of the blocks' first keys to ``found``; of equals that of the first block."""
    key, block = local((1,), "int32"), local((1,), "int32")
    store(key, BANNED, 0)
    store(block, 0, 0)
    with T.serial(0, int(tops.shape[1])) as i, when(heads[i] > key[0]):
        store(key, heads[i], 0)
        store(block, i, 0)
    some = keep(i32(key[0] > i32(BANNED)))
    place = keep(taken[block[0]])
    token = tops[row, block[0], _IDS + T.min(place, TOP - 1)]
    store(found, key[0], 0, column)
    store(found, T.Select(T.EQ(some, 1), token, i32(NO_TOKEN)), 1, column)
    following = keep(tops[row, block[0], T.min(place + 1, TOP - 1)])
    left = T.And(T.EQ(some, 1), place + 1 < TOP)
    store(heads, T.Select(left, following, i32(BANNED)), block[0])
    store(taken, place + some, block[0])


def _likeness(score: Expr, peak: Expr) -> Expr:
    """How likely a score is relative to the best one."""
    difference = keep(T.max(score - peak, f32(_FAR)))
    return exp2_below(keep(difference * f32(LOG2E)))


def _ln(x: Expr) -> Expr:
    """The natural logarithm of a normal number, by the series that CPU programs use."""
    word = keep(bits(x, "int32"))
    exponent = keep((word - i32(_SQRT_HALF_BITS)) >> i32(23))
    mantissa = keep(bits(word - (exponent << i32(23)), "float32"))
    part = keep((mantissa - f32(1.0)) / (mantissa + f32(1.0)))
    square, twice = keep(part * part), keep(part + part)
    series: Expr = f32(1 / 9)
    for divisor in (7, 5, 3):
        series = keep(fma(series, square, f32(1 / divisor)))
    inside = keep(fma(keep(twice * square), series, twice))
    return keep(fma(f32(exponent), f32(_LN2), inside))
