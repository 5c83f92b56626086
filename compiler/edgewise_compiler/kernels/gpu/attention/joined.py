"""Decode attention that the linear which reads it joins: no launch between them.

Each workgroup of the linear has one row of activations, of one sequence, and joins the segments of
all its heads, in the order of `attention_merge` and to its bits, on the way into shared memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer

from edgewise_compiler.kernels.attention import (
    AttentionSpec,
    segment_names,
    sinks_arg,
    trait_names,
)
from edgewise_compiler.kernels.function import Arg, table_arg
from edgewise_compiler.kernels.gpu.attention.merge import (
    Slice,
    few_segments,
    pair,
    part_arg,
    slices_of,
)
from edgewise_compiler.kernels.gpu.attention.shares import Share
from edgewise_compiler.kernels.gpu.operations import fma, number, splat
from edgewise_compiler.kernels.gpu.thread import Thread, barrier, bind, local, shared, store, when
from edgewise_compiler.kernels.numbers import LOG2E
from edgewise_runtime.format.abi import KV_LEN

JOINED_SEGMENTS, JOINED_BYTES = 16, 16 << 20
"""What a linear joins: so many segments of one sequence, or more, also of several, where all its
workgroups read no more bytes of them, and of the matrix again for each. That is estimated to take
less time than a launch does (docs/decisions/0065-*, 0096-*, 0101-*)."""

FACTOR_BYTES = 5 << 10
"""Of shared memory, for what the segments of all heads are multiplied by: a linear's columns and
its sums take the rest of 16 KiB."""


@dataclass(frozen=True)
class Joining:
    """A linear that joins.

    Attributes:
        workgroups: that it has for each row of activations.
        bytes: of its matrix.
    """

    workgroups: int
    bytes: int

    def segments(self, spec: AttentionSpec, sequences: int = 1) -> int:
        """How many segments of each sequence of a step it joins at most, if there is room for the
        `JOINED_SEGMENTS` of one; 0 where there should be a launch that does."""
        room = FACTOR_BYTES // (4 * spec.heads) - 1
        segment = 4 * spec.heads * spec.head_dim * self.workgroups * sequences
        cheap = max(0, JOINED_BYTES - (sequences - 1) * self.bytes) // segment
        return max(JOINED_SEGMENTS if sequences == 1 else 0, min(room, cheap))


@dataclass(frozen=True)
class Joined:
    """The attention of the sequences of a step, a row of the linear each.

    Attributes:
        spec: of the attention.
        share: the sequences whose segments are kept together: all that the step has.
        most: the segments of a sequence, at most.
    """

    spec: AttentionSpec
    share: Share
    most: int

    @property
    def factors(self) -> int:
        """What all segments are multiplied by, and the sums of that by heads."""
        return self.spec.heads * (self.most + 1)

    @property
    def fits(self) -> bool:
        """Whether a linear has room for the factors."""
        return self.factors * 4 <= FACTOR_BYTES

    def arguments(self) -> tuple[Arg, ...]:
        """As those of `attention_merge`: part, table and, where there are some, sinks."""
        return part_arg(self.spec, self.share), table_arg(self.spec), *sinks_arg(self.spec)

    @property
    def names(self) -> tuple[int | str, ...]:
        """What tells kernels that join it from others."""
        spec = self.spec
        sizes = (spec.batch, spec.pages, spec.heads, spec.context)
        most, parts = f"j{self.most}", self.share.parts
        return ("joined", *sizes, most, *parts, *trait_names(spec), *segment_names(spec))

    def begin(self, thread: Thread, named: Mapping[str, Buffer]) -> Callable[[Expr], Expr]:
        """Four columns of all heads by their number. Every thread of the workgroup must come here:
        there is a barrier."""
        spec, most, vectors = self.spec, self.most, self.spec.head_dim // 4
        row = thread.y
        length = bind(named["table"][row, KV_LEN] + 1)
        segments, first = few_segments(spec, length, most)
        factors = shared((self.factors,))
        state, slices = local((3,)), slices_of(vectors)
        with T.serial(0, -(-spec.heads // thread.threads)) as turn:
            head = bind(turn * thread.threads + thread.t)
            begin, place = bind(head * (most + 1)), 0 if first is None else first
            with when(head < spec.heads):
                of = Slice(
                    segments,
                    slices,
                    lambda i: pair(named["part"][row, head, i, vectors]),
                    first=first,
                    sink=bind(named["sinks"][head] * number(LOG2E)) if spec.sinks else None,
                    factor=lambda i, weight: store(factors, weight, begin + (i - place)),
                )
                of.largest(state)
                of.add(0, state)
                store(state, state[1], 2)
                with T.serial(1, min(slices, most + 1)) as z:
                    of.add(z, state)
                    store(state, state[2] + state[1], 2)
                store(factors, state[2], begin + most)
        barrier()
        return _Joining(self, named["part"], row, place, segments, factors).vector


@dataclass(frozen=True)
class _Joining:
    """The same in a kernel.

    Attributes:
        joined: what is joined.
        part: o of its segments, and m and l.
        row: the sequence.
        first: the first segment that is joined.
        segments: how many there are.
        factors: shared: of each head what its segments are multiplied by, then the sum of that.
    """

    joined: Joined
    part: Buffer
    row: Expr
    first: Expr | int
    segments: Expr
    factors: Buffer

    def vector(self, at: Expr) -> Expr:
        most, vectors = self.joined.most, self.joined.spec.head_dim // 4
        slices = slices_of(vectors)
        head, c = bind(T.floordiv(at, vectors)), bind(T.floormod(at, vectors))
        begin = bind(head * (most + 1))
        acc = local((2,), "float32x4")

        def add(z: Expr | int) -> None:
            """Slice ``z``, to ``acc[1]``."""
            store(acc, 0.0, 1)
            with T.serial(0, T.floordiv(self.segments - z + (slices - 1), slices)) as i:
                nth = bind(z + i * slices)
                output = self.part[self.row, head, self.first + nth, c]
                store(acc, fma(splat(self.factors[begin + nth]), output, acc[1]), 1)

        add(0)
        store(acc, acc[1], 0)
        # Slices without a segment add zero, as often as one likes.
        with T.serial(1, min(slices, most + 1)) as z:
            add(z)
            store(acc, acc[0] + acc[1], 0)
        return bind(acc[0] / splat(self.factors[begin + most]))
