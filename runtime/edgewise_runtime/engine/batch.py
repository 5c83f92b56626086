"""Fills the step buffers of a program: which rows there are, whose they are and what they need.

What a plan reads is written before it runs, so nothing depends on what ran before.
"""

from __future__ import annotations

from collections.abc import Sequence as Rows

import numpy as np

from edgewise_runtime.devices.base import LoadedProgram
from edgewise_runtime.engine.sampling import MAX_BIASES
from edgewise_runtime.engine.sequence import Sequence
from edgewise_runtime.errors import BundleError
from edgewise_runtime.kv.pages import TABLE_HEADER

KV_LEN, Q_START, Q_LEN, STOP, LIMIT, COUNT, SLOT = range(7)
"""Fields of a table row before its page ids."""


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

    def prefill(self, sequence: Sequence, start: int, count: int) -> None:
        """Make prompt tokens `start` to `start + count` of one sequence the step's rows."""
        write, tokens = self._program.write, sequence.prompt[start : start + count]
        self._step(count, 1, reach=start + count)
        write("tokens", np.array(tokens, np.int32))
        write("positions", np.arange(start, start + count, dtype=np.int32))
        write("row_seq", np.zeros(count, np.int32))
        self._table([sequence], kv_len=start, q_len=count)

    def logit_rows(self, first: int, count: int) -> None:
        """Ask for the logits of `count` rows of the step just run, from row `first` on."""
        self._program.write("step", np.array([count], np.int32), 2)
        self._program.write("logit_rows", np.arange(first, first + count, dtype=np.int32))

    def first_token(self, sequence: Sequence) -> None:
        """Make one sequence whose prompt is in KV ready to be sampled for."""
        self._step(1, 1, logits=1, reach=len(sequence.prompt))
        self._table([sequence], kv_len=len(sequence.prompt), q_len=1)
        self.sampling([sequence])
        if sequence.params.penalized:
            # Twice the times sampled, plus 1 for a token of the prompt.
            counts = np.zeros(self._vocab, np.int32)
            counts[list(sequence.prompt)] = 1
            self._program.write("counts", counts, sequence.slot * self._vocab)

    def decode(self, sequences: Rows[Sequence], burst: int) -> None:
        """Make the last token of each sequence a row, for a burst of so many tokens."""
        count, write = len(sequences), self._program.write
        rows = np.arange(count, dtype=np.int32)
        reach = max(sequence.kv_len for sequence in sequences) + burst
        self._step(count, count, logits=count, reach=reach)
        write("tokens", np.array([s.tokens[-1] for s in sequences], np.int32))
        write("positions", np.array([s.kv_len for s in sequences], np.int32))
        write("row_seq", rows)
        write("logit_rows", rows)
        self._table(sequences, kv_len=None, q_len=1)

    def sampling(self, sequences: Rows[Sequence]) -> None:
        """Write how each row is sampled, unless these rows were the last ones written."""
        if self._sampling_of == list(sequences):
            return
        self._sampling_of = list(sequences)
        count = len(sequences)
        floats = np.zeros((count, 8), np.float32)
        ints = np.zeros((count, 8), np.uint32)
        bias_ids = np.zeros((count, MAX_BIASES), np.int32)
        bias_values = np.zeros((count, MAX_BIASES), np.float32)
        for row, sequence in enumerate(sequences):
            p, seed = sequence.params, sequence.seed
            floats[row, :6] = (
                0.0 if p.greedy else p.temperature,
                p.top_p,
                p.min_p,
                p.repetition_penalty,
                p.presence_penalty,
                p.frequency_penalty,
            )
            biases = len(p.logit_bias)
            ints[row, :5] = (p.top_k, seed & 0xFFFFFFFF, seed >> 32, biases, p.ignore_eos)
            bias_ids[row, :biases] = list(p.logit_bias)
            bias_values[row, :biases] = list(p.logit_bias.values())
        write = self._program.write
        write("sampling_f", floats)
        write("sampling_i", ints.view(np.int32))
        write("bias_ids", bias_ids)
        write("bias_values", bias_values)

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

    def _table(self, sequences: Rows[Sequence], *, kv_len: int | None, q_len: int) -> None:
        table = np.zeros((len(sequences), TABLE_HEADER + self._max_pages), np.int32)
        for row, sequence in enumerate(sequences):
            table[row, KV_LEN] = sequence.kv_len if kv_len is None else kv_len
            table[row, Q_START], table[row, Q_LEN] = row, q_len
            table[row, LIMIT] = sequence.kv_limit
            table[row, SLOT] = sequence.slot
            table[row, TABLE_HEADER : TABLE_HEADER + len(sequence.pages)] = sequence.pages
        self._program.write("table", table)

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
