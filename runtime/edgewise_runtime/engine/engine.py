"""The generation engine: steps that serve all requests together."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from collections.abc import Sequence as Rows
from functools import partial
from time import perf_counter

import numpy as np
import numpy.typing as npt

from edgewise_runtime.devices.base import LoadedProgram
from edgewise_runtime.engine.account import Account
from edgewise_runtime.engine.checks import check_ids, check_prompt
from edgewise_runtime.engine.config import EngineOptions, step_limits
from edgewise_runtime.engine.drafting import Drafting
from edgewise_runtime.engine.faults import (
    find_fault,
    from_fault,
    not_finite,
    sound_rows,
    states_not_finite,
)
from edgewise_runtime.engine.logprobs import check_logprobs
from edgewise_runtime.engine.pins import Pins
from edgewise_runtime.engine.pooling import check_states
from edgewise_runtime.engine.runner import Drawn, Runner
from edgewise_runtime.engine.sampling import SamplingParams
from edgewise_runtime.engine.scheduler import Scheduler
from edgewise_runtime.engine.sequence import Piece, Request, Sequence
from edgewise_runtime.engine.step import Step
from edgewise_runtime.errors import DeviceError, EdgewiseError, EngineError
from edgewise_runtime.format.state import footprint, paged_state
from edgewise_runtime.kv.base import KvMemory, Prefix
from edgewise_runtime.kv.finite import PageNumbers
from edgewise_runtime.kv.holding import Holding
from edgewise_runtime.kv.keys import KeyChain, root_key
from edgewise_runtime.kv.memory import PageMemory
from edgewise_runtime.kv.stored import Elsewhere
from edgewise_runtime.kv.windowed import WindowedMemory
from edgewise_runtime.text import Tokenizer

GONE = ("device.lost", "device.closed")
"""Codes of errors after which nothing goes on."""


class GenerationEngine:
    """Runs requests on one loaded program, as many together as the program's batch allows.

    A sequence's tokens depend on its request and seed only: not on what runs beside it, where its
    prompt was cut, which prefix was found, or (where decode and prefill agree to the bit) whether
    it was interrupted.

    One thread at a time.
    """

    def __init__(
        self,
        program: LoadedProgram,
        tokenizer: Tokenizer,
        *,
        pages: int,
        context: int,
        options: EngineOptions | None = None,
    ) -> None:
        """Use `pages` pages of the program for sequences of at most `context` tokens.

        Raises:
            InputError: ``input.step_tokens`` for a budget smaller than the program's batch.
        """
        options = options or EngineOptions()
        self._footprint = footprint(program.bundle.manifest)
        self.context = self._footprint.tokens(pages, context)
        self.metrics = options.metrics
        self._program = program
        self._tokenizer = tokenizer
        self._store = options.store
        self._runner = Runner(program)
        self._agrees = program.program.decode_agrees
        self._memory = self._memory_of(pages, options)
        memory, size = self._memory, program.page_bytes
        self.metrics.kept = lambda: (memory.idle * size, memory.keep * size)
        self._pace = options.pace
        self._root = root = root_key(program.bundle, program.program)
        self._scheduler = Scheduler(
            self._memory,
            step_limits(self._runner, options),
            options.pace,
            root,
        )
        self._account = Account(options.metrics, self._scheduler, self._memory)
        self._drafting = Drafting(options.drafter, self._memory, self._scheduler.limits)
        self._pins = Pins(self._memory, root)

    def _memory_of(self, pages: int, options: EngineOptions) -> KvMemory:
        program, sizes = self._program, self._footprint
        manifest, dtype = program.bundle.manifest, program.program.state_dtype
        whole = paged_state(manifest)
        numbers = [PageNumbers(group, dtype, whole) for group in manifest.state_groups]
        elsewhere = Elsewhere(
            program,
            options.store,
            options.shipped,
            own=lambda group, state: numbers[group].own(state),
            moved=lambda spilled, restored: self.metrics.on_pages_moved(
                spilled=spilled, restored=restored
            ),
        )
        inexact = options.share_decoded or self._agrees
        keep = None if options.kept_bytes is None else options.kept_bytes // program.page_bytes
        if sizes.bounded:
            return WindowedMemory(elsewhere, pages, footprint=sizes, inexact=inexact, keep=keep)
        return PageMemory(
            elsewhere, pages, page_tokens=sizes.page_tokens, inexact=inexact, keep=keep
        )

    @property
    def budget(self) -> int:
        """The most tokens a step computes."""
        return self._scheduler.limits.tokens

    @property
    def places(self) -> int:
        """The most sequences that are computed at once."""
        return self._scheduler.limits.sequences

    @property
    def busy(self) -> bool:
        """Whether anything runs or waits."""
        return bool(self._scheduler.running or self._scheduler.waiting)

    def sequences(self, request: Request) -> list[Sequence]:
        """Return the fresh sequences of a request, checked: one for each of its choices.

        Raises InputError ``input.empty``, ``input.context``, ``input.token`` or ``input.sampling``
        (too many biases together with the end tokens that `min_tokens` keeps from coming), and
        BundleError ``bundle.entry`` where log-probabilities or hidden states are asked of a program
        that has none.
        """
        vocab = self._program.bundle.model.vocab
        room = min(request.params.max_tokens, 1)
        check_prompt(request.prompt, vocab=vocab, context=self.context, room=room)
        check_ids(request.params.logit_bias, "logit_bias", vocab)
        check_ids(request.params.stop_token_ids, "stop_token_ids", vocab)
        if request.params.logprobs:
            check_logprobs(self._program)
        if request.pooling is not None:
            check_states(self._program)
        eos = self._program.bundle.model.eos
        made: list[Sequence] = []
        for index in range(request.params.n):
            leader = made[0] if made else None
            sequence = Sequence(
                request, self._tokenizer, eos, self.context, index=index, leader=leader
            )
            made.append(sequence)
        return made

    def sequence(self, request: Request) -> Sequence:
        """Return the first sequence of a request; see `sequences`."""
        return self.sequences(request)[0]

    def submit(self, sequences: Iterable[Sequence]) -> None:
        """Let the sequences of a request wait for their turn.

        Raises EngineError ``engine.busy``.
        """
        arriving = list(sequences)
        self._scheduler.submit(arriving)
        self._pins.expect(arriving)
        self._account.queued(arriving)
        if any(sequence.ended for sequence in arriving):
            self.settle()  # nothing may follow what has begun

    def check_room(self, arriving: int) -> None:
        """Refuse so many more sequences than may wait; any thread may ask.

        Raises EngineError ``engine.busy``.
        """
        self._scheduler.check_room(arriving)

    def step(self) -> list[tuple[Sequence, Piece]]:
        """Compute the next tokens of whoever is due; return what each sequence of them got.

        Where the device fails, the requests concerned end with its error, and the engine goes on.

        Raises:
            DeviceError: the device is lost or closed; everything has ended with that error.
        """
        started = perf_counter()
        watched = [*self._scheduler.running, *self._scheduler.waiting]
        said: list[tuple[Sequence, Piece]] = []
        try:
            step = self._scheduler.next_step(started)
            self._account.moved(started)
            for sequence in self._scheduler.preempted:
                self._drafting.forget(sequence)
            if step is not None:
                said = self._run(step, started)
                self._memory.tidy()
        except EdgewiseError as error:
            # The first that waits, if none runs: the error would be met again and again.
            self._fail(error, self._scheduler.running or self._scheduler.waiting[:1])
            if error.code in GONE:
                raise
        finally:
            self._pins.settle()
            self._scheduler.retire_ended(perf_counter())
            for sequence in watched:
                if sequence.ended:
                    self._finish(sequence)
        if said:
            # What was read came after all that the device was handed before.
            self._memory.settle()
        return said

    def run(self, sequences: Rows[Sequence]) -> Generator[tuple[Sequence, str], None, None]:
        """Generate for all sequences; yield each with its next piece of text, perhaps empty.

        Closing the iterator cancels what is unfinished.
        """
        try:
            self.submit(s for s in sequences if not s.ended)
            while not all(sequence.ended for sequence in sequences):
                for sequence, piece in self.step():
                    yield sequence, piece.text
        finally:
            for sequence in sequences:
                sequence.cancelled = True
            self.settle()
        for sequence in sequences:
            if sequence.failure is not None:
                raise sequence.failure

    def settle(self) -> None:
        """Let go of what has been cancelled, without computing anything."""
        watched = [*self._scheduler.running, *self._scheduler.waiting]
        self._scheduler.retire_ended(perf_counter())
        for sequence in watched:
            if sequence.ended:
                self._finish(sequence)

    def fail_all(self, error: EdgewiseError) -> None:
        """End everything with an error."""
        ending = [*self._scheduler.running, *self._scheduler.waiting]
        for sequence in ending:
            sequence.fail(error)
        try:
            self._scheduler.retire_ended(perf_counter())
        finally:
            # Whatever else is wrong: nobody waits for ever.
            for sequence in ending:
                self._finish(sequence)

    def score(self, tokens: Rows[int]) -> npt.NDArray[np.float32]:
        """Return the logits after every token: float32 [len(tokens), vocab].

        Row i is what the model says about token i + 1. Where the device fails, those that run end
        with its error too: it may be about what was computed for them before.

        Raises InputError as `sequences` does, and EngineError ``engine.memory`` where requests hold
        all pages, ``engine.not_finite`` where logits are not finite.
        """
        vocab = self._program.bundle.model.vocab
        check_prompt(tokens, vocab=vocab, context=self.context, room=0)
        params = SamplingParams(max_tokens=1)
        scored = Sequence(Request(tuple(tokens), params), self._tokenizer, (), self.context)
        logits = np.empty((len(tokens), vocab), np.float32)
        try:
            # From an empty prefix: every row is computed.
            # Where pages are given back behind a window, the others come as it is computed.
            later = self._footprint.bounded
            scored.holding = self._memory.acquire(
                scored.chain, tokens[:1], len(tokens), later=later
            )
            if scored.holding is not None:
                self._score(scored, scored.holding, logits)
        except DeviceError as error:
            self._fail(error, self._scheduler.running)
            self.settle()
            raise
        if scored.holding is None:
            raise _no_room(len(tokens))
        return logits

    def pin(self, tokens: Rows[int], extras: tuple[str, ...] = ()) -> Sequence:
        """Keep a prefix on the device: return the sequence that computes it, to be submitted.

        Its full pages stay until `unpin`, for requests of these `extras`. Raises InputError as
        `sequences` does.
        """
        params = SamplingParams(max_tokens=1, temperature=0.0, ignore_eos=True)
        return self.sequence(Request(tuple(tokens), params, extras=extras, pin=True))

    def pinned(self, tokens: Rows[int], extras: tuple[str, ...] = ()) -> int:
        """Pin what has been computed of a prefix; return for how many tokens it is there."""
        return self._pins.pin(tokens, extras)

    def unpin(self, tokens: Rows[int], extras: tuple[str, ...] = ()) -> None:
        """Let a prefix go when its room is needed."""
        self._pins.unpin(tokens, extras)

    def pages_of(self, tokens: Rows[int]) -> Prefix:
        """The full pages on the device that hold a prefix and that prefill has written, as stores
        keep them: those with which sequences go on that begin so.

        Raises EngineError ``engine.not_finite`` where one holds what is not finite.
        """
        return self._memory.read(KeyChain(self._root), tokens)

    def tidy(self) -> bool:
        """Let some pages go that are more than may be kept; whether there are still more.

        For when there is nothing else to do. Raises DeviceError where the device is lost.
        """
        try:
            return self._memory.tidy()
        except DeviceError as error:
            self._fail(error, ())
            if error.code in GONE:
                raise
            return False

    def forget(self) -> None:
        """Drop all prefixes that are kept and not pinned."""
        self._memory.forget()

    def close(self) -> None:
        """Cancel everything, store the prefixes, and close what the options have brought.

        The program stays open. Closing twice is fine.
        """
        for sequence in [*self._scheduler.running, *self._scheduler.waiting]:
            sequence.cancelled = True
        self.settle()
        self._drafting.close()
        self._runner.close()
        if self._store is not None:
            store, self._store = self._store, None
            try:
                self._memory.flush()
            except DeviceError:
                pass  # A device that is lost has nothing left to store.
            finally:
                store.close()

    def check(self) -> list[str]:
        """What is inconsistent about pages, slots and queues, as sentences; empty if sound."""
        return self._scheduler.check()

    def _score(self, scored: Sequence, holding: Holding, logits: npt.NDArray[np.float32]) -> None:
        """Compute all logits of a sequence, whose pages are given back whatever happens."""
        try:
            for first, rows in self._runner.logits(scored, partial(self._grow, holding)):
                logits[first : first + len(rows)] = rows
                if (sound := sound_rows(rows)) < len(rows):
                    fault = find_fault(self._program, holding, first + sound + 1)
                    raise not_finite(self._program.program, fault, first + sound + 1)
        finally:
            self._memory.discard(holding)

    def _grow(self, holding: Holding, start: int, tokens: int) -> None:
        """Make room for the tokens that a chunk ends with, which begins at `start`."""
        holding.written = start
        if not self._memory.grow(holding, tokens):
            raise _no_room(tokens)

    def _run(self, step: Step, started: float) -> list[tuple[Sequence, Piece]]:
        begun = perf_counter()
        drafts = self._drafting.drafts(step, self._scheduler)
        plain = [s for s in step.decodes if s not in drafts]
        burst = 1 if drafts else step.burst
        drawn = self._compute(step, drafts, plain, burst)
        seconds = perf_counter() - begun
        for chunk in step.chunks:
            if chunk.start < chunk.sequence.prompt_len:
                chunk.sequence.prefill_s += seconds
            else:
                chunk.sequence.decode_s += seconds
            self._scheduler.computed(chunk.sequence, chunk.start + chunk.count, prefilled=True)
            if chunk.last and chunk.sequence.wants_none:
                self._check_pooled(chunk.sequence)
                chunk.sequence.end("length")
        for sequence in step.decodes:
            sequence.bursts += 1
            sequence.decode_s += seconds
        said = [self._accept(one) for one in drawn if one.tokens and not one.sequence.ended]
        decoded = set(plain)
        for sequence, _ in said:
            computed = len(sequence.known) - 1
            self._scheduler.computed(sequence, computed, prefilled=sequence not in decoded)
        for sequence, draft in drafts.items():
            right = next(len(one.tokens) - one.sound for one in drawn if one.sequence is sequence)
            self._drafting.observe(sequence, draft, right)
            self._account.drafted(sequence, len(draft), right)
        self._pace.observe(step.prefill_tokens, len(step.decodes), seconds / max(burst, 1))
        for one in drawn:
            if not one.sound and not one.sequence.ended:
                self._spoil(one.sequence)
        self._account.stepped(step, drafts, burst, started)
        forced = [(sequence, self._forced(sequence)) for sequence, _ in said]
        for sequence, piece in forced:
            if piece is not None:
                self._account.took(sequence, piece)
                said.append((sequence, piece))
        return said

    def _compute(
        self,
        step: Step,
        drafts: Mapping[Sequence, tuple[int, ...]],
        plain: Rows[Sequence],
        burst: int,
    ) -> list[Drawn]:
        """Run the plans of a step; what they drew."""
        if step.chunks and self._agrees:
            return self._runner.prefill(step.chunks, plain)
        drawn = self._runner.prefill(step.chunks) if step.chunks else []
        drawn += self._runner.verify(drafts) if drafts else []
        drawn += self._runner.decode(plain, burst) if plain else []
        return drawn

    def _accept(self, drawn: Drawn) -> tuple[Sequence, Piece]:
        sequence = drawn.sequence
        piece = sequence.accept(drawn.tokens, drawn.logprobs, burst=drawn.burst)
        self._account.took(sequence, piece)
        return sequence, piece

    def _forced(self, sequence: Sequence) -> Piece | None:
        """Let a sequence take the tokens that must come next; None where there are none."""
        try:
            return sequence.force()
        except EdgewiseError as error:
            sequence.fail(error)
            return None

    def _spoil(self, sequence: Sequence) -> None:
        """End a sequence whose logits are not finite; nobody else is given its pages."""
        fault = find_fault(self._program, sequence.holding, len(sequence.known))
        if fault is not None:
            self._memory.withdraw(from_fault(sequence.holding, fault))
        sequence.fail(not_finite(self._program.program, fault, len(sequence.known)))

    def _check_pooled(self, sequence: Sequence) -> None:
        """Fail a sequence whose hidden states are not finite."""
        if sequence.pooled is not None and not sequence.pooled.finite:
            fault = find_fault(self._program, sequence.holding, len(sequence.known))
            sequence.fail(states_not_finite(self._program.program, fault))

    def _fail(self, error: EdgewiseError, concerned: Iterable[Sequence]) -> None:
        """End those concerned, or everything where the device is gone."""
        self._memory.distrust()
        if error.code in GONE:
            concerned = [*self._scheduler.running, *self._scheduler.waiting]
        for sequence in list(concerned):
            sequence.fail(error)

    def _finish(self, sequence: Sequence) -> None:
        self._drafting.forget(sequence)
        self._account.ended(sequence)
        sequence.on_end()


def _no_room(tokens: int) -> EngineError:
    return EngineError(
        f"The pages for {tokens:,} tokens to score are in use.",
        remedy="Score when fewer requests run.",
        code="engine.memory",
    )
