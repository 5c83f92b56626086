"""What a step writes down so that the next one can run without asking the host."""

from __future__ import annotations

import functools

from tvm import tirx
from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, PrimFunc

from edgewise_compiler.kernels.cpu.sampling.scratch import when
from edgewise_compiler.kernels.cpu.vector import let, store
from edgewise_compiler.kernels.function import (
    STEP,
    Arg,
    block,
    kernel,
    live_rows,
    sampled_arg,
    table_arg,
)
from edgewise_compiler.kernels.sampling import SamplingSpec, penalized
from edgewise_runtime.format.abi import (
    AT_END,
    AT_FAULT,
    AT_LIMIT,
    COUNT,
    IGNORE_EOS,
    KV_LEN,
    LIMIT,
    NOT_FINITE,
    RING,
    SAMPLING_WIDTH,
    SEQUENCES,
    SLOT,
    STOP,
    STOP_TOKENS,
)


@functools.cache
def record(spec: SamplingSpec, *, advance: bool) -> PrimFunc:
    """Notes the sampled token of every running sequence and whether it was the last one.

    For each: with ``advance`` kv_len grows by 1 (the token this step put into the KV memory); the
    token goes to ``ring`` and count grows by 1; stop becomes 1 if the token is one of ``eos``
    (unless ignore_eos is set), else 2 once kv_len reaches the limit, and 3 where it is NOT_FINITE;
    tokens and positions get the token and kv_len, where the next step reads them; with a penalty
    on, counts grows by 2 (its last bit says whether the token is in the prompt).
    A stopped sequence stays as it is.

    Arguments of the PrimFunc: sampled int32 [B]; table int32 [B, 8+MP], changed; tokens int32 [N]
    and positions int32 [N, 1], written; ring int32 [B, 64], written (it wraps around); eos int32
    [16], padded with -1; counts int32 [B, V], changed; sampling_f float32, sampling_i int32 [B, 8];
    step int32 [8], whose field 1 is the number of sequences.
    """
    N, B, MP, V = spec.rows, spec.batch, spec.pages, spec.vocab
    arguments = [
        sampled_arg(B, V),
        table_arg(spec),
        Arg("tokens", "int32", (N,)),
        Arg("positions", "int32", (N, 1)),
        Arg("ring", "int32", (B, RING)),
        Arg("eos", "int32", (STOP_TOKENS,)),
        Arg("counts", "int32", (B, V)),
        Arg("sampling_f", "float32", (B, SAMPLING_WIDTH)),
        Arg("sampling_i", "int32", (B, SAMPLING_WIDTH)),
        STEP,
    ]

    def body(
        sampled: Buffer,
        table: Buffer,
        tokens: Buffer,
        positions: Buffer,
        ring: Buffer,
        eos: Buffer,
        counts: Buffer,
        sampling_f: Buffer,
        sampling_i: Buffer,
        step: Buffer,
    ) -> None:
        def note(row: Expr) -> None:
            token = let(sampled[row])
            length = let(table[row, KV_LEN] + int(advance))
            count = let(table[row, COUNT])
            store(table, length, row, KV_LEN)
            store(ring, token, row, count & (RING - 1))
            store(table, count + 1, row, COUNT)
            # Rows that have stopped are still embedded, beside others: each needs a token.
            store(tokens, T.max(token, 0), row)
            store(positions, length, row, 0)
            with when(tirx.all(token >= 0, penalized(sampling_f, row))):
                slot = let(table[row, SLOT])
                store(counts, counts[slot, token] + 2, slot, token)
            at_limit = T.Select(length >= table[row, LIMIT], AT_LIMIT, 0)
            store(table, T.Select(T.EQ(token, NOT_FINITE), AT_FAULT, at_limit), row, STOP)
            with when(T.EQ(sampling_i[row, IGNORE_EOS], 0)), T.serial(0, STOP_TOKENS) as i:
                with when(T.EQ(eos[i], token)):
                    store(table, tirx.const(AT_END, "int32"), row, STOP)

        with block("record"):
            rows = live_rows(step, SEQUENCES, B)
            with T.serial(0, rows) as row, when(T.EQ(table[row, STOP], 0)):
                note(row)

    name = f"record_{N}_{B}_{MP}_{V}" + ("_advance" if advance else "")
    return kernel(name, arguments, body)
