"""Which sequences' partial results of decode attention are in a GPU's memory together.

They take the product of sequences, heads and segments: gigabytes for many sequences of a long
context, of which hardly any step has all. So one plan keeps those of all sequences up to some
length, and another one, for steps with a longer one, goes through the sequences in turn.
"""

from __future__ import annotations

from dataclasses import dataclass

from edgewise_compiler.kernels.attention import AttentionSpec
from edgewise_runtime.format.expr import Expr

PART_BYTES = 16 << 20
"""What partial results take of a GPU's memory, or those of one sequence where these are more."""


@dataclass(frozen=True)
class Share:
    """Sequences whose partial results are in memory together.

    Attributes:
        first, count: the sequences: the first, and how many there are at most.
        reach: the most tokens that any of them has.
        batch, context: of the program.
    """

    first: int
    count: int
    reach: int
    batch: int
    context: int

    @property
    def live(self) -> Expr:
        """How many of them a step has, or one that is none, which kernels leave alone."""
        if self.count == self.batch:
            return "b"
        return ("min", self.count, ("max", 1, ("sub", "b", self.first)) if self.first else "b")

    @property
    def parts(self) -> tuple[int, ...]:
        """What tells its kernels from those of all sequences of any length."""
        whole = (self.count, self.reach) == (self.batch, self.context)
        return () if whole else (self.first, self.count, self.reach)


def all_together(spec: AttentionSpec) -> Share:
    """All sequences, as long as their partial results take no more than `PART_BYTES`."""
    S = spec.segment
    reach = PART_BYTES // _segment_bytes(spec, spec.batch) * S
    return Share(0, spec.batch, max(S, min(reach, spec.context)), spec.batch, spec.context)


def in_turn(spec: AttentionSpec) -> list[Share]:
    """All sequences, however long: as many after each other as their partial results demand."""
    segments = -(-spec.context // spec.segment)
    most = max(1, PART_BYTES // (_segment_bytes(spec, 1) * segments))
    count = -(-spec.batch // -(-spec.batch // most))
    return [
        Share(first, min(count, spec.batch - first), spec.context, spec.batch, spec.context)
        for first in range(0, spec.batch, count)
    ]


def whole(spec: AttentionSpec) -> Share:
    """All sequences, of any length."""
    return Share(0, spec.batch, spec.context, spec.batch, spec.context)


def _segment_bytes(spec: AttentionSpec, sequences: int) -> int:
    return sequences * spec.heads * (spec.head_dim // 4 + 1) * 16
