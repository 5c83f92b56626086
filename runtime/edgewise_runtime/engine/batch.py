"""Fills the step buffers of a program: which rows there are, whose they are and what they need.

What a plan reads is written before it runs, so nothing depends on what ran before.
"""

from __future__ import annotations

from collections.abc import Sequence as Rows
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgewise_runtime.devices.base import LoadedProgram
from edgewise_runtime.engine.sampling_rows import counts_row, write_sampling
from edgewise_runtime.engine.sequence import Sequence
from edgewise_runtime.errors import BundleError
from edgewise_runtime.format.abi import (
    COUNT,
    KV_LEN,
    LIMIT,
    Q_LEN,
    Q_START,
    SLOT,
    TABLE_HEADER,
)


def plan_for(program: LoadedProgram, operation: str, **symbols: int) -> str:
    """Name of the plan that does an operation for so many rows and sequences (n, b, r).

    Raises:
        BundleError: ``bundle.entry`` where the program has none.
    """
    plan = program.program.plan_for(operation, symbols)
    if plan is None:
        raise BundleError(
            f"Program {program.program.id!r} has no plan to {operation} {symbols}.",
            remedy="Compile the model again with this version of edgewise.",
            code="bundle.entry",
        )
    return plan


@dataclass(frozen=True, slots=True)
class Span:
    """Tokens of a sequence that follow each other, from position `start` on."""

    sequence: Sequence
    start: int
    tokens: tuple[int, ...]

    @property
    def count(self) -> int:
        return len(self.tokens)


class Batch:
    """Writes the inputs of a loaded program and reads its ring.

    `rows` and `sequences` are the most token rows and sequences of a step.
    """

    def __init__(self, program: LoadedProgram) -> None:
        model = program.bundle.model
        self._program = program
        self._vocab = model.vocab
        self._context = model.context
        self.rows = model.prefill_chunk
        self.sequences = model.max_batch
        self._sampling_of: list[Sequence] = []
        self._max_pages = self._shape("table")[1] - TABLE_HEADER
        self._eos = np.full(self._shape("eos"), -1, np.int32)
        if len(model.eos) > len(self._eos):
            raise BundleError(f"The bundle names {len(model.eos)} end tokens.", code="bundle.eos")
        self._eos[: len(model.eos)] = model.eos
        program.write("eos", self._eos)

    def prefill(self, spans: Rows[Span]) -> None:
        """Make spans of sequences the step's rows, one after the other, each with a table row."""
        counts = [span.count for span in spans]
        rows = sum(counts)
        self._step(rows, len(spans), reach=max(span.start + span.count for span in spans))
        write = self._program.write
        write("tokens", np.array([t for span in spans for t in span.tokens], np.int32))
        positions = [np.arange(span.start, span.start + span.count) for span in spans]
        write("positions", np.concatenate(positions).astype(np.int32))
        write("row_seq", np.repeat(np.arange(len(spans), dtype=np.int32), counts))
        table, first = self._rows([span.sequence for span in spans]), 0
        for row, span in enumerate(spans):
            table[row, KV_LEN] = span.start
            table[row, Q_START], table[row, Q_LEN] = first, span.count
            first += span.count
        write("table", table)

    def logit_rows(self, rows: Rows[int]) -> None:
        """Ask for the logits of these rows of the step just run."""
        self._program.write("step", np.array([len(rows)], np.int32), 2)
        self._program.write("logit_rows", np.array(rows, np.int32))

    def sample(self, rows: Rows[tuple[Sequence, int]]) -> None:
        """Make the rows of `logits` ready to be drawn from.

        Args:
            rows: for each whose it is, and how many tokens it follows: the place of the new one.
        """
        count = len(rows)
        self._step(count, count, logits=count, reach=max(length for _, length in rows))
        table = self._rows([sequence for sequence, _ in rows])
        table[:, KV_LEN] = [length for _, length in rows]
        table[:, Q_START], table[:, Q_LEN] = np.arange(count), 1
        self._program.write("table", table)
        self._sampling([sequence for sequence, _ in rows])

    def decode(self, sequences: Rows[Sequence], burst: int) -> None:
        """Make the last token of each sequence a row, for a burst of so many tokens."""
        count, write = len(sequences), self._program.write
        rows = np.arange(count, dtype=np.int32)
        lengths = np.array([s.computed for s in sequences], np.int32)
        self._step(count, count, logits=count, reach=int(lengths.max()) + burst)
        write("tokens", np.array([s.known[-1] for s in sequences], np.int32))
        write("positions", lengths)
        write("row_seq", rows)
        write("logit_rows", rows)
        table = self._rows(sequences)
        table[:, KV_LEN], table[:, Q_START], table[:, Q_LEN] = lengths, rows, 1
        write("table", table)
        self._sampling(sequences)

    def recount(self, rows: int) -> None:
        """Say again how many rows there are, which a burst that has ended may have taken back."""
        self._step(rows, rows, logits=rows, reach=1)

    def _sampling(self, sequences: Rows[Sequence]) -> None:
        """Write how each row is sampled, unless these rows were the last ones written."""
        for sequence in sequences:
            if sequence.params.penalized and not sequence.counted:
                self._count(sequence)
        if self._sampling_of == list(sequences):
            return
        self._sampling_of = list(sequences)
        write_sampling(self._program, [(s.params, s.seed, s.index) for s in sequences])

    def _count(self, sequence: Sequence) -> None:
        """Tell the device which tokens a sequence has had: penalties depend on it."""
        counts = counts_row(sequence.known, sequence.prompt_len, self._vocab)
        self._program.write("counts", counts, sequence.slot * self._vocab)
        sequence.counted = True

    def sampled(self, count: int) -> list[list[int]]:
        """Return the tokens that the last burst wrote for each of the first `count` rows."""
        counts = self._program.read("table", slice(0, count))[:, COUNT]
        ring = self._program.read("ring", slice(0, count))
        return [ring[row, : counts[row]].tolist() for row in range(count)]

    def _step(self, rows: int, sequences: int, logits: int = 0, *, reach: int) -> None:
        """Say how many there are; `reach` is the most tokens a sequence can come to have in KV."""
        step = np.zeros(8, np.int32)
        step[:4] = rows, sequences, logits, min(reach, self._context)
        self._program.write("step", step)

    def _rows(self, sequences: Rows[Sequence]) -> npt.NDArray[np.int32]:
        """Table rows with what does not change from step to step: limit, slot and pages."""
        table = np.zeros((len(sequences), TABLE_HEADER + self._max_pages), np.int32)
        for row, sequence in enumerate(sequences):
            pages = sequence.holding.pages if sequence.holding is not None else []
            table[row, LIMIT] = sequence.limit - 1
            table[row, SLOT] = max(sequence.slot, 0)
            table[row, TABLE_HEADER : TABLE_HEADER + len(pages)] = pages
        return table

    def _shape(self, buffer: str) -> tuple[int, ...]:
        for plan in self._program.plans.values():
            if buffer in plan.buffer_table:
                shape = plan.buffer_table[buffer].shape
                return tuple(extent for extent in shape if isinstance(extent, int))
        raise BundleError(
            f"No plan of program {self._program.program.id!r} has a buffer {buffer!r}.",
            remedy="Compile the model again with this version of edgewise.",
            code="bundle.buffer",
        )
