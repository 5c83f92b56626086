"""When to let a drafter guess, and for how many tokens."""

from __future__ import annotations

from edgewise_runtime.engine.scheduler import Scheduler
from edgewise_runtime.engine.sequence import Sequence
from edgewise_runtime.engine.speculate.base import Drafter, DraftView
from edgewise_runtime.engine.speculate.length import AdaptiveLength
from edgewise_runtime.engine.step import Limits, Step
from edgewise_runtime.kv.base import KvMemory


class Drafting:
    """Asks a drafter for the sequences of a step, where there is room and time for it.

    Sequences whose draws depend on how often a token has come (penalties) are left alone: the
    tokens of a draft would have to be counted one after the other.
    """

    def __init__(self, drafter: Drafter | None, memory: KvMemory, limits: Limits) -> None:
        self._drafter = drafter
        self._memory = memory
        self._limits = limits
        self._lengths: dict[Sequence, AdaptiveLength] = {}

    def drafts(self, step: Step, scheduler: Scheduler) -> dict[Sequence, tuple[int, ...]]:
        """A draft for each sequence that decodes in this step and has one, its pages reserved."""
        if self._drafter is None or step.chunks or scheduler.waiting or step.burst < 1:
            return {}
        wanted = self._wanted(self._drafter, step.decodes)
        proposed = self._drafter.propose_all([(_view(s), k) for s, k in wanted.items()])
        found: dict[Sequence, tuple[int, ...]] = {}
        for (sequence, k), tokens in zip(wanted.items(), proposed, strict=True):
            draft, holding = sequence.may_follow(tokens[:k]), sequence.holding
            if draft and holding and self._memory.grow(holding, sequence.computed + 1 + len(draft)):
                found[sequence] = draft
        return found

    def _wanted(self, drafter: Drafter, decodes: tuple[Sequence, ...]) -> dict[Sequence, int]:
        """How many tokens to draft for each. A token verified takes a row of logits, of which
        there are few: they are shared, and what one does not want is there for the others."""
        asked: dict[Sequence, int] = {}
        for sequence in decodes:
            if sequence.params.penalized or sequence.too_short or sequence.holding is None:
                continue
            if sequence not in self._lengths:
                most = self._limits.sequences - 1
                self._lengths[sequence] = AdaptiveLength(most, cost=drafter.cost)
            length = self._lengths[sequence].next(len(decodes))
            asked[sequence] = max(0, min(length, sequence.remaining - 1))
        left = min(self._limits.sequences, self._limits.tokens) - len(decodes)
        wanted: dict[Sequence, int] = {}
        modest = sorted(asked, key=lambda sequence: asked[sequence])
        for place, sequence in enumerate(modest):
            count = min(asked[sequence], left // (len(modest) - place))
            if count > 0:
                wanted[sequence] = count
                left -= count
        return wanted

    def observe(self, sequence: Sequence, draft: tuple[int, ...], accepted: int) -> None:
        """Take in how many tokens of a draft were right."""
        self._lengths[sequence].observe(len(draft), min(accepted, len(draft)))

    def forget(self, sequence: Sequence) -> None:
        """A sequence has ended, or begins anew."""
        if self._lengths.pop(sequence, None) is not None and self._drafter is not None:
            self._drafter.forget(sequence.arrival)

    def close(self) -> None:
        """Close the drafter."""
        if self._drafter is not None:
            self._drafter.close()


def _view(sequence: Sequence) -> DraftView:
    return DraftView(
        key=sequence.arrival,
        tokens=sequence.known,
        prompt_len=sequence.asked_len,
        params=sequence.params,
        seed=sequence.seed,
        index=sequence.index,
    )
