"""Who waits, who runs, and what the next step computes. Only bookkeeping: no device, no clock.

Iteration-level scheduling (Yu et al., "Orca: A Distributed Serving System for Transformer-Based
Generative Models", OSDI 2022) with prompts in chunks beside the tokens of those that run (Agrawal
et al., "Taming Throughput-Latency Tradeoff in LLM Inference with Sarathi-Serve", OSDI 2024). Pages
are given as sequences grow; where there are none left, the last to have come gives up its own and
is computed again later.

Nobody waits behind a long prompt: others are given places, and a part of each step, while it is
computed (`shares`), while one waits for what another computes (`awaiting`), and while there is no
room for one, as long as that does not cost it its turn (`turn`).
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable

from edgewise_runtime.engine.awaiting import Awaited, leader_of, still_awaits
from edgewise_runtime.engine.pace import LONGEST_BURST, MAX_BURST, MIN_CHUNK, Pace
from edgewise_runtime.engine.sequence import Sequence
from edgewise_runtime.engine.shares import Line, charge, shares
from edgewise_runtime.engine.step import Chunk, Limits, Step
from edgewise_runtime.engine.turn import SHORT, missing, order, passed_by
from edgewise_runtime.errors import EngineError
from edgewise_runtime.kv.base import KvMemory
from edgewise_runtime.kv.keys import KeyChain, salted

APART = 3
"""Of so many steps beside streams one has tokens of short prompts that the pace leaves none for."""


class Scheduler:
    """Sequences move from `waiting` to `running` and out when they have ended, or back again."""

    def __init__(self, memory: KvMemory, limits: Limits, pace: Pace, root: bytes) -> None:
        self.memory = memory
        self.limits = limits
        self.pace = pace
        self.waiting: list[Sequence] = []
        self.running: list[Sequence] = []
        self.preempted: list[Sequence] = []
        """Those whose pages were taken since `next_step` was last called."""
        self.started: list[Sequence] = []
        """Those that were given pages since then."""
        self._root = root
        self._slots = list(range(limits.sequences))
        self._arrivals = 0
        self._since = APART

    def submit(self, sequences: Iterable[Sequence]) -> None:
        """Let the choices of a request wait for their turn; raises as `check_room` does."""
        arriving = list(sequences)
        self.check_room(len(arriving))
        for sequence in arriving:
            self._arrivals += 1
            sequence.arrival = self._arrivals
            sequence.chain = KeyChain(salted(self._root, sequence.request.extras))
            insort(self.waiting, sequence, key=order)

    def check_room(self, arriving: int) -> None:
        """Refuse so many more sequences where too many would wait for a free slot.

        Raises EngineError ``engine.busy``.
        """
        free, waiting = len(self._slots), len(self.waiting)
        if waiting + arriving > self.limits.waiting + free:
            raise EngineError(
                f"{waiting:,} requests are waiting already, {self.limits.waiting:,} may; there is "
                f"no room for {arriving:,} more.",
                remedy="Try again when some of them are done, or allow more with max_waiting.",
                code="engine.busy",
            )

    def next_step(self, now: float) -> Step | None:
        """Choose what to compute, and give it pages; None where there is nothing to do.

        Args:
            now: seconds of the clock that deadlines are on.
        """
        self.preempted, self.started = [], []
        self.retire_ended(now)
        self._admit()
        self._age()
        decodes = [s for s in self.running if s.decoding]
        chunks = self._chunks(decodes)
        burst = self._burst([s for s in decodes if s.holding is not None], chunks)
        decodes = self._reserve(decodes, burst)
        chunks = [chunk for chunk in chunks if chunk.sequence.holding is not None]
        if not chunks and not decodes:
            # Those who gave up their pages for others wait; somebody always runs.
            return None
        return Step(tuple(chunks), tuple(decodes), burst if decodes else 0)

    def retire_ended(self, now: float) -> None:
        """Take pages and slots from sequences that have ended, or that must."""
        for sequence in [*self.running, *self.waiting]:
            if sequence.cancelled:
                sequence.end("cancelled")
            elif sequence.deadline is not None and now >= sequence.deadline:
                sequence.end("timeout")
            elif sequence.rewound and sequence.holding is not None:
                self.preempt(sequence)
        for sequence in [s for s in self.running if s.ended]:
            self._release(sequence, keep=sequence.failure is None)
        for sequence in (ended := [s for s in self.waiting if s.ended]):
            sequence.turn.awaits = None
        if ended:
            self.waiting = [s for s in self.waiting if not s.ended]

    def preempt(self, sequence: Sequence) -> None:
        """Take a running sequence's pages; it waits, and is computed again from what is kept."""
        self._release(sequence, keep=True)
        self.preempted.append(sequence)
        insort(self.waiting, sequence, key=order)

    def computed(self, sequence: Sequence, computed: int, *, prefilled: bool) -> None:
        """Note that a sequence has this many tokens in its pages.

        Args:
            prefilled: whether prefill has written the new ones.
        """
        if prefilled and sequence.exact == sequence.computed:
            sequence.exact = computed
        sequence.computed = computed
        if sequence.holding is not None and sequence.pooled is not None:
            sequence.holding.written = computed
        elif sequence.holding is not None and not sequence.rewound:
            written = min(computed, len(sequence.known))
            sequence.exact = self.memory.publish(
                sequence.holding, sequence.known, written, sequence.exact
            )

    def check(self) -> list[str]:
        """What is inconsistent, as sentences; empty where all is sound."""
        problems = self.memory.check(s.holding for s in self.running if s.holding is not None)
        slots = sorted([*self._slots, *(s.slot for s in self.running)])
        if slots != list(range(self.limits.sequences)):
            problems.append(f"The slots are {slots}.")
        for sequence in self.running:
            if sequence.holding is None or self.memory.room(sequence.holding) < sequence.computed:
                problems.append(f"A sequence with {sequence.computed} tokens has too few pages.")
            if sequence.turn.lets_pass < 0:
                problems.append(f"A prompt has let {sequence.turn.yielded} tokens pass.")
        for sequence in self.waiting:
            if sequence.holding is not None or sequence.slot != -1 or sequence.computed:
                problems.append("A sequence that waits holds pages.")
        if self.waiting != sorted(self.waiting, key=order):
            problems.append("Those that wait are out of order.")
        return problems

    def _admit(self) -> None:
        """Give slots to those that wait, in their order, as far as there is room for them.

        Not before there is something to do for them: until then, others may compute what they
        can share. Who has to wait lets those behind it go first; but where it waits for room, only
        where there will be room for it, too, when those before it have ended.
        """
        if not self.waiting:
            return
        prompts = [s for s in self.running if s.prefilling]
        line = Line(prompts, self.limits.rows, streams=len(prompts) < len(self.running))
        awaited = Awaited(line, self.memory)
        beside: int | None = None
        for sequence in list(self.waiting):
            if not self._slots or (beside is not None and beside <= 0):
                return
            if still_awaits(sequence):
                continue
            line.ask(sequence)
            if awaited.by(sequence) or not line.lets(self._lacking(sequence)):
                continue
            pages = self._pages_at_most(sequence)
            if beside is not None and pages > beside:
                continue
            if self._start(sequence):
                line.join(sequence)
                awaited.add(sequence)
                beside = None if beside is None else beside - pages
            elif beside is not None:
                return
            elif not sequence.ended:
                beside = self._beside(sequence)

    def _age(self) -> None:
        """Some have begun: the turn of those that they have passed may have come."""
        for sequence in self.started:
            prompts = [s for s in self.running if s.prefilling]
            if passed_by(sequence, [*self.waiting, *prompts]) is not None:
                self.waiting.sort(key=order)

    def _start(self, sequence: Sequence) -> bool:
        """Give a sequence its slot and what is known of it; the other pages come as it grows."""
        leader = leader_of(sequence)
        total = len(sequence.known) + (not sequence.wants_none)
        shared = sequence.prompt_len - 1
        led = None if leader is None else leader.holding
        if leader is not None and led is not None and self.memory.can_fork(led, shared):
            exact = min(leader.exact, shared)
            holding = self.memory.fork(led, shared, total, exact=exact)
        else:
            # Room for all that those who run are still to compute, and a page more for each, so
            # that nobody has to be thrown out soon.
            promised = sum(self._promised(s) for s in self.running) + len(self.running)
            # A first token is never found: all of those are computed whose states are asked for.
            known = sequence.known if sequence.pooled is None else sequence.known[:1]
            holding = self.memory.acquire(sequence.chain, known, total, spare=promised, later=True)
        if holding is None:
            if not self.running:
                self.waiting.remove(sequence)
                sequence.fail(_too_large(sequence, len(self.memory)))
            return False
        self.waiting.remove(sequence)
        self.running.append(sequence)
        self.started.append(sequence)
        sequence.slot = self._slots.pop(0)
        sequence.holding = holding
        sequence.computed = holding.found.total
        sequence.exact = holding.found.exact
        sequence.rewound = False
        sequence.turn.begin(missing(sequence))
        return True

    def _lacking(self, sequence: Sequence) -> int:
        """Tokens that one that waits would have to compute, if it began now."""
        return len(sequence.known) - sequence.turn.found * self.memory.page_tokens

    def _beside(self, first: Sequence) -> int:
        """Pages for those that may go before one for which there is no room.

        What is left beside it, if those that came before it were gone: it then begins as soon as if
        nobody had gone before it. 0 where nobody came before it: then it waits for those that came
        later already.
        """
        later = [s for s in self.running if order(s) > order(first)]
        if len(later) == len(self.running):
            return 0
        needed = self.memory.pages_for(len(first.known) + 1) + 1
        return len(self.memory) - needed - sum(map(self._pages_at_most, later))

    def _pages_at_most(self, sequence: Sequence) -> int:
        """Pages that a sequence can come to hold, and one that is left for it."""
        return self.memory.pages_for(sequence.limit) + 1

    def _chunks(self, decodes: list[Sequence]) -> list[Chunk]:
        """Prompt tokens for this step, with pages for them."""
        self._since += 1
        everyone = sorted((s for s in self.running if s.prefilling), key=order)
        left = min(self.limits.rows, self.limits.tokens) - len(decodes)
        streams = [s for s in everyone if s.drawn and missing(s) <= SHORT]
        prompts = [s for s in everyone if s not in streams]
        going_on: dict[Sequence, int] = {}
        for sequence in streams:
            # Tokens of an answer that had to come: nobody waits for a turn in the middle of one.
            going_on[sequence] = min(missing(sequence), left)
            left -= going_on[sequence]
        paced = left
        if prompts and decodes and left:
            places = self.limits.sequences - len(decodes)
            prefilling = min(len(prompts) + len(self.waiting), places)
            paced = max(self.pace.tokens(left, len(decodes), prefilling), 0)
        given = shares(prompts, paced)
        charge(prompts, given)
        if paced < left and self._since >= APART:
            self._add_short(prompts, given, left - paced)
        given |= going_on
        chunks: list[Chunk] = []
        for sequence in everyone:
            count = given.get(sequence, 0)
            if count and self._room(sequence, sequence.computed + count):
                chunks.append(Chunk(sequence, sequence.computed, count))
        return [chunk for chunk in chunks if chunk.sequence.holding is not None]

    def _add_short(self, prompts: list[Sequence], given: dict[Sequence, int], left: int) -> None:
        """Give tokens to short prompts that lack some in a step beside streams, now and then: who
        has few does not wait until the pace has more for those who have many, who lose nothing."""
        left = min(left, MIN_CHUNK)
        for sequence in sorted((s for s in prompts if missing(s) <= SHORT), key=missing):
            count = min(missing(sequence) - given.get(sequence, 0), left)
            if count > 0:
                given[sequence] = given.get(sequence, 0) + count
                left -= count
                self._since = 0

    def _burst(self, decodes: list[Sequence], chunks: list[Chunk]) -> int:
        """How many tokens to decode before the host looks at them.

        Bursts grow from one token, so that the first ones appear at once. They stay at one where
        the host has to see every token, and where others wait or are being prefilled.
        """
        if not decodes:
            return 0
        prefilling = len(self.running) > len(decodes)
        if self.waiting or chunks or prefilling:
            return 1
        unseen = min(s.unseen for s in decodes)
        if unseen == 1:
            return 1
        youngest = min(s.bursts for s in decodes)
        most = min(unseen, max(s.remaining for s in decodes), self.limits.tokens // len(decodes))
        # Nobody gives up pages for a burst that is longer than it has to be.
        needed = len(decodes) * self.memory.pages_for(LONGEST_BURST)
        plenty = self.memory.free + self.memory.idle >= needed
        longest = self.pace.burst() if plenty else MAX_BURST
        return max(1, min(longest, 1 << min(youngest, LONGEST_BURST), most))

    def _reserve(self, decodes: list[Sequence], burst: int) -> list[Sequence]:
        """Those of them, still running, that have pages for a burst."""
        for sequence in sorted(decodes, key=order):
            if sequence.holding is not None:
                self._room(sequence, sequence.computed + min(burst, sequence.remaining))
        return [s for s in decodes if s.holding is not None]

    def _promised(self, sequence: Sequence) -> int:
        """Pages that a sequence needs for what it knows and does not hold yet."""
        return self.memory.lacking(sequence.holding, len(sequence.known) + 1)

    def _room(self, sequence: Sequence, tokens: int) -> bool:
        """Give a sequence pages for so many tokens, those of the last to have come if need be.

        False where it was the last itself, and has none any more.
        """
        while sequence.holding is not None:
            if self.memory.grow(sequence.holding, tokens):
                return True
            self.preempt(max(self.running, key=order))
        return False

    def _release(self, sequence: Sequence, *, keep: bool) -> None:
        """Take a sequence's slot and pages; with `keep` what they hold may serve others."""
        holding = sequence.holding
        if holding is not None:
            if keep and not sequence.rewound and sequence.pooled is None:
                args = (sequence.known, sequence.computed, sequence.exact)
                self.memory.retire(holding, *args)
            else:
                self.memory.discard(holding)
        if sequence.rewound:
            sequence.turn.forget()
        self.running.remove(sequence)
        insort(self._slots, sequence.slot)
        sequence.restart()


def _too_large(sequence: Sequence, pages: int) -> EngineError:
    return EngineError(
        f"{len(sequence.known):,} tokens need more than the KV pages that are left of {pages:,}.",
        remedy="Unpin prefixes, shorten the prompt, or load the model with more memory.",
        code="engine.memory",
    )
