"""The steps of a draft model: chunks of text into KV, then a burst of guesses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edgewise_runtime.devices.base import LoadedProgram
from edgewise_runtime.engine.batch import plan_for
from edgewise_runtime.engine.speculate.base import DraftView
from edgewise_runtime.engine.step_buffers import StepBuffers
from edgewise_runtime.engine.table_rows import Line
from edgewise_runtime.format.abi import NOT_FINITE, STOP_TOKENS
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
        self._program = program
        self._buffers = StepBuffers(program, end_tokens[:STOP_TOKENS])
        self.rows = self._buffers.rows
        self.sequences = self._buffers.sequences
        self.pages = self._buffers.pages
        self.burst = program.plans[plan_for(program, "decode", b=1)].max_burst

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
        token, or where logits are not finite. All tokens but the last must be in KV; all but the
        last drawn then are too."""
        count, burst = len(rows), max(row.k for row in rows)
        views = [row.view for row in rows]
        reach = max(row.known + row.k for row in rows)
        self._buffers.compute(
            [_line(row, row.known, 1, slot) for slot, row in enumerate(rows)],
            [view.tokens[-1] for view in views],
            reach=reach,
            logits=count,
        )
        self._buffers.sampling([(view.params, view.seed, view.index) for view in views])
        for slot, view in enumerate(views):
            if view.params.penalized:
                self._buffers.counts(slot, view.tokens, view.prompt_len)
        self._program.run(plan_for(self._program, "decode", b=count, t=reach), burst)
        return [
            tuple(token for token in tokens if token != NOT_FINITE)
            for tokens in self._buffers.drawn(count)
        ]

    def _prefill(self, chunk: Sequence[tuple[DraftRow, int, int]]) -> None:
        tokens = [row.view.tokens[start : start + count] for row, start, count in chunk]
        self._buffers.compute(
            [_line(row, start, count, slot) for slot, (row, start, count) in enumerate(chunk)],
            [token for part in tokens for token in part],
            reach=max(start + count for _, start, count in chunk),
        )
        total, b = sum(count for _, _, count in chunk), len(chunk)
        self._program.run(plan_for(self._program, "embed", n=total))
        self._program.run(plan_for(self._program, "prefill", n=total, b=b))


def _line(row: DraftRow, start: int, count: int, slot: int) -> Line:
    table = row.table
    return Line(start, count, table.pages, row.known + row.k, slot, table.beside)
