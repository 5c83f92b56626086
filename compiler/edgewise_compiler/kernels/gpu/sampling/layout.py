"""Where the keys of a row lie, and what is known of them: blocks, groups, their largest keys."""

from __future__ import annotations

from dataclasses import dataclass

LANES = 4
"""Keys of a vector, in which they are loaded and stored."""

THREADS = 256
"""Threads of the sampler's workgroups, where nothing speaks for fewer."""

_LEAST_VECTORS = 2  # of a thread


@dataclass(frozen=True)
class Layout:
    """A row of the scratch ``keys``, in words: keys, the largest of groups, of blocks, a position.

    A block is what one workgroup makes of the logits: neighbouring tokens. Its thread t takes every
    256th vector of it from the t-th on, where workgroups have 256 threads: its group. So loads are
    coalesced, and what is known of a group takes no word to another thread. There is a block a
    thread at most.

    Attributes:
        columns: of the logits, in whole vectors.
        threads: of a workgroup, a power of two from 32 on.
    """

    columns: int
    threads: int = THREADS

    @property
    def suffix(self) -> str:
        """What names of kernels say of the threads."""
        return "" if self.threads == THREADS else f"_t{self.threads}"

    @property
    def vectors(self) -> int:
        """Vectors of a group."""
        vectors = _LEAST_VECTORS
        while vectors * self.threads * LANES * self.threads < self.columns:
            vectors *= 2
        return vectors

    @property
    def block(self) -> int:
        """Tokens of a block."""
        return self.threads * LANES * self.vectors

    @property
    def blocks(self) -> int:
        """Blocks of a row."""
        return -(-self.columns // self.block)

    @property
    def shares(self) -> int:
        """Threads that have a token where vectors of groups are dealt out to a workgroup."""
        rest = self.columns - (self.blocks - 1) * self.block
        groups = (self.blocks - 1) * self.threads + min(self.threads, -(-rest // LANES))
        return min(self.threads, -(-groups // LANES))

    @property
    def maxima(self) -> int:
        """The first word of groups' largest keys, a word each, block by block."""
        return self.columns

    @property
    def bests(self) -> int:
        """The first word of blocks' largest keys, a vector each."""
        return self.maxima + self.blocks * self.threads

    @property
    def position(self) -> int:
        """The first word of a vector that has the position of the token drawn."""
        return self.bests + self.blocks * LANES

    @property
    def words(self) -> int:
        """All words of a row."""
        return self.position + LANES
