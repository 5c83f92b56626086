"""Logits to keys on the GPU: penalties, biases, mask, and the largest keys of groups and blocks."""

from __future__ import annotations

from functools import cache

from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer

from edgewise_compiler.kernels.function import Arg, table_arg
from edgewise_compiler.kernels.gpu.operations import (
    bits,
    f32,
    fma,
    i32,
    lane,
    splat,
    u32,
    vector_of,
)
from edgewise_compiler.kernels.gpu.sampling.keys import (
    BANNED,
    UNSOUND,
    is_banned,
    key_of,
    logit_key,
    score_of,
)
from edgewise_compiler.kernels.gpu.sampling.layout import LANES, THREADS, Layout
from edgewise_compiler.kernels.gpu.sampling.row import at_place
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
from edgewise_compiler.kernels.sampling import SamplingSpec, penalized
from edgewise_runtime.format.abi import (
    BIAS_IDS,
    BIAS_VALUES,
    BIASES,
    FREQUENCY,
    KV_LEN,
    MASK_BITS,
    MASKED,
    MAX_BIASES,
    PRESENCE,
    REPETITION,
    SAMPLING_WIDTH,
    SLOT,
    STOP,
    mask_words,
)


@cache
def scores(spec: SamplingSpec, *, advance: bool, threads: int = THREADS) -> Launch:
    """Keys of the logits after penalties, biases and mask, and what `Layout` puts behind them.

    Arguments: logits float32 [B, VP], table int32 [B, 8+MP], sampling_f float32 and sampling_i
    int32 [B, 8], counts int32 [B, V], biases int32 [B, 2, 320], grammar_mask int32 [B, ceil(V/32)],
    keys uint32 [B, `Layout.words`]. That is all that a kernel may have, so it does not look at
    step: of a burst that is over every row says that it has stopped.

    Repetition is that of transformers, presence and frequency those of OpenAI; counts is twice the
    times a token was sampled, plus 1 if the prompt has it. Biases are added in the order listed;
    -infinity bans a token, and so does a bit of 0 in the mask of a row that is MASKED; the mask of
    another is not read. Columns beyond the vocabulary are never drawn. A logit that is NaN or
    +infinity is UNSOUND, whatever is added to it, and masked or not.
    """
    B, V, VP, MP = spec.batch, spec.vocab, spec.columns, spec.pages
    layout = Layout(VP, threads)
    arguments = (
        Arg("logits", "float32x4", (B, VP // LANES)),
        table_arg(spec),
        Arg("sampling_f", "float32", (B, SAMPLING_WIDTH)),
        Arg("sampling_i", "int32", (B, SAMPLING_WIDTH)),
        Arg("counts", "int32", (B, V)),
        Arg("biases", "int32", (B, 2, MAX_BIASES)),
        Arg("grammar_mask", "int32", (B, mask_words(V))),
        Arg("keys", "uint32x4", (B, layout.words // LANES)),
    )

    def body(
        thread: Thread,
        logits: Buffer,
        table: Buffer,
        sampling_f: Buffer,
        sampling_i: Buffer,
        counts: Buffer,
        biases: Buffer,
        grammar_mask: Buffer,
        keys: Buffer,
    ) -> None:
        row, t = thread.y, thread.t
        with when(T.EQ(table[row, STOP], 0)):
            slot = bind(table[row, SLOT])
            on = bind(penalized(sampling_f, row))
            masked = bind(T.NE(sampling_i[row, MASKED], 0))
            listed = bind(T.min(sampling_i[row, BIASES], MAX_BIASES))
            largest = local((1,), "int32")
            store(largest, BANNED, 0)
            with T.serial(0, layout.vectors) as v:
                at = bind(thread.x * (layout.block // LANES) + v * threads + t)
                with when(at < VP // LANES):
                    first = bind(at * LANES)
                    loaded = bind(logits[row, at])
                    four = local((LANES,), "int32")
                    for j in range(LANES):
                        store(four, logit_key(lane(loaded, j)), j)
                    with when(on):
                        for j in range(LANES):
                            seen = bind(counts[slot, T.min(first + j, V - 1)])
                            key = key_of(_penalize(lane(loaded, j), seen, sampling_f, row))
                            store(four, T.Select(T.EQ(four[j], UNSOUND), four[j], key), j)
                    for j in range(LANES):
                        store(four, T.Select(first + j < V, four[j], i32(BANNED)), j)
                    with T.serial(0, listed) as i:
                        token = bind(biases[row, BIAS_IDS, i])
                        with when(T.And(token >= first, token < first + LANES)):
                            bias = bind(bits(bind(biases[row, BIAS_VALUES, i]), "float32"))
                            _add_bias(four, bind(token - first), bias)
                    with when(masked):
                        _mask(four, bind(grammar_mask[row, T.floordiv(first, MASK_BITS)]), first)
                    store(keys, vector_of(*(u32(four[j]) for j in range(LANES))), row, at)
                    for j in range(LANES):
                        store(largest, T.max(largest[0], four[j]), 0)

            groups = layout.maxima // LANES + thread.x * (threads // LANES)
            _note_largest(thread, largest[0], keys, row, groups, layout.bests // LANES + thread.x)
            # This kernel knows, so that larger ones need not be compiled for both cases.
            with when(T.And(T.EQ(thread.x, 0), T.EQ(t, 0))):
                position = splat(u32(table[row, KV_LEN] + int(advance)), LANES)
                store(keys, position, row, layout.position // LANES)

    return kernel(
        f"scores_{B}_{V}_{VP}_{MP}{layout.suffix}{'_advance' if advance else ''}",
        arguments,
        body,
        threads=threads,
        grid=(layout.blocks, "b"),
        bounds={"b": B},
    )


def _penalize(score: Expr, seen: Expr, sampling_f: Buffer, row: Expr) -> Expr:
    score = bind(score)
    sampled = bind(seen >> i32(1))
    frequency = bind(f32(0.0) - sampling_f[row, FREQUENCY])
    presence = bind(f32(0.0) - sampling_f[row, PRESENCE])
    amount = bind(fma(frequency, f32(sampled), presence))
    shift = bind(T.Select(sampled > 0, amount, f32(0.0)))
    repetition = bind(sampling_f[row, REPETITION])
    divided = bind(score / repetition)
    weaker = bind(T.Select(score > f32(0.0), divided + shift, fma(score, repetition, shift)))
    return bind(T.Select(seen > 0, weaker, score))


def _add_bias(keys: Buffer, place: Expr, bias: Expr) -> None:
    """Adds a bias to one of four keys; none makes an unsound one sound."""
    key = bind(at_place([keys[j] for j in range(LANES)], place))
    banned = T.Or(is_banned(bias), T.EQ(key, i32(BANNED)))
    sound = bind(T.Select(banned, i32(BANNED), key_of(bind(score_of(key) + bias))))
    added = bind(T.Select(T.EQ(key, i32(UNSOUND)), key, sound))
    for j in range(LANES):
        store(keys, T.Select(T.EQ(place, j), added, keys[j]), j)


def _mask(keys: Buffer, word: Expr, first: Expr) -> None:
    """Bans those of four keys whose bit is 0, but for unsound ones."""
    four = bind(u32(word) >> u32(T.floormod(first, MASK_BITS)))
    for j in range(LANES):
        refused = T.EQ((four >> u32(j)) & u32(1), u32(0))
        banned = T.And(refused, T.NE(keys[j], i32(UNSOUND)))
        store(keys, T.Select(banned, i32(BANNED), keys[j]), j)


def _note_largest(
    thread: Thread, mine: Expr, keys: Buffer, row: Expr, groups: Expr, best: Expr
) -> None:
    """Writes the groups' largest keys, a vector of four threads, and the largest of them all."""
    t, threads, fours, parts = thread.t, thread.threads, thread.threads // LANES, 8
    maxima = shared((threads + fours + parts,), "int32")

    def largest(first: Expr, count: int) -> Expr:
        found = local((1,), "int32")
        store(found, maxima[first], 0)
        for i in range(1, count):
            store(found, T.max(found[0], maxima[first + i]), 0)
        return found[0]

    store(maxima, mine, t)
    barrier()
    with when(t < fours):
        store(keys, vector_of(*(u32(maxima[t * LANES + j]) for j in range(LANES))), row, groups + t)
        store(maxima, largest(t * LANES, LANES), threads + t)
    barrier()
    with when(t < parts):
        share = fours // parts
        store(maxima, largest(threads + t * share, share), threads + fours + t)
    barrier()
    with when(T.EQ(t, 0)):
        top = largest(i32(threads + fours), parts)
        store(keys, splat(u32(top), LANES), row, best)
