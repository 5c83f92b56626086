"""Reading packed weights on the GPU: 32 columns of a row at a time, whatever the scheme."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any

from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer

from edgewise_compiler.kernels.function import Arg
from edgewise_compiler.kernels.gpu.operations import (
    bits,
    f32,
    fma,
    i32,
    join,
    lane,
    lanes_of,
    magnitude,
    number,
    splat,
    u32,
    unpack_halves,
    vector_of,
)
from edgewise_compiler.kernels.gpu.thread import (
    Thread,
    barrier,
    bind,
    local,
    shared,
    store,
    when,
)
from edgewise_compiler.quantize import SCHEMES, TABLES, ZERO_POINT, scale_words
from edgewise_compiler.quantize.scales import STEP
from edgewise_runtime.format.abi import GROUP

VECTORS = GROUP // 4

# What the weight buffer consists of, and how many of it are a group, for kernels that load groups;
# by type of code.
_GROUPS = {
    "float32": ("float32x4", 8),
    "float16": ("uint32x4", 4),
    "uint8": ("uint32x4", 2),
    "uint6": ("uint32x2", 3),
    "uint5": ("uint32", 5),
    "uint4": ("uint32x4", 1),
}
# The same for kernels that load 8 columns at a time, and below 16.
_OCTETS = {
    "float32": ("float32x4", 8),
    "float16": ("uint32x4", 4),
    "uint8": ("uint32x2", 4),
    "uint6": ("uint32", 6),
    "uint5": ("uint32", 5),
    "uint4": ("uint32", 4),
}
_PAIRS = {**_OCTETS, "uint8": ("uint32x4", 2), "uint4": ("uint32x2", 2)}
# Bits of a code that lie in a word of their own, behind the halves of as many columns as fill it.
_HIGH_BITS = {"uint6": 2, "uint5": 1}
_OCTET = 8
_MANTISSA = 23  # bits of a float32's
_EXPONENT_OF_ONE = 127


@dataclass(frozen=True)
class GpuWeights:
    """A packed linear in the ``gpu`` layout, or a part of one: ``rows`` by ``k``, whole groups.

    Attributes:
        scheme: a name of `quantize.SCHEMES`.
        table: what its codes stand for, once `begun` has put that there.
    """

    scheme: str
    rows: int
    k: int
    table: Buffer | None = None

    def begun(self, dtype: str = "float32", team: Thread | None = None) -> GpuWeights:
        """Weights to unpack from here on: those whose codes name values have them in memory now.

        An array that is indexed by what is loaded costs some GPUs their registers; memory that
        threads share does not, but there has to be some left, and it takes a barrier.

        Args:
            dtype: ``float32``, or ``uint32`` for `int8_words`.
            team: this thread, if its workgroup shares one table. All of them must come here.
        """
        if self.scheme not in TABLES:
            return self
        values = TABLES[self.scheme]
        if dtype == "uint32":
            values = tuple(value & 0xFF for value in values)
        if team is None:
            table = _filled(local((len(values),), dtype), values)
        else:
            table = shared((len(values),), dtype)
            with when(team.t == 0):
                _filled(table, values)
            barrier()
        return replace(self, table=table)

    @property
    def code(self) -> str:
        """The type of its codes."""
        return SCHEMES[self.scheme].code

    @property
    def bend(self) -> int | None:
        """Where its integers begin to lie two apart (`quantize.codes.Levels`), if they do."""
        return SCHEMES[self.scheme].bend

    @property
    def groups(self) -> int:
        """Groups of 32 columns in a row."""
        return self.k // GROUP

    @property
    def run(self) -> int:
        """Columns that a thread of a matrix-vector product reads together: 16 to 32 bytes."""
        return GROUP if self.scaled else _OCTET

    @property
    def scaled(self) -> bool:
        """Whether groups have scales, which come as a second buffer."""
        return self.scheme in ZERO_POINT

    @property
    def shifted(self) -> bool:
        """Whether groups have a minimum too, beside their scale."""
        return "min" in SCHEMES[self.scheme].groups

    def arguments(self) -> tuple[Arg, ...]:
        """The weight buffer as kernels see it, and of an integer scheme the scales (and minima)."""
        dtype, count = _GROUPS[self.code]
        weight = Arg("weight", dtype, (self.rows, self.groups * count))
        if not self.scaled:
            return (weight,)
        found = SCHEMES[self.scheme]
        if found.bytes:
            return weight, Arg("scale", "uint32", (self.rows, scale_words(self.groups)))
        if found.columns > GROUP:
            return weight, Arg("scale", "uint32x4", (self.rows * self.k // found.columns,))
        return weight, Arg("scale", "uint32", (self.rows * self.groups * len(found.groups) // 2,))

    def octet_arguments(self, count: int = 1) -> tuple[Arg, ...]:
        """The same buffers for kernels that read ``count`` times 8 columns together (`octets`)."""
        dtype, each = (_OCTETS if count == 1 else _PAIRS)[self.code]
        weight = Arg("weight", dtype, (self.rows, self.groups * each))
        return weight, *self.arguments()[1:]

    def octets(self, buffers: Sequence[Buffer], row: Expr, c: Expr, count: int) -> list[Expr]:
        """The 8·count columns of a row from 8c on, float32x4, what they stand for.

        Args:
            buffers: those of ``octet_arguments(count)``.
            c: a multiple of ``count``, which is 1 or 2.
        """
        if count == 2 and _PAIRS[self.code] != _OCTETS[self.code]:
            words = _words(bind(buffers[0][row, T.floordiv(c, count)]))
            each = len(words) // count
            loaded = [words[i * each : (i + 1) * each] for i in range(count)]
        else:
            loaded = [self.load(buffers, row, bind(c + i)) for i in range(count)]
        vectors = [vector for octet in loaded for vector in self.unpack(octet)]
        if not self.scaled:
            return vectors
        numbers = self.numbers(buffers, row, bind(T.floordiv(c, GROUP // _OCTET)))
        return [bind(_value(vector, *numbers)) for vector in vectors]

    def load(self, buffers: Sequence[Buffer], row: Expr, c: Expr) -> list[Expr]:
        """What is stored of columns 8c to 8c+7 of a row, for `unpack`.

        Args:
            buffers: those of ``octet_arguments()``.
        """
        weight = buffers[0]
        if self.code == "float32":
            return [bind(weight[row, c * 2]), bind(weight[row, c * 2 + 1])]
        if self.code in _HIGH_BITS:
            low, high, shift = (bind(number_) for number_ in self._split(c))
            return [bind(weight[row, low]), bind(weight[row, high] >> u32(shift))]
        return _words(bind(weight[row, c]))

    def _split(self, octet: Any) -> tuple[Any, Any, Any]:
        """Where low and high bits of 8 columns lie: two words, and how far to shift the second."""
        shift = 2 * _HIGH_BITS[self.code]
        octets = 8 // shift
        first, place = octet // octets * (octets + 1), octet % octets
        return first + place, first + octets, place * shift

    @property
    def run_loads(self) -> tuple[str, int]:
        """What a run is read as: the type of a load, and how many there are."""
        dtype, count = _GROUPS[self.code]
        return dtype, count * self.run // GROUP

    def load_run(self, weight: Buffer, row: Expr, c: Expr) -> list[Expr]:
        """The loads of a row's c-th run, for `unpack_run`.

        Args:
            weight: the first of `arguments`.
        """
        count = self.run_loads[1]
        return [weight[row, c * count + i] for i in range(count)]

    def unpack_run(self, loaded: Sequence[Expr]) -> Iterator[list[Expr]]:
        """A run's columns by eights, each as two float32x4, unscaled."""
        words = self._split_loads(loaded)
        if not self.scaled:
            yield self.unpack(words)
            return
        for octet in range(GROUP // _OCTET):
            yield self.unpack_octet(words, octet)

    def group(self, buffers: Sequence[Buffer], row: Expr, g: Expr) -> list[Expr]:
        """Columns 32g to 32g+31 of a row as eight float32x4, what they stand for.

        Loads, conversions and the scale are bound where this is called.
        """
        words = self.group_words(buffers[0], row, g)
        vectors = [v for octet in range(GROUP // _OCTET) for v in self.unpack_octet(words, octet)]
        if not self.scaled:
            return vectors
        numbers = self.numbers(buffers, row, g)
        return [_value(vector, *numbers) for vector in vectors]

    def group_words(self, weight: Buffer, row: Expr, g: Expr) -> list[Expr]:
        """What is stored of columns 32g to 32g+31 of a row, for `unpack_octet`.

        Args:
            weight: the first of `arguments`.
        """
        count = _GROUPS[self.code][1]
        return self._split_loads([bind(weight[row, g * count + i]) for i in range(count)])

    def _split_loads(self, loaded: Sequence[Expr]) -> list[Expr]:
        """What is loaded together, by 32 bits; vectors of floats as they are."""
        if self.code == "float32":
            return list(loaded)
        return [word for vector in loaded for word in _words(vector)]

    def unpack_octet(self, words: Sequence[Expr], octet: int) -> list[Expr]:
        """Columns 8·octet to 8·octet+7 of a group as two float32x4, unscaled."""
        if self.code in _HIGH_BITS:
            low, high, shift = self._split(octet)
            rest = bind(words[high] >> u32(shift)) if shift else words[high]
            return self.unpack([words[low], rest])
        each = len(words) * _OCTET // GROUP
        return self.unpack(list(words[octet * each : (octet + 1) * each]))

    def unpack(self, words: list[Expr]) -> list[Expr]:
        """What `load` gives as two float32x4, unscaled, in the order of the columns."""
        if self.code == "float32":
            return words
        if self.code == "float16":
            pairs = [bind(unpack_halves(word)) for word in words]
            return [_four(low, high) for low, high in zip(pairs[::2], pairs[1::2], strict=True)]
        if self.table is not None:
            return [bind(vector_of(*_looked_up(self.table, words[0], start))) for start in (0, 4)]
        if self.code == "uint4":
            return self._whole(words[0], 4, (0, 4))
        return [value for word in self._codes(words) for value in self._whole(word, 8, (0,))]

    def int8_words(self, words: list[Expr]) -> list[Expr]:
        """What `load` gives of an integer scheme as two words of four int8, unscaled."""
        if self.table is not None:
            return [_bytes_of(_looked_up(self.table, words[0], start)) for start in (0, 4)]
        codes, tops = self._codes(words), u32(0x80808080)
        if self.bend is not None:
            codes = [_bent_bytes(four, self.bend) for four in codes]
        if self.code == "uint8":
            # What is stored is the integer plus 128: turning the top bit makes it signed.
            return [bind(four ^ tops) for four in codes]
        # Minus the zero point in every byte at once: the top bits keep borrows from crossing.
        zeros = u32(ZERO_POINT[self.scheme] * 0x01010101)
        return [bind(((four | tops) - zeros) ^ tops) for four in codes]

    def _codes(self, words: list[Expr]) -> list[Expr]:
        """What `load` gives of an integer scheme as two words of four codes, one a byte."""
        if self.code == "uint8":
            return words
        halves = [words[0] & u32(0x0F0F0F0F), (words[0] >> u32(4)) & u32(0x0F0F0F0F)]
        if self.code in _HIGH_BITS:
            # The high bits of columns 0 to 3 are the lowest of a byte, then columns 4 to 7's.
            high = _HIGH_BITS[self.code]
            mask = u32(((1 << high) - 1) * 0x10101010)
            rest = [(words[1] << u32(shift)) & mask for shift in (4, 4 - high)]
            halves = [low | high for low, high in zip(halves, rest, strict=True)]
        return [bind(half) for half in halves]

    def _whole(self, word: Expr, width: int, starts: Sequence[int]) -> list[Expr]:
        """The integers of ``width`` bits that begin so many bits into each byte, a vector a start.

        Where such bits lie in a float's mantissa they are worth one each if the exponent is right:
        masked, with those of the exponent put in, they are a power of two plus the integer, and the
        difference is exact. So bits need not be moved, but for those that lie in the exponent
        themselves. Converting integers is several times slower on many GPUs.
        """
        reach = _MANTISSA - width  # the highest place of a code
        away = 12 if width == 4 else 16  # brings the code in bits 16 to 31 within reach
        moved = bind(word >> u32(away))
        found = []
        for start in starts:
            places = [start + 8 * i for i in range(4)]
            source = vector_of(*(word if place <= reach else moved for place in places))
            places = [place if place <= reach else place - away for place in places]
            mask = vector_of(*(u32(((1 << width) - 1) << place) for place in places))
            powers = [_MANTISSA - place for place in places]
            exponents = (u32((_EXPONENT_OF_ONE + power) << _MANTISSA) for power in powers)
            biased = bits(bind((source & mask) | vector_of(*exponents)), "float32")
            zeros = (f32(2.0**power + self._zero) for power in powers)
            found.append(self._bent(bind(biased - vector_of(*zeros))))
        return found

    @property
    def _zero(self) -> int:
        """The code of zero."""
        return ZERO_POINT[self.scheme] if self.bend is None else 2 * self.bend

    def _bent(self, numbers: Expr) -> Expr:
        """The integers that numbers name, float32x4 both (`quantize.codes.Levels`)."""
        if self.bend is None:
            return numbers
        least, most = (number(end, "float32x4") for end in (-self.bend, self.bend))
        return bind(numbers + (numbers - T.max(T.min(numbers, most), least)))

    def numbers(self, buffers: Sequence[Buffer], row: Expr, g: Expr) -> list[Expr]:
        """What a row's group g multiplies its integers with, and what it adds if any, float32."""
        found = SCHEMES[self.scheme]
        if found.bytes:
            return [_of_byte(buffers[1][row, 0], buffers[1][row, 1 + (g >> 2)], g & 3)]
        each = found.columns // GROUP
        if each > 1:
            of_super = bind(T.floordiv(g, each))
            words = bind(buffers[1][row * (self.groups // each) + of_super])
            return two_levels([lane(words, i) for i in range(4)], u32((g - of_super * each) * 4))
        index = bind(row * self.groups + g)
        if self.shifted:
            pair = bind(unpack_halves(buffers[1][index]))
            return [bind(lane(pair, 0)), bind(f32(0.0) - lane(pair, 1))]
        pair = bind(unpack_halves(buffers[1][index >> 1]))
        return [bind(T.Select((index & 1) == 0, lane(pair, 0), lane(pair, 1)))]


def _bent_bytes(codes: Expr, bend: int) -> Expr:
    """Four codes, a byte each, as the integers that they name, plus the scheme's zero point.

    The two highest of a code's bits say where it lies: it counts itself, ``bend`` more unless both
    are 0, and its lower bits once more where the two are alike, in the outer quarters.
    """
    ones = 0x01010101
    above = bind(codes >> u32(1))
    alike = bind(u32(bend * ones) - ((codes ^ above) & u32(bend * ones)))
    lower = bind(alike - (alike >> u32(bend.bit_length() - 1)))
    return bind(codes + (codes & lower) + ((codes | above) & u32(bend * ones)))


def _of_byte(unit: Expr, word: Expr, place: Expr) -> Expr:
    """The scale that byte ``place`` of a word stands for (`quantize.scales`)."""
    # The wanted byte goes to the top and comes back with its sign.
    up = bind(word << u32(24 - place * 8))
    value = bind(f32(bits(up, "int32") >> i32(24)))
    return bind(bind(value * (magnitude(value) + f32(float(STEP)))) * bits(unit, "float32"))


def two_levels(words: Sequence[Expr], shift: Expr) -> list[Expr]:
    """Scale and shift of the group whose numbers begin ``shift`` bits into the first three words.

    The fourth has what both are multiplied with; the products are exact.
    """
    pair = bind(unpack_halves(words[3]))
    low = [(word >> shift) & u32(15) for word in words[:2]]
    high = bind((words[2] >> shift) & u32(15))
    scale = bind(f32(low[0] | ((high & u32(3)) << u32(4))))
    minimum = bind(f32(low[1] | ((high & u32(12)) << u32(2))))
    return [bind(scale * lane(pair, 0)), bind(f32(0.0) - minimum * lane(pair, 1))]


def _value(vector: Expr, scale: Expr, shift: Expr | None = None) -> Expr:
    return vector * scale if shift is None else fma(vector, splat(scale), splat(shift))


def sum_lanes(vectors: Sequence[Expr]) -> Expr:
    """The lanes of float vectors, added up in order."""
    first, *others = (lane(vector, i) for vector in vectors for i in range(lanes_of(vector)))
    return reduce(add, others, first)


def _filled(table: Buffer, values: Sequence[int]) -> Buffer:
    for code, value in enumerate(values):
        store(table, value, code)
    return table


def _looked_up(table: Buffer, word: Expr, start: int) -> list[Expr]:
    """The table's values for the codes that begin ``start`` bits into each byte of a word."""
    shifts = (8 * i + start for i in range(4))
    codes = [(word >> u32(shift) if shift else word) & u32(0xF) for shift in shifts]
    return [bind(table[i32(code)]) for code in codes]


def _bytes_of(numbers: Sequence[Expr]) -> Expr:
    """Four numbers below 256 as the bytes of a word, the first one lowest."""
    word, *others = numbers
    for i, number_ in enumerate(others, 1):
        word = word | (number_ << u32(8 * i))
    return bind(word)


def _words(loaded: Expr) -> list[Expr]:
    """What is loaded at once, by 32 bits."""
    lanes = lanes_of(loaded)
    return [loaded] if lanes == 1 else [bind(lane(loaded, i)) for i in range(lanes)]


def _four(low: Expr, high: Expr) -> Expr:
    """Two float32x2 as one float32x4."""
    return bind(join(low, high))
