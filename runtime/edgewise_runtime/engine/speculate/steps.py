"""The steps of a draft model: chunks of text into KV, then a burst of guesses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edgewise_runtime.devices.base import LoadedProgram
from edgewise_runtime.engine.batch import plan_for
from edgewise_runtime.engine.sampling_rows import SamplingOf, counts_row, write_sampling
from edgewise_runtime.engine.speculate.base import DraftView
from edgewise_runtime.errors import BundleError
from edgewise_runtime.format.abi import COUNT, KV_LEN, LIMIT, Q_LEN, Q_START, SLOT, TABLE_HEADER
from edgewise_runtime.format.plan import Plan
from edgewise_runtime.kv.pages import PageTable


@dataclass(frozen=True, slots=True)
class DraftRow:
    """A sequence to draft for.

    Attributes:
        view: the sequence.
        table: its pages, enough for all tokens but the last and k more.
        start: how many of its tokens are in them already; all but the last at most.
        k: tokens to draft.
    """

    view: DraftView
    table: PageTable
    start: int
    k: int

    @property
    def known(self) -> int:
        """Tokens that must be in KV before the last one goes through the model."""
        return len(self.view.tokens) - 1


class DraftSteps:
    """Writes the inputs of a draft program, runs its plans and reads what it drew.

    Attributes:
        rows, sequences: the most tokens and sequences of a step.
        burst: the most tokens that can be drawn at once.
        pages: the most pages of a sequence.
    """

    def __init__(self, program: LoadedProgram, end_tokens: Sequence[int]) -> None:
        model = program.bundle.model
        self.rows = model.prefill_chunk
        self.sequences = model.max_batch
        self._program = program
        self._vocab = model.vocab
        decode = program.plans[plan_for(program, "decode", b=1)]
        self.burst = 1 if decode.loop is None else decode.loop.max_burst
        self._columns = _shape(decode, "table")[1]
        self.pages = self._columns - TABLE_HEADER
        eos = np.full(_shape(decode, "eos"), -1, np.int32)
        ends = list(end_tokens)[: len(eos)]
        eos[: len(ends)] = ends
        program.write("eos", eos)
        self._sampling_of: list[SamplingOf] = []

    def prefill(self, rows: Sequence[DraftRow]) -> None:
        """Put the tokens of each row into KV, up to and without its last; `sequences` at most."""
        spans = [(row, row.start, row.known) for row in rows]
        while spans := [span for span in spans if span[1] < span[2]]:
            chunk, left, room = list[tuple[DraftRow, int, int]](), [], self.rows
            for row, start, end in spans:
                count = min(room, end - start)
                room -= count
                left.append((row, start + count, end))
                if count:
                    chunk.append((row, start, count))
            self._prefill(chunk)
            spans = left

    def decode(self, rows: Sequence[DraftRow]) -> list[tuple[int, ...]]:
        """Draw at most k tokens for each of at most `sequences` rows; fewer where one is an end
        token. All tokens but the last must be in KV; all but the last drawn then are too."""
        count, burst = len(rows), max(row.k for row in rows)
        numbers, write = np.arange(count, dtype=np.int32), self._program.write
        self._step(count, count, logits=count, reach=max(row.known + row.k for row in rows))
        write("tokens", np.array([row.view.tokens[-1] for row in rows], np.int32))
        write("positions", np.array([row.known for row in rows], np.int32))
        write("row_seq", numbers)
        write("logit_rows", numbers)
        self._table([(row, row.known, 1) for row in rows], range(count))
        self._sampling([row.view for row in rows])
        for slot, view in enumerate(row.view for row in rows):
            if view.params.penalized:
                seen = counts_row(view.tokens, view.prompt_len, self._vocab)
                write("counts", seen, slot * self._vocab)
        self._program.run(plan_for(self._program, "decode", b=count), burst)
        counts = self._program.read("table", slice(0, count))[:, COUNT]
        ring = self._program.read("ring", slice(0, count))
        return [tuple(ring[i, : counts[i]].tolist()) for i in range(count)]

    def _prefill(self, chunk: Sequence[tuple[DraftRow, int, int]]) -> None:
        write = self._program.write
        counts = np.array([count for _, _, count in chunk])
        total, b = int(counts.sum()), len(chunk)
        tokens = [row.view.tokens[start : start + count] for row, start, count in chunk]
        positions = [np.arange(start, start + count) for _, start, count in chunk]
        self._step(total, b, reach=max(start + count for _, start, count in chunk))
        write("tokens", np.concatenate(tokens).astype(np.int32))
        write("positions", np.concatenate(positions).astype(np.int32))
        write("row_seq", np.repeat(np.arange(b, dtype=np.int32), counts))
        self._table(chunk, (np.cumsum(counts) - counts).tolist())
        self._program.run(plan_for(self._program, "embed", n=total))
        self._program.run(plan_for(self._program, "prefill", n=total, b=b))

    def _step(self, rows: int, sequences: int, logits: int = 0, *, reach: int) -> None:
        step = np.zeros(8, np.int32)
        step[:4] = rows, sequences, logits, reach
        self._program.write("step", step)

    def _table(self, spans: Sequence[tuple[DraftRow, int, int]], first_rows: Sequence[int]) -> None:
        table = np.zeros((len(spans), self._columns), np.int32)
        for slot, (row, kv_len, count) in enumerate(spans):
            entry = table[slot]
            entry[KV_LEN], entry[Q_START], entry[Q_LEN] = kv_len, first_rows[slot], count
            entry[LIMIT], entry[SLOT] = row.known + row.k, slot
            row.table.write_row(entry)
        self._program.write("table", table)

    def _sampling(self, views: Sequence[DraftView]) -> None:
        wanted = [(view.params, view.seed, view.index) for view in views]
        if wanted == self._sampling_of:
            return
        self._sampling_of = wanted
        write_sampling(self._program, wanted)


def _shape(plan: Plan, name: str) -> tuple[int, ...]:
    buffer = plan.buffer_table.get(name)
    if buffer is None:
        raise BundleError(
            f"Plan {plan.name!r} has no buffer {name!r}.",
            remedy="Compile the draft model again with this version of edgewise.",
            code="bundle.buffer",
        )
    return tuple(extent for extent in buffer.shape if isinstance(extent, int))
