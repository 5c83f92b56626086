"""Logits to keys on the GPU: penalties and biases, and the best of each block of the vocabulary."""

from __future__ import annotations

from functools import cache

from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer

from edgewise_compiler.kernels.function import STEP, Arg
from edgewise_compiler.kernels.gpu.operations import f32, fma, i32
from edgewise_compiler.kernels.gpu.reduce import combine_group
from edgewise_compiler.kernels.gpu.sampling.keys import BANNED, is_banned, key_of, score_of
from edgewise_compiler.kernels.gpu.thread import (
    Launch,
    Thread,
    bind,
    kernel,
    local,
    shared,
    store,
    when,
)
from edgewise_compiler.kernels.sampling import SamplingSpec, penalized
from edgewise_runtime.format.abi import (
    BIASES,
    FREQUENCY,
    MAX_BIASES,
    PRESENCE,
    REPETITION,
    SAMPLING_WIDTH,
    SEQUENCES,
    SLOT,
    STOP,
    TABLE_HEADER,
)

THREADS = 256
BLOCK = 2048  # tokens of a workgroup


def blocks_of(VP: int) -> int:
    """Blocks of a vocabulary."""
    return -(-VP // BLOCK)


@cache
def scores(spec: SamplingSpec) -> Launch:
    """Keys of the logits after penalties.

    Arguments: logits float32 [B, VP], table int32 [B, 8+MP], sampling_f float32 [B, 8], counts
    int32 [B, V], keys int32 [B, VP], step. Repetition is that of transformers, presence and
    frequency those of OpenAI; counts is twice the times a token was sampled, plus 1 if the prompt
    has it. Columns beyond the vocabulary are never drawn.
    """
    B, V, VP, MP = spec.batch, spec.vocab, spec.columns, spec.pages
    arguments = (
        Arg("logits", "float32", (B, VP)),
        Arg("table", "int32", (B, TABLE_HEADER + MP)),
        Arg("sampling_f", "float32", (B, SAMPLING_WIDTH)),
        Arg("counts", "int32", (B, V)),
        Arg("keys", "int32", (B, VP)),
        STEP,
    )

    def body(
        thread: Thread,
        logits: Buffer,
        table: Buffer,
        sampling_f: Buffer,
        counts: Buffer,
        keys: Buffer,
        step: Buffer,
    ) -> None:
        row = thread.y
        with when(T.And(row < T.min(step[SEQUENCES], B), T.EQ(table[row, STOP], 0))):
            slot = bind(table[row, SLOT])
            on = bind(penalized(sampling_f, row))
            with T.serial(0, BLOCK // THREADS) as i:
                at = bind(thread.x * BLOCK + i * THREADS + thread.t)
                with when(at < VP):
                    value = local((1,))
                    token = bind(T.min(at, V - 1))
                    store(value, logits[row, at], 0)
                    with when(on):
                        seen = bind(counts[slot, token])
                        store(value, _penalize(value[0], seen, sampling_f, row), 0)
                    key = key_of(value[0])
                    store(keys, T.Select(at < V, key, i32(BANNED)), row, at)

    return kernel(
        f"scores_{B}_{V}_{VP}_{MP}",
        arguments,
        body,
        threads=THREADS,
        grid=(blocks_of(VP), "b"),
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


@cache
def best(spec: SamplingSpec, *, subgroups: bool) -> Launch:
    """Adds the biases to the keys, and finds the largest key of each block.

    Arguments: keys int32 [B, VP], changed, table, sampling_i int32 [B, 8], bias_ids int32 and
    bias_values float32 [B, 320], best int32 [B, blocks], step. Biases are added in the order
    listed; -infinity bans a token. A thread adds those of its own tokens.
    """
    B, VP, MP = spec.batch, spec.columns, spec.pages
    arguments = (
        Arg("keys", "int32", (B, VP)),
        Arg("table", "int32", (B, TABLE_HEADER + MP)),
        Arg("sampling_i", "int32", (B, SAMPLING_WIDTH)),
        Arg("bias_ids", "int32", (B, MAX_BIASES)),
        Arg("bias_values", "float32", (B, MAX_BIASES)),
        Arg("best", "int32", (B, blocks_of(VP))),
        STEP,
    )

    def body(
        thread: Thread,
        keys: Buffer,
        table: Buffer,
        sampling_i: Buffer,
        bias_ids: Buffer,
        bias_values: Buffer,
        best: Buffer,
        step: Buffer,
    ) -> None:
        row = thread.y
        with when(T.And(row < T.min(step[SEQUENCES], B), T.EQ(table[row, STOP], 0))):
            first = bind(thread.x * BLOCK)
            last = bind(T.min(first + BLOCK, VP))
            with T.serial(0, bind(T.min(sampling_i[row, BIASES], MAX_BIASES))) as i:
                token = bind(bias_ids[row, i])
                mine = T.And(T.And(token >= first, token < last), T.EQ(token % THREADS, thread.t))
                with when(mine):
                    bias, key = bind(bias_values[row, i]), bind(keys[row, token])
                    banned = T.Or(is_banned(bias), T.EQ(key, i32(BANNED)))
                    added = key_of(bind(score_of(key) + bias))
                    store(keys, T.Select(banned, i32(BANNED), added), row, token)
            largest = local((1,), "int32")
            store(largest, BANNED, 0)
            with T.serial(0, BLOCK // THREADS) as i:
                at = bind(first + i * THREADS + thread.t)
                with when(at < last):
                    store(largest, T.max(largest[0], keys[row, at]), 0)
            scratch = shared((THREADS,), "int32")
            top = combine_group(thread, largest[0], THREADS, T.max, scratch)
            with when(T.EQ(thread.t, 0)):
                store(best, top, row, thread.x)

    return kernel(
        f"best_{B}_{VP}_{MP}{'_s' if subgroups else ''}",
        arguments,
        body,
        threads=THREADS,
        grid=(blocks_of(VP), "b"),
        bounds={"b": B},
        subgroups=subgroups,
    )
