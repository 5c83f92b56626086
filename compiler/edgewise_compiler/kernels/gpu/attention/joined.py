"""Decode attention that is joined by the linear which reads it: no launch of its own.

Each workgroup of that linear joins the parts of all heads, in the order of `attention_merge` and to
its bits, on the way into shared memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer

from edgewise_compiler.kernels.attention import AttentionSpec, sinks_arg, trait_names
from edgewise_compiler.kernels.function import Arg, table_arg
from edgewise_compiler.kernels.gpu.attention.merge import Slice, cut, pair, part_arg, slices_of
from edgewise_compiler.kernels.gpu.attention.shares import Share
from edgewise_compiler.kernels.gpu.operations import fma, number, splat
from edgewise_compiler.kernels.gpu.thread import Thread, barrier, bind, local, shared, store, when
from edgewise_compiler.kernels.numbers import LOG2E
from edgewise_runtime.format.abi import KV_LEN


@dataclass(frozen=True)
class Joined:
    """The attention of the only sequence of a step, of which its parts are there.

    Attributes:
        spec: of the attention.
        share: the sequences whose parts are kept together; this one is the first of them.
    """

    spec: AttentionSpec
    share: Share

    @property
    def columns(self) -> int:
        """Columns of what it is."""
        return self.spec.heads * self.spec.head_dim

    def arguments(self) -> tuple[Arg, ...]:
        """As those of `attention_merge`: part, table and, where there are some, sinks."""
        return part_arg(self.spec, self.share), table_arg(self.spec), *sinks_arg(self.spec)

    def names(self) -> tuple[int | str, ...]:
        """What tells its kernels from others."""
        spec = self.spec
        traits = trait_names(spec)
        return (spec.batch, spec.pages, spec.heads, spec.context, *self.share.names, *traits)


@dataclass(frozen=True)
class Joining:
    """The same in a kernel: every thread of the workgroup makes one, with a barrier.

    Attributes:
        joined: what is joined.
        part: the parts.
        parts: how many there are.
        factors: shared: of each head what its parts are multiplied by, then their sum.
    """

    joined: Joined
    part: Buffer
    parts: Expr
    factors: Buffer

    @classmethod
    def begin(cls, joined: Joined, thread: Thread, named: Mapping[str, Buffer]) -> Joining:
        """Finds what the parts of every head are multiplied by."""
        spec, share = joined.spec, joined.share
        part, stride, last = named["part"], share.parts + 1, spec.head_dim // 4
        parts = cut(spec, share, bind(named["table"][0, KV_LEN] + 1)).parts
        factors = shared((spec.heads * stride,))
        state, slices = local((3,)), slices_of(last)
        with T.serial(0, -(-spec.heads // thread.threads)) as turn:
            head = bind(turn * thread.threads + thread.t)
            with when(head < spec.heads):
                of = Slice(
                    parts,
                    slices,
                    lambda i: pair(part[0, head, i, last]),
                    sink=bind(named["sinks"][head] * number(LOG2E)) if spec.sinks else None,
                    factor=lambda i, value: store(factors, value, head * stride + i),
                )
                of.largest(state)
                of.add(0, state)
                store(state, state[1], 2)
                with T.serial(1, min(slices, share.parts + 1)) as z:
                    of.add(z, state)
                    store(state, state[2] + state[1], 2)
                store(factors, state[2], head * stride + share.parts)
        barrier()
        return cls(joined, part, parts, factors)

    def vector(self, at: Expr) -> Expr:
        """The ``at``-th four columns."""
        spec, share = self.joined.spec, self.joined.share
        vectors, stride = spec.head_dim // 4, share.parts + 1
        slices = slices_of(vectors)
        head, c = bind(T.floordiv(at, vectors)), bind(T.floormod(at, vectors))
        acc = local((2,), "float32x4")

        def add(z: Expr | int) -> None:
            store(acc, 0.0, 1)
            with T.serial(0, T.floordiv(self.parts - z + (slices - 1), slices)) as i:
                nth = bind(z + i * slices)
                factor = splat(self.factors[head * stride + nth])
                store(acc, fma(factor, self.part[0, head, nth, c], acc[1]), 1)

        add(0)
        store(acc, acc[1], 0)
        # Slices without a part add zero, as often as one likes.
        with T.serial(1, min(slices, share.parts + 1)) as z:
            add(z)
            store(acc, acc[0] + acc[1], 0)
        return bind(acc[0] / splat(self.factors[head * stride + share.parts]))
