"""The generation loop: prompts in chunks, then bursts of tokens for all running sequences."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from collections.abc import Sequence as Rows
from time import perf_counter

import numpy as np
import numpy.typing as npt

from edgewise_runtime.devices.base import LoadedProgram
from edgewise_runtime.engine.batch import Batch, plan_for
from edgewise_runtime.engine.sampling import SamplingParams
from edgewise_runtime.engine.sequence import Request, Sequence
from edgewise_runtime.errors import InputError
from edgewise_runtime.kv.pages import PAGE_TOKENS, PagePool, pages_for
from edgewise_runtime.text import Tokenizer

MAX_BURST = 8


class GenerationEngine:
    """Runs requests on one loaded program, as many together as the program's batch allows.

    A prompt enters when there is a free row and enough free pages for it and all it may generate,
    so nothing ever runs out of memory on the way. Prompts are prefilled one after the other;
    running sequences decode together. A sequence's tokens do not depend on its company.

    One thread at a time.
    """

    def __init__(
        self, program: LoadedProgram, tokenizer: Tokenizer, *, pages: int, context: int
    ) -> None:
        """Use `pages` pages of the program for sequences of at most `context` tokens."""
        self.context = min(context, pages * PAGE_TOKENS)
        self._program = program
        self._tokenizer = tokenizer
        self._batch = Batch(program)
        self._pool = PagePool(pages)
        self._slots = list(range(self._batch.sequences))

    def sequence(self, request: Request) -> Sequence:
        """Return the fresh sequence of a request, checked.

        Raises InputError ``input.empty``, ``input.context`` or ``input.token``.
        """
        self._check(request.prompt, room=1)
        self._check_ids(request.params.logit_bias, "logit_bias")
        self._check_ids(request.params.stop_token_ids, "stop_token_ids")
        eos = self._program.bundle.model.eos
        return Sequence(request, self._tokenizer, eos, self.context)

    def run(self, sequences: Rows[Sequence]) -> Iterator[tuple[Sequence, str]]:
        """Generate for all sequences; yield each with its next piece of text, perhaps empty.

        Closing the iterator cancels what is unfinished; a sequence cancelled by another thread
        ends with its present burst.
        """
        waiting, running = deque(self._unfinished(sequences)), list[Sequence]()
        try:
            while waiting or running:
                while waiting and self._admit(waiting[0]):
                    sequence = waiting.popleft()
                    text = self._prefill(sequence)
                    running = self._unfinished([*running, sequence])
                    yield sequence, text
                if running:
                    pieces = self._burst(running, waiting=bool(waiting))
                    rows, running = running, self._unfinished(running)
                    yield from zip(rows, pieces, strict=True)
        finally:
            for sequence in sequences:
                sequence.cancel()
                self._release(sequence)

    def score(self, tokens: Rows[int]) -> npt.NDArray[np.float32]:
        """Return the logits after every token: float32 [len(tokens), vocab].

        Row i is what the model says about token i + 1. Raises InputError as `sequence` does.
        """
        self._check(tokens, room=0)
        scored = Sequence(
            Request(tuple(tokens), SamplingParams(max_tokens=1)), self._tokenizer, (), self.context
        )
        vocab, most = self._program.bundle.model.vocab, self._batch.sequences
        logits = np.empty((len(tokens), vocab), np.float32)
        scored.pages = self._pool.allocate(pages_for(len(tokens)))
        try:
            for start, count in self._chunks(scored):
                for first in range(0, count, most):
                    rows = min(most, count - first)
                    self._batch.logit_rows(first, rows)
                    self._call("logits", r=rows)
                    read = self._program.read("logits", slice(0, rows))
                    logits[start + first : start + first + rows] = read[:, :vocab]
        finally:
            self._release(scored)
        return logits

    def _admit(self, sequence: Sequence) -> bool:
        """Give a sequence its slot and pages, if they are free."""
        needed = pages_for(len(sequence.prompt) + sequence.max_tokens)
        if not self._slots or self._pool.free < needed:
            return False
        sequence.slot = self._slots.pop(0)
        sequence.pages = self._pool.allocate(needed)
        return True

    def _unfinished(self, sequences: Rows[Sequence]) -> list[Sequence]:
        """Return those that go on; the others give back what they hold."""
        unfinished = []
        for sequence in sequences:
            if sequence.finish_reason is None:
                unfinished.append(sequence)
            else:
                self._release(sequence)
        return unfinished

    def _release(self, sequence: Sequence) -> None:
        if sequence.slot >= 0:
            self._slots.append(sequence.slot)
            sequence.slot = -1
        if sequence.pages:
            self._pool.release(sequence.pages)
            sequence.pages = []

    def _prefill(self, sequence: Sequence) -> str:
        start, row = perf_counter(), 0
        for _, count in self._chunks(sequence):
            row = count - 1
        self._batch.logit_rows(row, 1)
        self._call("logits", r=1)
        self._batch.first_token(sequence)
        self._call("sample", b=1)
        text = sequence.accept(self._batch.sampled(1)[0])
        sequence.prefill_s = perf_counter() - start
        return text

    def _chunks(self, sequence: Sequence) -> Iterator[tuple[int, int]]:
        """Prefill a prompt; yield start and length of each chunk while its rows are in `x`."""
        length = len(sequence.prompt)
        for start in range(0, length, self._batch.rows):
            count = min(self._batch.rows, length - start)
            self._batch.prefill(sequence, start, count)
            self._call("embed", n=count)
            self._call("prefill", n=count, b=1)
            yield start, count

    def _burst(self, running: list[Sequence], *, waiting: bool) -> list[str]:
        """Decode a few tokens for every running sequence; return the text of each."""
        start, size = perf_counter(), _burst_size(running, waiting=waiting)
        self._batch.decode(running, size)
        self._batch.sampling(running)
        self._call("decode", k=size, b=len(running))
        sampled = self._batch.sampled(len(running))
        pieces = [s.accept(tokens) for s, tokens in zip(running, sampled, strict=True)]
        seconds = perf_counter() - start
        for sequence in running:
            sequence.bursts += 1
            sequence.decode_s += seconds
        return pieces

    def _call(self, operation: str, k: int = 1, **symbols: int) -> None:
        self._program.run(plan_for(self._program, operation, **symbols), k)

    def _check(self, prompt: Rows[int], *, room: int) -> None:
        if not prompt:
            raise InputError(
                "The prompt is empty: there is no token to go on from.",
                remedy="Pass at least one token of text.",
                code="input.empty",
            )
        if len(prompt) + room > self.context:
            raise InputError(
                f"The prompt has {len(prompt):,} tokens; the context holds {self.context:,}"
                + (f", of which {room} must be left for the answer." if room else "."),
                remedy="Shorten the prompt, or compile the model with a larger --context.",
                code="input.context",
            )
        self._check_ids(prompt, "the prompt")

    def _check_ids(self, ids: Iterable[int], where: str) -> None:
        vocab = self._program.bundle.model.vocab
        for token in ids:
            if isinstance(token, bool) or not isinstance(token, int) or not 0 <= token < vocab:
                raise InputError(
                    f"{token!r} in {where} is not a token id of this model, which has 0 to "
                    f"{vocab - 1}.",
                    code="input.token",
                )


def _burst_size(running: list[Sequence], *, waiting: bool) -> int:
    """Return how many tokens to decode before the host looks at them.

    Bursts grow from one token, so that the first ones appear at once. They stay at one where the
    host decides about the end, and end with the first sequence where another waits for its row.
    """
    if any(sequence.stopped_by_host for sequence in running):
        return 1
    remaining = [sequence.remaining for sequence in running]
    most = min(remaining) if waiting else max(remaining)
    youngest = min(sequence.bursts for sequence in running)
    return min(MAX_BURST, 1 << min(youngest, MAX_BURST), most)
