"""What a drafter is asked and what it answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from edgewise_runtime.engine.sampling import SamplingParams

VERIFYING = 0.15
"""What one more token to verify adds to a decode step, in such steps: for q4 weights on two cores,
where it is mostly arithmetic, 0.06 to 0.2."""


@dataclass(frozen=True, slots=True)
class DraftView:
    """A running sequence as a drafter sees it.

    Attributes:
        key: identifies the sequence until `Drafter.forget`; never used again after that.
        tokens: ids of the prompt, then of what has been generated. Under one key it only grows,
            so it may be a list that the engine goes on appending to; `Drafter.forget` comes
            before any other change.
        prompt_len: how many of them are the prompt.
        params: how its tokens are drawn.
        seed: of its random numbers, 64 bits.
        index: which of several choices of one request it is.
    """

    key: int
    tokens: Sequence[int]
    prompt_len: int
    params: SamplingParams
    seed: int
    index: int = 0


class Drafter(Protocol):
    """Guesses how sequences go on. One thread at a time."""

    @property
    def cost(self) -> float:
        """What drafting a token and verifying it take, in decode steps of the target."""
        ...

    def propose(self, sequence: DraftView, k: int) -> tuple[int, ...]:
        """At most k tokens that may follow; none where there is no good guess."""
        ...

    def propose_all(self, wanted: Sequence[tuple[DraftView, int]]) -> list[tuple[int, ...]]:
        """What `propose` gives for each of these sequences, perhaps in less time."""
        ...

    def forget(self, key: int) -> None:
        """Drop what is kept for a sequence; unknown ones are ignored."""
        ...

    def close(self) -> None:
        """Drop everything. Closing twice is fine."""
        ...
