"""What a step is to a program: which rows there are, whose they are and what they need."""

from __future__ import annotations

from collections.abc import Sequence as Rows
from dataclasses import dataclass

from edgewise_runtime.devices.base import LoadedProgram
from edgewise_runtime.engine.constraint import Mask
from edgewise_runtime.engine.sequence import Sequence
from edgewise_runtime.engine.step_buffers import StepBuffers
from edgewise_runtime.engine.table_rows import Line
from edgewise_runtime.errors import BundleError


def plan_for(program: LoadedProgram, operation: str, **symbols: int) -> str:
    """Name of the plan that does an operation for so many rows and sequences (n, b, r) and, where
    that is known, tokens that any of them can come to have in KV (t).

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
        self._buffers = StepBuffers(program, program.bundle.model.eos)
        self.rows = self._buffers.rows
        self.sequences = self._buffers.sequences

    def prefill(self, spans: Rows[Span]) -> None:
        """Make spans of sequences the step's rows, one after the other, each with a table row."""
        self._buffers.compute(
            [_line(span.sequence, span.start, span.count) for span in spans],
            [token for span in spans for token in span.tokens],
            reach=max(span.start + span.count for span in spans),
        )

    def logit_rows(self, rows: Rows[int]) -> None:
        """Ask for the logits of these rows of the step just run."""
        self._buffers.logit_rows(rows)

    def sample(self, rows: Rows[tuple[Sequence, int]], masks: Rows[Mask | None] = ()) -> None:
        """Make the rows of `logits` ready to be drawn from.

        Args:
            rows: for each whose it is, and how many tokens it follows: the place of the new one.
            masks: which tokens may be drawn for each; none where all may.
        """
        self._buffers.draw([_line(sequence, length) for sequence, length in rows])
        self._sampling([sequence for sequence, _ in rows], masks)

    def decode(self, sequences: Rows[Sequence], burst: int, masks: Rows[Mask | None] = ()) -> int:
        """Make the last token of each sequence a row, for a burst of so many tokens.

        Args:
            masks: which tokens may be drawn for each; none where all may.

        Returns:
            The most tokens that any of them can come to have in KV.
        """
        reach = self.forward(sequences, burst)
        self._sampling(sequences, masks)
        return reach

    def forward(self, sequences: Rows[Sequence], burst: int = 1) -> int:
        """As `decode`, but for what is drawn."""
        reach = max(sequence.computed for sequence in sequences) + burst
        self._buffers.compute(
            [_line(sequence, sequence.computed) for sequence in sequences],
            [sequence.known[-1] for sequence in sequences],
            reach=reach,
            logits=len(sequences),
        )
        return reach

    def recount(self, rows: int) -> None:
        """Say again how many rows there are, which a burst that has ended may have taken back."""
        self._buffers.recount(rows)

    def sampled(self, count: int) -> list[list[int]]:
        """Return the tokens that the last burst wrote for each of the first `count` rows."""
        return self._buffers.drawn(count)

    def _sampling(self, sequences: Rows[Sequence], masks: Rows[Mask | None] = ()) -> None:
        """Write how each row is sampled."""
        for sequence in sequences:
            if sequence.params.penalized and not sequence.counted:
                self._buffers.counts(sequence.slot, sequence.known, sequence.asked_len)
                sequence.counted = True
        self._buffers.sampling([(s.drawing, s.seed, s.index) for s in sequences], masks)


def _line(sequence: Sequence, start: int, rows: int = 1) -> Line:
    holding, slot = sequence.holding, max(sequence.slot, 0)
    if holding is None:
        return Line(start, rows, [], sequence.limit - 1, slot)
    return Line(start, rows, holding.pages, sequence.limit - 1, slot, holding.beside)
