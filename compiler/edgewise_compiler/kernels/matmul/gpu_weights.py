"""Reading packed weights on the GPU: 32 columns of a row at a time, whatever the scheme."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer

from edgewise_compiler.kernels.function import Arg
from edgewise_compiler.kernels.gpu import bind, bytes4, cast, half2, lane, number, u32, wgsl

GROUP = 32
VECTORS = GROUP // 4

_COLUMNS = {"f32": 1, "f16": 2, "q8": 4, "q4": 8}  # columns in a word of 32 bits
_OFFSET = {"q8": 128, "q4": 7}


@dataclass(frozen=True)
class GpuWeights:
    """A packed linear in the ``gpu`` layout, or a part of one: ``rows`` by ``k``, whole groups.

    Attributes:
        scheme: ``f32``, ``f16``, ``q8`` or ``q4``.
    """

    scheme: str
    rows: int
    k: int

    @property
    def groups(self) -> int:
        """Groups of 32 columns in a row."""
        return self.k // GROUP

    @property
    def scaled(self) -> bool:
        """Whether groups have scales, which come as a second buffer."""
        return self.scheme in _OFFSET

    def arguments(self) -> tuple[Arg, ...]:
        """The weight buffer as kernels see it, and the scales of an integer scheme."""
        dtype = "float32x4" if self.scheme == "f32" else "uint32x4"
        vectors = self.k // _COLUMNS[self.scheme] // 4
        weight = Arg("weight", dtype, (self.rows, vectors))
        if not self.scaled:
            return (weight,)
        return weight, Arg("scale", "uint32", (self.rows * self.groups // 2,))

    def group(
        self, buffers: Sequence[Buffer], row: Expr, g: Expr
    ) -> tuple[list[Expr], Expr | None]:
        """Columns 32g to 32g+31 of a row as eight float32x4, unscaled, and their scale if any.

        Loads, conversions and the scale are bound where this is called.
        """
        words = self._words(buffers[0], row, g)
        return words, self._scale(buffers[1], row, g) if self.scaled else None

    def _words(self, weight: Buffer, row: Expr, g: Expr) -> list[Expr]:
        count = GROUP // _COLUMNS[self.scheme] // 4
        loaded = [bind(weight[row, g * count + i]) for i in range(count)]
        if self.scheme == "f32":
            return loaded
        words = [bind(lane(vector, i)) for vector in loaded for i in range(4)]
        if self.scheme == "f16":
            pairs = [bind(half2(word)) for word in words]
            return [_four(pairs[2 * i], pairs[2 * i + 1]) for i in range(VECTORS)]
        offset = number(_OFFSET[self.scheme], "float32x4")
        if self.scheme == "q8":
            return [bind(cast(bytes4(word), "float32") - offset) for word in words]
        halves = [
            part
            for word in words
            for part in (word & u32(0x0F0F0F0F), (word >> u32(4)) & u32(0x0F0F0F0F))
        ]
        return [bind(cast(bytes4(half), "float32") - offset) for half in halves]

    def _scale(self, scale: Buffer, row: Expr, g: Expr) -> Expr:
        index = bind(row * self.groups + g)
        pair = bind(half2(scale[index >> 1]))
        return bind(T.Select((index & 1) == 0, lane(pair, 0), lane(pair, 1)))


def _four(low: Expr, high: Expr) -> Expr:
    """Two float32x2 as one float32x4."""
    return bind(wgsl("float32x4", "vec4<f32>", low, high))
