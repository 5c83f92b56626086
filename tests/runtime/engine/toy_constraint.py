"""A constraint made of hashes: rooms, each with tokens that lead on from it to others."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from edgewise_runtime.engine.constraint import Mask
from edgewise_runtime.format.abi import MASK_BITS, mask_words
from tests.runtime.engine.toy_model import EOS, VOCAB, mix

ROOMS = 12
MOST_FORCED = 5
FORCED, FREE, OPEN, CLOSED = range(4)


@dataclass(frozen=True)
class Maze:
    """A `Constraint` over the toy's tokens; its end tokens lead on from where any may come.

    From a room one token leads on, or any, or some; of those that some lead on from, every other is
    one where an answer may end. One room, if any, is the end.

    Attributes:
        seed: tells mazes apart.
        start: the room it begins in.
        last: the room where an answer must end; none for -1.
        broken: the room whose mask cannot be made; none for -1.
    """

    seed: int
    start: int = 0
    last: int = -1
    broken: int = -1

    def kind(self, state: int) -> int:
        """What a room is like."""
        return (FORCED, FREE, OPEN, CLOSED, OPEN, CLOSED)[mix(mix(self.seed, state), 1) % 6]

    def tokens(self, state: int) -> frozenset[int]:
        """The tokens that lead on from a room."""
        return _tokens(self, state)

    def mask(self, state: int) -> Mask:
        if state == self.broken:
            raise ValueError(f"room {state} is broken")
        words = np.zeros(mask_words(VOCAB), np.uint32)
        for token in self.tokens(state):
            words[token // MASK_BITS] |= np.uint32(1 << token % MASK_BITS)
        return words

    def advance(self, state: int, token: int) -> int | None:
        if token not in self.tokens(state):
            return None
        return mix(mix(self.seed, state), token + 2) % ROOMS

    def may_end(self, state: int) -> bool:
        return state == self.last or self.kind(state) in (FREE, OPEN)

    def must_end(self, state: int) -> bool:
        return state == self.last

    def free(self, state: int) -> bool:
        return state != self.last and self.kind(state) == FREE

    def forced_tokens(self, state: int) -> tuple[int, ...]:
        found: list[int] = []
        at: int | None = state
        while at is not None and len(found) < MOST_FORCED and self._forces(at):
            found += self.tokens(at)
            at = self.advance(at, found[-1])
        return tuple(found)

    def _forces(self, state: int) -> bool:
        return state != self.last and self.kind(state) == FORCED


@cache
def _tokens(maze: Maze, state: int) -> frozenset[int]:
    if state == maze.last:
        return frozenset()
    kind = maze.kind(state)
    if kind == FREE:
        return frozenset(range(VOCAB))
    ordinary = [token for token in range(VOCAB) if token not in EOS]
    count = 1 if kind == FORCED else 6
    ordinary.sort(key=lambda token: mix(mix(maze.seed, state + 100), token))
    return frozenset(ordinary[:count])
