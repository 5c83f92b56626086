"""Log-probabilities on the GPU, from the best tokens of each block of the vocabulary.

Blocks are merged in their order, by one thread where order matters. Subgroups are not used, so all
programs share one shader.
"""

from __future__ import annotations

from functools import cache

from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer

from edgewise_compiler.kernels.function import STEP, Arg
from edgewise_compiler.kernels.gpu.operations import bits, f32, fma, i32
from edgewise_compiler.kernels.gpu.sampling.keys import BANNED, key_of, score_of
from edgewise_compiler.kernels.gpu.sampling.tops import IDS, SUM, likeness, tops_shape
from edgewise_compiler.kernels.gpu.thread import (
    Launch,
    Thread,
    barrier,
    keep,
    kernel,
    local,
    shared,
    store,
    when,
)
from edgewise_compiler.kernels.numbers import FLOAT_MAX, LN2, SQRT_HALF_BITS
from edgewise_compiler.kernels.sampling import SamplingSpec
from edgewise_runtime.format.abi import LOGPROBS, NO_TOKEN, SEQUENCES, TOP_LOGPROBS

THREADS = 64


@cache
def logprobs(spec: SamplingSpec) -> Launch:
    """Log-probabilities of each row's sampled token and its 20 likeliest; after `tops`.

    The rules are those of `logprobs` on the CPU. Arguments: logits float32 [B, VP], sampled int32
    [B], tops int32 `tops_shape`, logprobs [B, 21], float32 by their bits: a compiler may
    assume that floats are finite; logprob_ids int32 [B, 21], step.
    """
    B, V, VP = spec.batch, spec.vocab, spec.columns
    arguments = (
        Arg("logits", "float32", (B, VP)),
        Arg("sampled", "int32", (B,)),
        Arg("tops", "int32", tops_shape(B, VP)),
        Arg("logprobs", "int32", (B, LOGPROBS)),
        Arg("logprob_ids", "int32", (B, LOGPROBS)),
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
        with when(row < T.min(step[SEQUENCES], B)):
            found, sums = shared((2, LOGPROBS), "int32"), shared((2,))
            _merge(thread, tops, found, sums)
            with when(T.EQ(t, 0)):
                token = keep(sampled[row])
                inside = keep(T.max(0, T.min(token, V - 1)))
                key = key_of(logits[row, inside])
                store(found, T.Select(T.EQ(inside, token), key, i32(BANNED)), 0, 0)
                store(found, token, 1, 0)
            barrier()
            with when(t < LOGPROBS):
                key = keep(found[0, t])
                difference = keep(T.max(score_of(key) - sums[0], f32(-FLOAT_MAX)))
                value = bits(keep(difference - sums[1]), "int32")
                banned = bits(score_of(i32(BANNED)), "int32")
                store(logprobs, T.Select(T.EQ(key, i32(BANNED)), banned, value), row, t)
                store(logprob_ids, found[1, t], row, t)

    return kernel(
        f"logprobs_{B}_{V}_{VP}",
        arguments,
        body,
        threads=THREADS,
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
            share = likeness(score_of(T.max(heads[at], i32(BANNED + 1))), peak)
            store(parts, keep(bits(tops[row, at, SUM], "float32")) * share, at)
    barrier()
    with when(T.EQ(t, 0)):
        total = local((1,))
        store(total, 0.0, 0)
        with T.serial(0, blocks) as i:
            store(total, total[0] + parts[i], 0)
        store(sums, peak, 0)
        store(sums, _ln(keep(total[0])), 1)
        with T.serial(1, TOP_LOGPROBS + 1) as column:
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
    place = keep(T.min(taken[block[0]], TOP_LOGPROBS - 1))
    token = tops[row, block[0], IDS + place]
    store(found, key[0], 0, column)
    store(found, T.Select(T.EQ(some, 1), token, i32(NO_TOKEN)), 1, column)
    following = keep(tops[row, block[0], T.min(place + 1, TOP_LOGPROBS - 1)])
    left = T.And(T.EQ(some, 1), place + 1 < TOP_LOGPROBS)
    store(heads, T.Select(left, following, i32(BANNED)), block[0])
    store(taken, place + some, block[0])


def _ln(x: Expr) -> Expr:
    """The natural logarithm of a normal number, by the series that CPU programs use."""
    word = keep(bits(x, "int32"))
    exponent = keep((word - i32(SQRT_HALF_BITS)) >> i32(23))
    mantissa = keep(bits(word - (exponent << i32(23)), "float32"))
    part = keep((mantissa - f32(1.0)) / (mantissa + f32(1.0)))
    square, twice = keep(part * part), keep(part + part)
    series: Expr = f32(1 / 9)
    for divisor in (7, 5, 3):
        series = keep(fma(series, square, f32(1 / divisor)))
    inside = keep(fma(keep(twice * square), series, twice))
    return keep(fma(f32(exponent), f32(LN2), inside))
