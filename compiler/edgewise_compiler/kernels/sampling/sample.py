"""One token for every sequence of a batch from its logits."""

from __future__ import annotations

import functools
from collections.abc import Callable

from tvm import tirx
from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, PrimFunc

from edgewise_compiler.kernels.function import Arg, kernel
from edgewise_compiler.kernels.sampling import draw, scores, threshold
from edgewise_compiler.kernels.sampling.scratch import (
    DRAW,
    FILTERED,
    FOUND,
    HEADER,
    KIND,
    MAX_BIASES,
    PHASE,
    SEARCHING,
    SKIP,
    Work,
    sample_scratch,
    when,
)
from edgewise_compiler.kernels.vector import let, store


@functools.cache
def sample(B: int, V: int, VP: int, isa: str, *, MP: int, advance: bool) -> PrimFunc:
    """Draws the next token of every running sequence, as its row of parameters asks.

    In order: penalties, biases, temperature, top-k, top-p, min-p, draw.

      * A token that has occurred is penalized: its logit is divided by ``repetition`` if positive,
        else multiplied (as in transformers), then reduced by presence + frequency*count (OpenAI).
      * Biases are added in the order listed; -inf bans a token. Entries outside the vocabulary do
        nothing, a token listed twice gets both.
      * A logit that is NaN is -inf: never chosen. Without any other, the token is 0.
      * Temperature 0 takes the best token, the lowest id of equals, and ignores what follows.
      * top_k keeps exactly k tokens; of equal scores the lowest ids.
      * top_p keeps the fewest best tokens with at least that share of what top-k left.
      * min_p keeps tokens at least that many times as likely as the best one.
      * The draw is exact over the integer weights described in ``scratch.py``, by one random word,
        Philox4x32-10 with the seed as key and (position of the new token, sequence number, 0, 0)
        as counter. Its position is kv_len, plus 1 with ``advance``, where ``record`` has yet to
        count the token that this step put into the KV memory.

    Results depend on nothing but the row: not on batch, threads or instruction set.

    Arguments of the PrimFunc: logits float32 [B, VP], of which the first V columns count; table
    int32 [B, 8+MP]; sampling_f float32, sampling_i int32 [B, 8]; bias_ids int32, bias_values
    float32 [B, 320]; counts int32 [B, V], row ``slot`` of the table, only read when a penalty is
    on; sampled int32 [B], written, except for rows that are stopped; the arguments of
    :func:`~edgewise_compiler.kernels.sampling.scratch.sample_scratch`, written; step int32 [8],
    whose field 1 is the number of sequences.
    """
    arguments = [
        Arg("logits", "float32", (B, VP)),
        Arg("table", "int32", (B, HEADER + MP)),
        Arg("sampling_f", "float32", (B, 8)),
        Arg("sampling_i", "int32", (B, 8)),
        Arg("bias_ids", "int32", (B, MAX_BIASES)),
        Arg("bias_values", "float32", (B, MAX_BIASES)),
        Arg("counts", "int32", (B, V)),
        Arg("sampled", "int32", (B,)),
        *sample_scratch(B, VP),
        Arg("step", "int32", (8,)),
    ]

    def body(*buffers: Buffer) -> None:
        named = {argument.name: buffer for argument, buffer in zip(arguments, buffers, strict=True)}
        w = Work(V=V, VP=VP, isa=isa, **named)
        rows = let(w.step[1])

        def each(run: Callable[[Expr], None], field: int, value: int) -> None:
            with T.serial(0, rows) as row, when(w.has(row, field, value)):
                run(row)

        def blocks(run: Callable[[Expr, Expr], None], wanted: Callable[[Expr], Expr]) -> None:
            with T.parallel(0, rows * w.blocks) as item:
                row = let(T.floordiv(item, w.blocks))
                with when(wanted(row)):
                    run(row, let(T.floormod(item, w.blocks)))

        def count(field: int, value: int) -> Expr:
            found = T.alloc_buffer((1,), "int32")
            store(found, tirx.const(0, "int32"), 0)
            with T.serial(0, rows) as row, when(w.has(row, field, value)):
                store(found, found[0] + 1, 0)
            return found[0]

        def search() -> None:
            """top-k by count, then top-p by mass."""
            with T.serial(0, 2) as stage:
                by_mass = let(T.EQ(stage, 1))
                with T.serial(0, rows) as row, T.If(by_mass):
                    with T.Then():
                        threshold.open_top_p(w, row)
                    with T.Else():
                        threshold.open_top_k(w, row)
                with T.serial(0, rows) as row:
                    threshold.settle(w, row)
                with T.serial(0, threshold.PASSES) as turn:
                    with when(count(PHASE, SEARCHING) > 0):
                        each(lambda row: threshold.set_levels(w, row, turn), PHASE, SEARCHING)
                        blocks(
                            lambda row, block: threshold.measure_block(w, row, block),
                            lambda row: w.has(row, PHASE, SEARCHING),
                        )
                        each(lambda row: threshold.narrow(w, row, by_mass), PHASE, SEARCHING)
                        each(lambda row: threshold.settle(w, row), PHASE, SEARCHING)
                each(lambda row: threshold.finish(w, row, by_mass), PHASE, FOUND)

        with T.serial(0, rows) as row:
            scores.classify(w, row)
            draw.keep_all(w, row)
        blocks(
            lambda row, block: scores.score_block(w, row, block),
            lambda row: tirx.Not(w.has(row, KIND, SKIP)),
        )
        with T.serial(0, rows) as row, when(tirx.Not(w.has(row, KIND, SKIP))):
            scores.conclude_scores(w, row)
        with when(count(KIND, DRAW) > 0):
            drawn = lambda row: w.has(row, KIND, DRAW)  # noqa: E731
            blocks(lambda row, block: scores.weigh_block(w, row, block), drawn)
            each(lambda row: scores.conclude_weights(w, row), KIND, DRAW)
            search()
            each(lambda row: draw.apply_min_p(w, row), KIND, DRAW)
            with when(count(FILTERED, 1) > 0):
                blocks(
                    lambda row, block: draw.keep_block(w, row, block),
                    lambda row: w.has(row, FILTERED, 1),
                )
            each(lambda row: draw.draw(w, row, advance=advance), KIND, DRAW)

    name = f"sample_{B}_{V}_{VP}_{MP}" + ("_advance" if advance else "")
    return kernel(name, arguments, body)
