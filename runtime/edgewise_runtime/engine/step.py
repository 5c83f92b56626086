"""What a step of the engine computes, and how much that may be."""

from __future__ import annotations

from dataclasses import dataclass

from edgewise_runtime.engine.sequence import Sequence


@dataclass(frozen=True, slots=True)
class Limits:
    """What a step may hold.

    Attributes:
        sequences: that run at once, at most.
        rows: prompt tokens at most, as the program is compiled.
        tokens: the budget: rows of all kinds, a burst's tokens all counted.
        waiting: requests that may wait for a free slot.
    """

    sequences: int
    rows: int
    tokens: int
    waiting: int = 1024


@dataclass(frozen=True, slots=True)
class Chunk:
    """Tokens `start` to `start + count` of a sequence, to be prefilled."""

    sequence: Sequence
    start: int
    count: int

    @property
    def last(self) -> bool:
        """Whether nothing known is left to compute after it."""
        return self.start + self.count == len(self.sequence.known)

    @property
    def draws(self) -> bool:
        """Whether a token follows from it."""
        return self.last and not self.sequence.wants_none


@dataclass(frozen=True, slots=True)
class Step:
    """What is computed next: chunks of prompts, and `burst` tokens for all that decode."""

    chunks: tuple[Chunk, ...]
    decodes: tuple[Sequence, ...]
    burst: int

    @property
    def prefill_tokens(self) -> int:
        return sum(chunk.count for chunk in self.chunks)

    @property
    def decode_tokens(self) -> int:
        return len(self.decodes) * self.burst
