"""Joining the segments of decode attention on the GPU, in one order wherever it is done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from math import prod

from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer

from edgewise_compiler.kernels.attention import (
    KNOWN,
    AttentionSpec,
    check_attention,
    first_seen,
    segment_names,
    segments_of,
    sinks_arg,
    trait_names,
)
from edgewise_compiler.kernels.function import STEP, Arg, symbol, table_arg
from edgewise_compiler.kernels.gpu.attention.common import LOWEST, power_of_two_up_to
from edgewise_compiler.kernels.gpu.attention.shares import Share, whole
from edgewise_compiler.kernels.gpu.operations import exp2, fma, lane, number, splat
from edgewise_compiler.kernels.gpu.thread import (
    Launch,
    Thread,
    barrier,
    bind,
    kernel,
    local,
    shared,
    store,
    when,
)
from edgewise_compiler.kernels.numbers import LOG2E
from edgewise_runtime.format.abi import KV_LEN, SEQUENCES, STOP

_THREADS = 128


def part_elements(spec: AttentionSpec, share: Share) -> int:
    """How many float32 the partial results take: o, m, l and padding for every segment."""
    return prod(part_arg(spec, share).shape) * 4


def part_arg(spec: AttentionSpec, share: Share) -> Arg:
    """The partial results of a share: of each segment o, then m, l and padding."""
    segments = -(-share.reach // spec.segment)
    return Arg("part", "float32x4", (share.count, spec.heads, segments, spec.head_dim // 4 + 1))


def slices_of(vectors: int) -> int:
    """Into how many parts of every so-manieth segment the sums over segments are divided."""
    return power_of_two_up_to(_THREADS // vectors)


def few_segments(spec: AttentionSpec, length: Expr, most: int) -> tuple[Expr, Expr | None]:
    """How many segments the last of ``length`` positions sees, of which a sequence has ``most`` at
    most, and the first of them; None for 0."""
    segments = bind(T.min(segments_of(length, spec.segment), most))
    if spec.window is None:
        return segments, None
    first = bind(T.min(T.floordiv(first_seen(spec, length), spec.segment), most - 1))
    return bind(T.max(1, segments - first)), first


@dataclass(frozen=True)
class Slice:
    """The sums over one slice of a head's segments: sum w*l, and of four elements sum w*o.

    Attributes:
        segments: how many there are.
        slices: how many slices.
        stats: m and l of a segment.
        outputs: four elements of o of a segment; None where only weights are of interest.
        first: the number of the first of them; None for 0.
        sink: the exponent of two of the head's sink, which is joined before the first segment of
            the first slice; None without one.
        factor: is told the weight w of each segment, as they are added; None where nobody asks.
    """

    segments: Expr
    slices: int
    stats: Callable[[Expr], tuple[Expr, Expr]]
    outputs: Callable[[Expr], Expr] | None = None
    first: Expr | None = None
    sink: Expr | None = None
    factor: Callable[[Expr, Expr], None] | None = None

    def _nth(self, i: Expr) -> Expr:
        return i if self.first is None else bind(self.first + i)

    def largest(self, into: Buffer) -> None:
        """M, of all slices, to ``into[0]``."""
        store(into, LOWEST if self.sink is None else self.sink, 0)
        with T.serial(0, self.segments) as i:
            store(into, T.max(into[0], self.stats(self._nth(i))[0]), 0)

    def add(self, z: Expr | int, state: Buffer, acc: Buffer | None = None) -> None:
        """The sums of slice ``z``, to ``state[1]`` and ``acc[0]``, with M in ``state[0]``."""
        store(state, 0.0, 1)
        if self.sink is not None:
            weight = bind(_weight(self.sink, state[0]))
            store(state, T.Select(T.int32(z) == 0, weight, number(0.0)), 1)
        if acc is not None:
            store(acc, 0.0, 0)
        with T.serial(0, T.floordiv(self.segments - z + (self.slices - 1), self.slices)) as i:
            segment = self._nth(bind(z + i * self.slices))
            largest, total = self.stats(segment)
            weight = bind(_weight(largest, state[0]))
            store(state, fma(weight, total, state[1]), 1)
            if self.factor is not None:
                self.factor(segment, weight)
            if acc is not None and self.outputs is not None:
                store(acc, fma(splat(weight), self.outputs(segment), acc[0]), 0)


def _weight(exponent: Expr, largest: Expr) -> Expr:
    """2**0 need not be exactly 1, and the likeliest segment may be the only one."""
    return T.Select(exponent == largest, number(1.0), exp2(exponent - largest))


def attention_merge(spec: AttentionSpec, share: Share | None = None) -> Launch:
    """Joins what :func:`attention_decode` left in ``part``, of which it takes the arguments.

    Arguments: part float32 [G, HQ, ceil(R/S), D+4]; table int32 [B, 8+MP]; with sinks those,
    float32 [HQ]; out float32 [N, HQ*D],
    written for sequences that have not stopped; step int32 [8], whose field 1 is the number of
    sequences. Grid: query heads in x, sequences in y.

    Raises:
        CompileError: heads or dtypes that attention is not written for.
        UnsupportedError: a trait that it does not have.
    """
    check_attention(spec, KNOWN)
    # Scores are ready: layers that differ in theirs share one kernel, which has one name.
    return _merge(replace(spec, scale=1.0, softcap=None), share or whole(spec))


@cache
def _merge(spec: AttentionSpec, share: Share) -> Launch:
    N, B, C, MP = spec.rows, spec.batch, spec.context, spec.pages
    HQ, D = spec.heads, spec.head_dim
    vectors = D // 4
    slices = slices_of(vectors)
    arguments = [
        part_arg(spec, share),
        table_arg(spec),
        *sinks_arg(spec),
        Arg("out", "float32x4", (N, HQ, vectors)),
        STEP,
    ]

    def body(thread: Thread, part: Buffer, table: Buffer, *rest: Buffer) -> None:
        *sinks, out, step = rest
        head, place = thread.x, thread.y
        s = bind(place + share.first) if share.first else place
        outputs = shared((slices * vectors,), "float32x4")
        totals = shared((slices,))
        state = local((2,))  # M, L
        acc = local((1,), "float32x4")

        def merge() -> None:
            length = table[s, KV_LEN] + 1
            segments, first = bind(segments_of(length, spec.segment)), None
            if spec.window is not None:
                first = bind(T.floordiv(first_seen(spec, length), spec.segment))
                segments = bind(segments - first)
            c, z = bind(T.floormod(thread.t, vectors)), bind(T.floordiv(thread.t, vectors))
            of = Slice(
                segments,
                slices,
                lambda i: pair(part[place, head, i, vectors]),
                lambda i: part[place, head, i, c],
                first,
                bind(sinks[0][head] * number(LOG2E)) if sinks else None,
            )
            of.largest(state)
            with when(z < slices):
                of.add(z, state, acc)
                store(outputs, acc[0], z * vectors + c)
                with when(c == 0):
                    store(totals, state[1], z)
            barrier()
            with when(thread.t < vectors):
                with T.serial(1, slices) as j:
                    store(acc, acc[0] + outputs[j * vectors + c], 0)
                    store(state, state[1] + totals[j], 1)
                store(out, acc[0] / splat(state[1]), s, head, c)

        with when(s < step[SEQUENCES]):
            with when(table[s, STOP] == 0):
                merge()

    return kernel(
        symbol(
            "attention_merge",
            *(N, B, MP, HQ, D, C, *share.parts),
            *trait_names(spec),
            *segment_names(spec),
        ),
        arguments,
        body,
        threads=_THREADS,
        grid=(HQ, share.live),
        bounds={"b": B},
    )


def pair(stats: Expr) -> tuple[Expr, Expr]:
    held = bind(stats)
    return lane(held, 0), lane(held, 1)
