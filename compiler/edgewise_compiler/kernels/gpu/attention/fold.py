"""What a workgroup holds of a part of decode attention while it adds one segment after another
(Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018)."""

from __future__ import annotations

from dataclasses import dataclass

from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer

from edgewise_compiler.kernels.gpu.attention.common import LOWEST
from edgewise_compiler.kernels.gpu.attention.merge import weight_of
from edgewise_compiler.kernels.gpu.operations import fma, number, splat, vector_of
from edgewise_compiler.kernels.gpu.thread import bind, local, store


@dataclass(frozen=True)
class Fold:
    """In a thread's registers: of each of its items, four elements of a head's o, with that head's
    m; and of one head m and l.

    Attributes:
        turns: items of a thread.
        outputs: float32x4, o of each item.
        largest: m of each item, then of the thread's head.
        total: l of the thread's head.
    """

    turns: int
    outputs: Buffer
    largest: Buffer
    total: Buffer

    @classmethod
    def of(cls, turns: int) -> Fold:
        """Of so many items a thread."""
        return cls(turns, local((turns,), "float32x4"), local((turns + 1,)), local((1,)))

    def clear(self) -> None:
        """Nothing is held: of what is added then, all bits stay."""
        store(self.total, 0.0, 0)
        store(self.largest, LOWEST, self.turns)
        for i in range(self.turns):
            store(self.outputs, 0.0, i)
            store(self.largest, LOWEST, i)

    def add_output(self, i: int, m: Expr, o: Expr) -> None:
        """Adds a segment to the ``i``-th item."""
        before, after = self._factors(i, m)
        earlier = bind(splat(before) * self.outputs[i])
        store(self.outputs, fma(splat(after), o, earlier), i)

    def add_total(self, m: Expr, l: Expr) -> None:
        """Adds a segment to the head's l."""
        before, after = self._factors(self.turns, m)
        store(self.total, fma(after, l, bind(before * self.total[0])), 0)

    def stats(self) -> Expr:
        """m and l of the head, and padding."""
        zero = number(0.0)
        return vector_of(self.largest[self.turns], self.total[0], zero, zero)

    def _factors(self, i: int, m: Expr) -> tuple[Expr, Expr]:
        """What is held is multiplied by the first, what comes by the second."""
        largest = bind(T.max(self.largest[i], m))
        before = bind(weight_of(self.largest[i], largest))
        store(self.largest, largest, i)
        return before, bind(weight_of(m, largest))
