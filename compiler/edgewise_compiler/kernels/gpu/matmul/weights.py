"""Reading packed weights on the GPU: 32 columns of a row at a time, whatever the scheme."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer

from edgewise_compiler.kernels.function import Arg
from edgewise_compiler.kernels.gpu.operations import (
    bits,
    join,
    lane,
    lanes_of,
    number,
    u32,
    unpack_halves,
    vector_of,
)
from edgewise_compiler.kernels.gpu.thread import bind
from edgewise_compiler.quantize import ZERO_POINT
from edgewise_runtime.format.abi import GROUP

VECTORS = GROUP // 4

# What the weight buffer consists of, and how many of it are a group, for kernels that load groups.
_GROUPS = {
    "f32": ("float32x4", 8),
    "f16": ("uint32x4", 4),
    "q8": ("uint32x4", 2),
    "q6": ("uint32x2", 3),
    "q5": ("uint32", 5),
    "q4": ("uint32x4", 1),
}
# The same for kernels that load 8 columns at a time.
_OCTETS = {
    "f32": ("float32x4", 8),
    "f16": ("uint32x4", 4),
    "q8": ("uint32x2", 4),
    "q6": ("uint32", 6),
    "q5": ("uint32", 5),
    "q4": ("uint32", 4),
}
# Bits of a code that lie in a word of their own, behind the halves of as many columns as fill it.
_HIGH_BITS = {"q6": 2, "q5": 1}
_TWO_TO_23 = 0x4B000000  # the bits of that float32


@dataclass(frozen=True)
class GpuWeights:
    """A packed linear in the ``gpu`` layout, or a part of one: ``rows`` by ``k``, whole groups.

    Attributes:
        scheme: ``f32``, ``f16``, ``q8``, ``q6``, ``q5`` or ``q4``.
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
        return self.scheme in ZERO_POINT

    def arguments(self) -> tuple[Arg, ...]:
        """The weight buffer as kernels see it, and the scales of an integer scheme."""
        dtype, count = _GROUPS[self.scheme]
        weight = Arg("weight", dtype, (self.rows, self.groups * count))
        if not self.scaled:
            return (weight,)
        return weight, Arg("scale", "uint32", (self.rows * self.groups // 2,))

    def octet_arguments(self) -> tuple[Arg, ...]:
        """The same buffers for kernels that read 8 columns at a time (`octet`)."""
        dtype, count = _OCTETS[self.scheme]
        weight = Arg("weight", dtype, (self.rows, self.groups * count))
        return weight, *self.arguments()[1:]

    def octet(self, buffers: Sequence[Buffer], row: Expr, c: Expr) -> list[Expr]:
        """Columns 8c to 8c+7 of a row as two float32x4, multiplied with their scale."""
        vectors = self.unpack(self.load(buffers, row, c))
        if not self.scaled:
            return vectors
        scale = self.scale(buffers, row, T.floordiv(c, VECTORS // 2))
        return [bind(vector * scale) for vector in vectors]

    def load(self, buffers: Sequence[Buffer], row: Expr, c: Expr) -> list[Expr]:
        """What is stored of columns 8c to 8c+7 of a row, for `unpack`.

        Args:
            buffers: those of `octet_arguments`.
        """
        weight = buffers[0]
        if self.scheme == "f32":
            return [bind(weight[row, c * 2]), bind(weight[row, c * 2 + 1])]
        if self.scheme in _HIGH_BITS:
            low, high, shift = (bind(number_) for number_ in self._split(c))
            return [bind(weight[row, low]), bind(weight[row, high] >> u32(shift))]
        return _words(bind(weight[row, c]))

    def _split(self, octet: Any) -> tuple[Any, Any, Any]:
        """Where low and high bits of 8 columns lie: two words, and how far to shift the second."""
        shift = 2 * _HIGH_BITS[self.scheme]
        octets = 8 // shift
        first, place = octet // octets * (octets + 1), octet % octets
        return first + place, first + octets, place * shift

    def group(
        self, buffers: Sequence[Buffer], row: Expr, g: Expr
    ) -> tuple[list[Expr], Expr | None]:
        """Columns 32g to 32g+31 of a row as eight float32x4, unscaled, and their scale if any.

        Loads, conversions and the scale are bound where this is called.
        """
        words = self.group_words(buffers[0], row, g)
        vectors = [v for octet in range(GROUP // 8) for v in self.unpack_octet(words, octet)]
        return vectors, self.scale(buffers, row, g) if self.scaled else None

    def group_words(self, weight: Buffer, row: Expr, g: Expr) -> list[Expr]:
        """What is stored of columns 32g to 32g+31 of a row, for `unpack_octet`.

        Args:
            weight: the first of `arguments`.
        """
        count = _GROUPS[self.scheme][1]
        loaded = [bind(weight[row, g * count + i]) for i in range(count)]
        if self.scheme == "f32":
            return loaded
        return [word for vector in loaded for word in _words(vector)]

    def unpack_octet(self, words: Sequence[Expr], octet: int) -> list[Expr]:
        """Columns 8·octet to 8·octet+7 of a group as two float32x4, unscaled."""
        if self.scheme in _HIGH_BITS:
            low, high, shift = self._split(octet)
            return self.unpack(
                [words[low], bind(words[high] >> u32(shift) if shift else words[high])]
            )
        each = len(words) * 8 // GROUP
        return self.unpack(list(words[octet * each : (octet + 1) * each]))

    def unpack(self, words: list[Expr]) -> list[Expr]:
        """What `load` gives as two float32x4, unscaled, in the order of the columns."""
        if self.scheme == "f32":
            return words
        if self.scheme == "f16":
            pairs = [bind(unpack_halves(word)) for word in words]
            return [_four(low, high) for low, high in zip(pairs[::2], pairs[1::2], strict=True)]
        if self.scheme == "q4":
            return [self._whole(words[0], start, 0xF) for start in (0, 4)]
        return [self._whole(word, 0, 0xFF) for word in self.codes(words)]

    def codes(self, words: list[Expr]) -> list[Expr]:
        """What `load` gives of an integer scheme as two words of four codes, one a byte."""
        if self.scheme == "q8":
            return words
        halves = [words[0] & u32(0x0F0F0F0F), (words[0] >> u32(4)) & u32(0x0F0F0F0F)]
        if self.scheme in _HIGH_BITS:
            # The high bits of columns 0 to 3 are the lowest of a byte, then columns 4 to 7's.
            high = _HIGH_BITS[self.scheme]
            mask = u32(((1 << high) - 1) * 0x10101010)
            rest = [(words[1] << u32(shift)) & mask for shift in (4, 4 - high)]
            halves = [low | high for low, high in zip(halves, rest, strict=True)]
        return [bind(half) for half in halves]

    def _whole(self, word: Expr, start: int, mask: int) -> Expr:
        """The integers that begin ``start`` bits into each byte of a word.

        Put into the low bits of the float 2**23 they are that float plus the integer; the
        difference is exact. Converting integers is several times slower on many GPUs.
        """
        numbers = [
            ((word >> u32(8 * i + start) if i + start else word) & u32(mask)) | u32(_TWO_TO_23)
            for i in range(4)
        ]
        biased = bits(bind(vector_of(*numbers)), "float32")
        return bind(biased - number(2.0**23 + ZERO_POINT[self.scheme], "float32x4"))

    def scale(self, buffers: Sequence[Buffer], row: Expr, g: Expr) -> Expr:
        """The scale of a row's group g, float32."""
        index = bind(row * self.groups + g)
        pair = bind(unpack_halves(buffers[1][index >> 1]))
        return bind(T.Select((index & 1) == 0, lane(pair, 0), lane(pair, 1)))


def _words(loaded: Expr) -> list[Expr]:
    """What is loaded at once, by 32 bits."""
    lanes = lanes_of(loaded)
    return [loaded] if lanes == 1 else [bind(lane(loaded, i)) for i in range(lanes)]


def _four(low: Expr, high: Expr) -> Expr:
    """Two float32x2 as one float32x4."""
    return bind(join(low, high))
