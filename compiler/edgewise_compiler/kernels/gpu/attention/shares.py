"""Which sequences' partial results of decode attention are in a GPU's memory together.

A sequence has one for each head and each of its parts: runs of as many segments, of which there are
no more than a target wants. For many sequences that can still be too much. Then one plan keeps
those of all sequences up to some length, and another one, for steps with a longer one, goes through
the sequences in turn.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from edgewise_compiler.kernels.attention import AttentionSpec
from edgewise_compiler.kernels.numbers import SEGMENT
from edgewise_runtime.format.expr import Expr

PART_BYTES = 16 << 20
"""What partial results take of a GPU's memory, or those of one sequence where these are more."""


@dataclass(frozen=True)
class Share:
    """Sequences whose partial results are in memory together.

    Attributes:
        first, count: the sequences: the first, and how many there are at most.
        reach: the most tokens that any of them has.
        most: the most parts of a sequence.
        batch, context: of the program.
    """

    first: int
    count: int
    reach: int
    most: int
    batch: int
    context: int

    @property
    def parts(self) -> int:
        """The most parts that any of them has."""
        return min(self.most, -(-self.reach // SEGMENT))

    @property
    def grid(self) -> Expr:
        """As many parts as the longest of a step has, or more."""
        segments: Expr = ("ceildiv", "t", SEGMENT)
        return ("min", self.most, segments) if self.reach > self.most * SEGMENT else segments

    @property
    def live(self) -> Expr:
        """How many of them a step has, or one that is none, which kernels leave alone."""
        if self.count == self.batch:
            return "b"
        return ("min", self.count, ("max", 1, ("sub", "b", self.first)) if self.first else "b")

    @property
    def names(self) -> tuple[int | str, ...]:
        """What tells its kernels from those of other shares."""
        whole = (self.count, self.reach) == (self.batch, self.context)
        return (*(() if whole else (self.first, self.count, self.reach)), f"p{self.parts}")


def all_together(spec: AttentionSpec, parts: int) -> Share:
    """All sequences, as long as their partial results take no more than `PART_BYTES`."""
    fitting = PART_BYTES // _part_bytes(spec, spec.batch)
    of_all = whole(spec, parts)
    return of_all if fitting >= of_all.parts else replace(of_all, reach=max(1, fitting) * SEGMENT)


def in_turn(spec: AttentionSpec, parts: int) -> list[Share]:
    """All sequences, however long: as many after each other as their partial results demand."""
    of_all = whole(spec, parts)
    most = max(1, PART_BYTES // (_part_bytes(spec, 1) * of_all.parts))
    count = -(-spec.batch // -(-spec.batch // most))
    return [
        replace(of_all, first=first, count=min(count, spec.batch - first))
        for first in range(0, spec.batch, count)
    ]


def whole(spec: AttentionSpec, parts: int) -> Share:
    """All sequences, of any length."""
    return Share(0, spec.batch, spec.context, parts, spec.batch, spec.context)


def _part_bytes(spec: AttentionSpec, sequences: int) -> int:
    return sequences * spec.heads * (spec.head_dim // 4 + 1) * 16
