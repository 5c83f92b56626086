"""What a step writes down on the GPU so that the next one can run without asking the host."""

from __future__ import annotations

from functools import cache

from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer

from edgewise_compiler.kernels.function import STEP, Arg, sampled_arg, table_arg
from edgewise_compiler.kernels.gpu.thread import Launch, Thread, bind, kernel, local, store, when
from edgewise_compiler.kernels.sampling import SamplingSpec
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
    STOP,
    STOP_TOKENS,
)


@cache
def record(spec: SamplingSpec, *, advance: bool) -> Launch:
    """Notes the sampled token of every running sequence and whether it was the last one.

    As `record` does on the CPU, counts aside (`whole`): kv_len grows with ``advance``, the
    token goes to ring, tokens and positions, stop is set by an end token, the limit or NOT_FINITE.
    And with
    ``advance``, once every sequence has stopped, the rows, sequences and logit rows in step become
    0, so that the rest of a burst does nothing.

    Arguments: sampled int32 [B], table int32 [B, 8+MP], tokens int32 [N], positions int32 [N, 1],
    ring int32 [B, 64], eos int32 [16], sampling_i int32 [B, 8], step. One thread does it all.
    """
    N, B, MP = spec.rows, spec.batch, spec.pages
    arguments = (
        sampled_arg(B, spec.vocab),
        table_arg(spec),
        Arg("tokens", "int32", (N,)),
        Arg("positions", "int32", (N, 1)),
        Arg("ring", "int32", (B, RING)),
        Arg("eos", "int32", (STOP_TOKENS,)),
        Arg("sampling_i", "int32", (B, SAMPLING_WIDTH)),
        STEP,
    )

    def body(
        thread: Thread,
        sampled: Buffer,
        table: Buffer,
        tokens: Buffer,
        positions: Buffer,
        ring: Buffer,
        eos: Buffer,
        sampling_i: Buffer,
        step: Buffer,
    ) -> None:
        running, stop = local((1,), "int32"), local((1,), "int32")
        store(running, 0, 0)
        with T.serial(0, bind(T.min(step[SEQUENCES], B))) as row, when(T.EQ(table[row, STOP], 0)):
            token, count = bind(sampled[row]), bind(table[row, COUNT])
            length = bind(table[row, KV_LEN] + int(advance))
            store(table, length, row, KV_LEN)
            store(ring, token, row, count & (RING - 1))
            store(table, count + 1, row, COUNT)
            store(tokens, T.max(token, 0), row)
            store(positions, length, row, 0)
            store(stop, T.Select(length >= table[row, LIMIT], AT_LIMIT, 0), 0)
            with when(T.EQ(sampling_i[row, IGNORE_EOS], 0)), T.serial(0, STOP_TOKENS) as i:
                with when(T.EQ(eos[i], token)):
                    store(stop, AT_END, 0)
            with when(T.EQ(token, NOT_FINITE)):
                store(stop, AT_FAULT, 0)
            store(table, stop[0], row, STOP)
            with when(T.EQ(stop[0], 0)):
                store(running, 1, 0)
        if advance:
            with when(T.EQ(running[0], 0)):
                for field in range(3):
                    store(step, 0, field)

    name = f"record_{N}_{B}_{MP}{'_advance' if advance else ''}"
    return kernel(name, arguments, body, threads=1, grid=(1, 1), bounds={})
