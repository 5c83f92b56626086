"""The steps of a draft model: chunks of text into KV, then a burst of guesses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgewise_runtime.devices.base import LoadedProgram
from edgewise_runtime.engine.batch import (
    COUNT,
    KV_LEN,
    LIMIT,
    Q_LEN,
    Q_START,
    SLOT,
    plan_for,
)
from edgewise_runtime.engine.sampling import MAX_BIASES, SamplingParams
from edgewise_runtime.engine.speculate.base import DraftView
from edgewise_runtime.errors import BundleError
from edgewise_runtime.kv.pages import TABLE_HEADER, PageTable
from edgewise_runtime.plan import Plan

_SAMPLING = 8
"""Columns of ``sampling_f`` and ``sampling_i``."""


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
        self._sampling_of: list[tuple[SamplingParams, int, int]] = []

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
        for slot, row in enumerate(rows):
            if row.view.params.penalized:
                write("counts", _counts(row.view, self._vocab), slot * self._vocab)
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
        floats = np.zeros((len(wanted), _SAMPLING), np.float32)
        ints = np.zeros((len(wanted), _SAMPLING), np.uint32)
        bias_ids = np.zeros((len(wanted), MAX_BIASES), np.int32)
        bias_values = np.zeros((len(wanted), MAX_BIASES), np.float32)
        for row, (p, seed, index) in enumerate(wanted):
            floats[row, :6] = (
                0.0 if p.greedy else p.temperature,
                p.top_p,
                p.min_p,
                p.repetition_penalty,
                p.presence_penalty,
                p.frequency_penalty,
            )
            biases = len(p.logit_bias)
            low, high = seed & 0xFFFFFFFF, seed >> 32
            ints[row, :6] = (p.top_k, low, high, biases, p.ignore_eos, index)
            bias_ids[row, :biases] = list(p.logit_bias)
            bias_values[row, :biases] = list(p.logit_bias.values())
        write = self._program.write
        write("sampling_f", floats)
        write("sampling_i", ints.view(np.int32))
        write("bias_ids", bias_ids)
        write("bias_values", bias_values)


def _counts(view: DraftView, vocab: int) -> npt.NDArray[np.int32]:
    """A row of ``counts``: twice the times a token was drawn, plus 1 if the prompt has it."""
    tokens = np.array(view.tokens, np.int64)
    drawn = np.bincount(tokens[view.prompt_len :], minlength=vocab)
    counts = (2 * drawn).astype(np.int32)
    counts[tokens[: view.prompt_len]] += 1
    return counts


def _shape(plan: Plan, name: str) -> tuple[int, ...]:
    buffer = plan.buffer_table.get(name)
    if buffer is None:
        raise BundleError(
            f"Plan {plan.name!r} has no buffer {name!r}.",
            remedy="Compile the draft model again with this version of edgewise.",
            code="bundle.buffer",
        )
    return tuple(extent for extent in buffer.shape if isinstance(extent, int))
