"""Writes what a program reads of a step, and reads what it drew: `abi` in arrays.

Nothing else fills these buffers, whatever drives a program: the engine, a draft model, a benchmark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from edgewise_runtime.devices.base import LoadedProgram
from edgewise_runtime.engine.constraint import Mask
from edgewise_runtime.engine.sampling import SamplingParams
from edgewise_runtime.engine.table_rows import Integers, Line, TableRows
from edgewise_runtime.errors import BundleError
from edgewise_runtime.format import abi

Arrays = Mapping[str, npt.NDArray[Any]]
"""What to write, by buffer."""

SamplingOf = tuple[SamplingParams, int, int]
"""Parameters, the seed (64 bits), and which choice of its request a sequence is."""


_UNNAMED = [0] * (abi.STEP_WIDTH - len(abi.STEP_SYMBOLS))


@dataclass(frozen=True, slots=True)
class _Burst:
    """A burst that the device has been told of.

    Attributes:
        lines: the sequences in it, a row each.
        before: how many tokens each of them had drawn before it.
    """

    lines: Sequence[Line]
    before: list[int]


@dataclass(frozen=True, slots=True)
class _Ahead:
    """Where a burst has left the device, which could go on from there.

    Attributes:
        burst: what it was.
        tokens: the last one of each sequence.
        counts: how many tokens each has drawn.
    """

    burst: _Burst
    tokens: list[int]
    counts: list[int]

    def leads_to(self, lines: Sequence[Line], tokens: Sequence[int]) -> bool:
        """Whether these lines are what the device has already, but for pages that came."""
        if len(lines) != len(self.counts) or tokens != self.tokens:
            return False
        for line, was, before, count in zip(
            lines, self.burst.lines, self.burst.before, self.counts, strict=True
        ):
            if (
                line.pages is not was.pages
                or line.start != was.start + count - before
                or line.limit != was.limit
                or line.slot != was.slot
            ):
                return False
        return True


def step_array(rows: int, sequences: int, logits: int, reach: int) -> Integers:
    """``step``: how many token rows, sequences and logit rows there are, and the most tokens that a
    sequence can come to have in KV."""
    # In the order of `abi.STEP_SYMBOLS`.
    return np.array([rows, sequences, logits, reach, *_UNNAMED], np.int32)


def row_arrays(lines: Sequence[Line], tokens: Sequence[int]) -> Arrays:
    """``tokens``, ``positions`` and ``row_seq`` of all lines' rows, one line after the other."""
    positions = [np.arange(line.start, line.start + line.rows, dtype=np.int32) for line in lines]
    counts = [line.rows for line in lines]
    return {
        "tokens": np.array(tokens, np.int32),
        "positions": np.concatenate(positions),
        "row_seq": np.repeat(np.arange(len(lines), dtype=np.int32), counts),
    }


def eos_array(tokens: Sequence[int]) -> Integers:
    """``eos``: the tokens that end a sequence.

    Raises:
        BundleError: ``bundle.eos`` for more than a program looks for.
    """
    if len(tokens) > abi.STOP_TOKENS:
        raise BundleError(f"The bundle names {len(tokens)} end tokens.", code="bundle.eos")
    eos = np.full(abi.STOP_TOKENS, abi.NO_TOKEN, np.int32)
    eos[: len(tokens)] = tokens
    return eos


def sampling_arrays(rows: Sequence[SamplingOf]) -> Arrays:
    """``sampling_f``, ``sampling_i`` and the biases of the first sequences of a step."""
    floats = np.zeros((len(rows), abi.SAMPLING_WIDTH), np.float32)
    ints = np.zeros((len(rows), abi.SAMPLING_WIDTH), np.uint32)
    biases = np.zeros((len(rows), 2, abi.MAX_BIASES), np.int32)
    for row, (p, seed, index) in enumerate(rows):
        floats[row, abi.TEMPERATURE] = 0.0 if p.greedy else p.temperature
        floats[row, [abi.TOP_P, abi.MIN_P]] = p.top_p, p.min_p
        floats[row, abi.REPETITION] = p.repetition_penalty
        floats[row, abi.PRESENCE] = p.presence_penalty
        floats[row, abi.FREQUENCY] = p.frequency_penalty
        count = len(p.logit_bias)
        ints[row, [abi.SEED_LOW, abi.SEED_HIGH]] = seed & 0xFFFFFFFF, seed >> 32
        ints[row, [abi.TOP_K, abi.BIASES]] = p.top_k, count
        ints[row, [abi.IGNORE_EOS, abi.SEQUENCE]] = p.ignore_eos, index
        biases[row, abi.BIAS_IDS, :count] = list(p.logit_bias)
        values = np.array(list(p.logit_bias.values()), np.float32)
        biases[row, abi.BIAS_VALUES, :count] = values.view(np.int32)
    return {"sampling_f": floats, "sampling_i": ints.view(np.int32), "biases": biases}


def counts_row(tokens: Sequence[int], prompt_len: int, vocab: int) -> Integers:
    """A row of ``counts``: int32 [vocab], twice the times drawn, plus 1 for a prompt's token.

    Args:
        tokens: ids of the prompt and of what has been drawn.
        prompt_len: how many of them are the prompt.
        vocab: how many ids there are.
    """
    ids = np.array(tokens, np.int64)
    counts = 2 * np.bincount(ids[prompt_len:], minlength=vocab).astype(np.int32)
    counts[ids[:prompt_len]] += 1
    return counts


