"""When to let a drafter guess, and for how many tokens."""

from __future__ import annotations

from edgewise_runtime.engine.scheduler import Limits, Scheduler, Step
from edgewise_runtime.engine.sequence import Sequence
from edgewise_runtime.engine.speculate.base import Drafter, DraftView
from edgewise_runtime.engine.speculate.length import AdaptiveLength
from edgewise_runtime.kv.memory import PageMemory


class Drafting:
    """Asks a drafter for the sequences of a step, where there is room and time for it.

    Sequences whose draws depend on how often a token has come (penalties) are left alone: the
    tokens of a draft would have to be counted one after the other.
    """

    def __init__(self, drafter: Drafter | None, memory: PageMemory, limits: Limits) -> None:
        self._drafter = drafter
        self._memory = memory
        self._limits = limits
        self._lengths: dict[Sequence, AdaptiveLength] = {}

    def drafts(self, step: Step, scheduler: Scheduler) -> dict[Sequence, tuple[int, ...]]:
        """A draft for each sequence that decodes in this step and has one, its pages reserved."""
        if self._drafter is None or step.chunks or scheduler.waiting or step.burst < 1:
            return {}
        found: dict[Sequence, tuple[int, ...]] = {}
        # Every token verified needs a row of logits.
        rows = self._limits.sequences - len(step.decodes)
        budget = self._limits.tokens - len(step.decodes)
        for sequence in step.decodes:
            if sequence.params.penalized or sequence.holding is None:
                continue
            length = self._lengths.setdefault(sequence, AdaptiveLength(self._limits.sequences - 1))
            wanted = length.next(len(step.decodes), len(scheduler.waiting))
            wanted = min(wanted, rows, budget, sequence.remaining - 1)
            if wanted < 1:
                continue
            draft = self._drafter.propose(_view(sequence), wanted)[:wanted]
            if draft and self._memory.grow(sequence.holding, sequence.computed + 1 + len(draft)):
                found[sequence] = draft
                rows -= len(draft)
                budget -= len(draft)
        return found

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
        prompt_len=sequence.prompt_len,
        params=sequence.params,
        seed=sequence.seed,
        index=sequence.index,
    )
