"""One token for every sequence of a batch from its logits."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from tvm import tirx
from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, PrimFunc

from edgewise_compiler.kernels.cpu.sampling import draw, scores, threshold
from edgewise_compiler.kernels.cpu.sampling.scratch import (
    DRAW,
    FILTERED,
    FOUND,
    KIND,
    PHASE,
    RUNNING,
    SEARCHING,
    Work,
    sample_scratch,
    when,
)
from edgewise_compiler.kernels.cpu.vector import store
from edgewise_compiler.kernels.function import STEP, Arg, block, kernel, live_rows, table_arg
from edgewise_compiler.kernels.sampling import SamplingSpec
from edgewise_runtime.format.abi import MAX_BIASES, SAMPLING_WIDTH, mask_words


@functools.cache
def sample(spec: SamplingSpec, isa: str, *, advance: bool) -> PrimFunc:
    """Draws the next token of every running sequence, as its row of parameters asks.

    In order: penalties, biases, mask, temperature, top-k, top-p, min-p, draw.

      * A token that occurs in prompt or answer has its logit divided by ``repetition`` if positive,
        else multiplied (as in transformers); one that was sampled ``count`` times before has it
        reduced by presence + frequency*count (OpenAI).
      * Biases are added in the order listed; -inf bans a token. Entries outside the vocabulary do
        nothing, a token listed twice gets both.
      * Where the row is MASKED, tokens whose bit in its grammar_mask is 0 are banned. The mask of
        another row is not read.
      * A row with a logit that is NaN or +inf, or with nothing above -inf, has no token: what is
        written for it is NOT_FINITE, whatever its biases and its mask ban.
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
    int32 [B, 8+MP]; sampling_f float32, sampling_i int32 [B, 8]; biases int32
    [B, 2, 320]; grammar_mask int32 [B, ceil(V/32)]; counts int32 [B, V] (twice the times sampled,
    plus 1 for a token of the prompt), row ``slot`` of the table, only read when a penalty is on;
    sampled int32 [B], written, except for rows that are stopped; the arguments of
    :func:`~edgewise_compiler.kernels.cpu.sampling.scratch.sample_scratch`, written; step int32 [8],
    whose field 1 is the number of sequences.
    """
    B, MP, V, VP = spec.batch, spec.pages, spec.vocab, spec.columns
    arguments = [
        Arg("logits", "float32", (B, VP)),
        table_arg(spec),
        Arg("sampling_f", "float32", (B, SAMPLING_WIDTH)),
        Arg("sampling_i", "int32", (B, SAMPLING_WIDTH)),
        Arg("biases", "int32", (B, 2, MAX_BIASES)),
        Arg("grammar_mask", "int32", (B, mask_words(V))),
        Arg("counts", "int32", (B, V)),
        Arg("sampled", "int32", (B,)),
        *sample_scratch(spec),
        STEP,
    ]

    def body(*buffers: Buffer) -> None:
        named = {argument.name: buffer for argument, buffer in zip(arguments, buffers, strict=True)}
        with block("sample"):
            _phases(Work(V=V, VP=VP, isa=isa, **named), live_rows(named["step"], 1, B), advance)

    name = f"sample_{B}_{V}_{VP}_{MP}" + ("_advance" if advance else "")
    return kernel(name, arguments, body)


def _phases(w: Work, rows: Expr, advance: bool) -> None:
    """Serial work on rows and parallel work on (row, block of the vocabulary), by turns."""

    def having(field: int, value: int) -> Callable[[Expr], Expr]:
        return lambda row: w.has(row, field, value)

    def each(run: Callable[[Work, Expr], None], wanted: Callable[[Expr], Expr]) -> None:
        with T.serial(0, rows) as row, when(wanted(row)):
            run(w, row)

    def blocks(run: Callable[[Work, Expr, Expr], None], wanted: Callable[[Expr], Expr]) -> None:
        # A single block is less work than waking the other threads.
        loop = T.parallel if w.blocks > 1 else T.serial
        with loop(0, rows * w.blocks) as item, block("part"):
            row = T.bind(T.floordiv(item, w.blocks))
            with when(wanted(row)):
                run(w, row, T.bind(T.floormod(item, w.blocks)))

    @contextmanager
    def when_any(wanted: Callable[[Expr], Expr]) -> Iterator[None]:
        found = T.sblock_alloc_buffer((1,), "int32")
        store(found, tirx.const(0, "int32"), 0)
        with T.serial(0, rows) as row, when(wanted(row)):
            store(found, tirx.const(1, "int32"), 0)
        with when(found[0] > 0):
            yield

    drawn, searching = having(KIND, DRAW), having(PHASE, SEARCHING)

    def search(stage: Expr) -> None:
        by_mass = T.bind(T.EQ(stage, 1))
        with T.If(by_mass):
            with T.Then():
                each(threshold.open_top_p, drawn)
            with T.Else():
                each(threshold.open_top_k, drawn)
        each(threshold.settle, searching)
        with T.serial(0, threshold.PASSES) as turn, when_any(searching):
            each(partial(threshold.set_levels, turn=turn), searching)
            blocks(threshold.measure_block, searching)
            each(partial(threshold.narrow, by_mass=by_mass), searching)
            each(threshold.settle, searching)
        each(partial(threshold.finish, by_mass=by_mass), having(PHASE, FOUND))

    with T.serial(0, rows) as row:
        scores.start(w, row)
    blocks(scores.score_block, having(RUNNING, 1))
    each(scores.conclude_scores, having(RUNNING, 1))
    with when_any(drawn):
        blocks(scores.weigh_block, drawn)
        each(scores.conclude_weights, drawn)
        with T.serial(0, 2) as stage:
            search(stage)
        each(draw.apply_min_p, drawn)
        with when_any(having(FILTERED, 1)):
            blocks(draw.keep_block, having(FILTERED, 1))
        each(partial(draw.draw, advance=advance), drawn)