class StepBuffers:
    """The step buffers of a loaded program.

    What a plan reads is written before it runs, so nothing depends on what ran before; but where a
    burst follows one of the same sequences, whose tokens were read, the device has it already.

    Attributes:
        rows, sequences: the most token rows and sequences of a step.
        pages: the most pages of a sequence.
    """

    def __init__(self, program: LoadedProgram, end_tokens: Sequence[int]) -> None:
        """Raises BundleError ``bundle.eos`` or ``bundle.buffer``."""
        model = program.bundle.model
        self.rows = model.prefill_chunk
        self.sequences = model.max_batch
        self._program = program
        self._vocab = model.vocab
        self._context = model.context
        self._table = TableRows(program)
        groups = len(program.bundle.manifest.state_groups)
        self._tables = [self._table, *(TableRows(program, group) for group in range(1, groups))]
        self.pages = self._table.pages
        self._burst: _Burst | None = None
        self._ahead: _Ahead | None = None
        self._sampling: tuple[list[SamplingOf], list[bool]] = ([], [])
        self._masks: dict[int, Mask] = {}  # by row
        program.write("eos", eos_array(end_tokens))

    def compute(
        self, lines: Sequence[Line], tokens: Sequence[int], *, reach: int, logits: int = 0
    ) -> None:
        """Make tokens of sequences the step's rows.

        Args:
            tokens: of all lines, one after the other.
            reach: the most tokens that a sequence can come to have in KV.
            logits: of how many of the first rows logits are wanted in the same plan, which draws
                from them: of all, one for each line; or 0.
        """
        ahead, self._ahead, self._burst = self._ahead, None, None
        self._step(len(tokens), len(lines), logits, reach)
        if logits and ahead is not None and ahead.leads_to(lines, tokens):
            for table in self._tables:
                table.go_on(lines)
            self._burst = _Burst(lines, ahead.counts)
            return
        for name, array in row_arrays(lines, tokens).items():
            self._program.write(name, array)
        if logits:
            self._program.write("logit_rows", np.arange(logits, dtype=np.int32))
            self._burst = _Burst(lines, [0] * len(lines))
        for table in self._tables:
            table.begin(lines)

    def logit_rows(self, rows: Sequence[int]) -> None:
        """Ask for the logits of these rows of the step just run."""
        self._program.write("step", np.array([len(rows)], np.int32), abi.LOGIT_ROWS)
        self._program.write("logit_rows", np.array(rows, np.int32))

    def draw(self, lines: Sequence[Line]) -> None:
        """Make the rows of ``logits`` ready to be drawn from: a line each, of one row, whose
        `start` is the place of the token that is drawn."""
        count = len(lines)
        self._ahead = self._burst = None
        self._step(count, count, count, max(line.start for line in lines))
        self._table.begin(lines, pages=False)

    def recount(self, rows: int) -> None:
        """Say again how many rows there are, which a burst that has ended may have taken back."""
        self._step(rows, rows, rows, 1)

    def sampling(self, rows: Sequence[SamplingOf], masks: Sequence[Mask | None] = ()) -> None:
        """Say how each sequence is sampled, unless that was the last that was said, and which
        tokens may be: all, or those of a mask."""
        masked = [mask is not None for mask in masks] or [False] * len(rows)
        for row, mask in enumerate(masks):
            if mask is not None and mask is not self._masks.get(row):
                self._program.write("grammar_mask", mask.view(np.int32), row * len(mask))
                self._masks[row] = mask
        if self._sampling == (list(rows), masked):
            return
        self._sampling = (list(rows), masked)
        biased = any(params.logit_bias for params, _, _ in rows)
        arrays = sampling_arrays(rows)
        arrays["sampling_i"][:, abi.MASKED] = masked
        for name, array in arrays.items():
            if biased or not name.startswith("bias"):
                self._program.write(name, array)

    def counts(self, slot: int, tokens: Sequence[int], prompt_len: int) -> None:
        """Say which tokens a sequence has had, on which penalties depend; see `counts_row`."""
        counts = counts_row(tokens, prompt_len, self._vocab)
        self._program.write("counts", counts, slot * self._vocab)

    def drawn(self, count: int) -> list[list[int]]:
        """Return the tokens that the last burst drew for each of the first `count` sequences."""
        counts, going = self._table.drawn(count)
        ring = self._program.read("ring", slice(0, count))
        burst, self._burst = self._burst, None
        if burst is None:
            return [_drawn(row, 0, until) for row, until in zip(ring, counts, strict=True)]
        tokens = list(map(_drawn, ring, burst.before, counts))
        if going and count == len(burst.lines) and all(tokens):
            self._ahead = _Ahead(burst, [drawn[-1] for drawn in tokens], counts)
        return tokens

    def _step(self, rows: int, sequences: int, logits: int, reach: int) -> None:
        step = step_array(rows, sequences, logits, min(reach, self._context))
        self._program.write("step", step)


def _drawn(row: Integers, first: int, until: int) -> list[int]:
    """Tokens `first` to `until` of those that went round in a row of ``ring``."""
    start = first % abi.RING
    end = start + until - first
    tokens: list[int] = row[start:end].tolist()
    if end > abi.RING:
        tokens += row[: end - abi.RING].tolist()
    return tokens
