"""How the ``cpu`` weight layout packs a linear of NP rows (padded to 32) and K columns.

A panel is 16 rows beside each other, one per lane. ``f32`` and ``f16`` hold values, [NP/16, K, 16].
Codes lie in runs of whole uint32, [NP/16, K*b/32, 16] for codes of b bits, with a float16 scale for
32 columns and, where a scheme has one, a minimum after it, [NP/16, K/32*numbers, 16]; of two levels
they are words, [NP/16, K/256*4, 16], and so are bytes with their unit, [NP/16, 1+K/128, 16].
`RUNS` and `group_numbers` take codes and numbers apart; `layouts.words` says what lies in them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T

from edgewise_compiler.kernels.cpu.vector import (
    bent,
    bent_bytes,
    bits,
    cast,
    lanes_of,
    let,
    lookup,
    shuffle_for,
    splat,
    widen,
)
from edgewise_compiler.kernels.function import Arg
from edgewise_compiler.quantize import SCHEMES, scale_words, table_bytes
from edgewise_compiler.quantize.scales import STEP
from edgewise_runtime.errors import CompileError
from edgewise_runtime.format.abi import GROUP, PANEL


@dataclass(frozen=True)
class Run:
    """The fewest columns whose codes fill words of their own.

    Attributes:
        words: how many words that is.
        fours: columns, by four.
        unpack: the words, vectors of uint32, to vectors of bytes in column order: four columns
            each, as uint32 too.
        table: the bytes that those stand for, by code; None where they are the integers.
        bend: where those of a scheme begin to lie two apart (`quantize.codes.Levels`), if they do.
    """

    words: int
    fours: int
    unpack: Callable[[Sequence[Expr]], list[Expr]]
    table: tuple[int, ...] | None = None
    bend: int | None = None

    def integers(self, words: Sequence[Expr], isa: str) -> list[Expr]:
        """The words as vectors of unsigned integers, four columns each, zero points included."""
        fours = self.unpack(words)
        if self.table is not None:
            return [lookup(four, self.table, isa) for four in fours]
        if self.bend is not None:
            return _bent(fours, words[-1], self.bend, isa)
        return fours

    @property
    def count(self) -> int:
        """Runs of a group of 32 columns."""
        return GROUP // 4 // self.fours


def masked(word: Expr, shift: int, mask: int) -> Expr:
    """``word`` shifted to the right, or left where that is negative, and masked."""
    lanes = lanes_of(word)
    by = splat(abs(shift), lanes, "uint32")
    value = word >> by if shift > 0 else word << by if shift else word
    return let(value & splat(mask, lanes, "uint32"))


def _halves(words: Sequence[Expr]) -> list[Expr]:
    return [masked(word, shift, 0x0F0F0F0F) for word in words for shift in (0, 4)]


def _split(words: Sequence[Expr], high_bits: int) -> list[Expr]:
    """Halves as of q4, and in the last word what is above them."""
    *low, rest = words
    mask = ((1 << high_bits) - 1) * 0x10101010
    high = [masked(rest, shift, mask) for shift in range(-4, 4, high_bits)]
    return [let(a | b) for a, b in zip(_halves(low), high, strict=True)]


def _bent(fours: Sequence[Expr], rest: Expr, bend: int, isa: str) -> list[Expr]:
    """What codes name where integers are bent, plus the zero point.

    Codes of four bits are looked up where there is an instruction for it. So are the lower four of
    five, in two tables: the bit above them, of column 4i+b bit i of byte b in ``rest``, chooses.
    """
    lanes = lanes_of(rest)
    if bend > 8 or shuffle_for(lanes, isa) is None:
        return [bent(four, bend) for four in fours]
    table = bent_bytes(bend)
    if len(table) == 16:
        return [lookup(four, table, isa) for four in fours]
    found, none = [], splat(0, lanes * 4, "uint8")
    for i, four in enumerate(fours):
        low = masked(four, 0, 0x0F0F0F0F)
        inner, outer = (lookup(low, half, isa) for half in (table[:16], table[16:]))
        high = bits(rest, "uint8") & splat(1 << i, lanes * 4, "uint8")
        chosen = T.Select(high == none, bits(inner, "uint8"), bits(outer, "uint8"))
        found.append(let(bits(let(chosen), "uint32")))
    return found


_CODES = {
    "uint8": Run(1, 1, list),
    "uint6": Run(3, 4, partial(_split, high_bits=2)),
    "uint5": Run(5, 8, partial(_split, high_bits=1)),
    "uint4": Run(1, 2, _halves),
}

RUNS = {
    name: replace(_CODES[scheme.code], table=table_bytes(name), bend=scheme.bend)
    for name, scheme in SCHEMES.items()
    if scheme.integer
}
"""By the scheme of integers."""

# Elements that hold 32 columns, and their type.
_ELEMENTS = {"f32": (GROUP, "float32"), "f16": (GROUP, "float16")} | {
    scheme: (run.words * run.count, "uint32") for scheme, run in RUNS.items()
}


def weight_args(scheme: str, NP: int, K: int) -> tuple[Arg, ...]:
    """The weight argument of a packed linear, and that of the scales and minima of quantized ones.

    Raises CompileError for shapes the layout cannot hold.
    """
    if NP % (2 * PANEL) or K % GROUP:
        raise CompileError(f"A packed linear of {NP} x {K} is not a multiple of 32 x 32.")
    count, dtype = _ELEMENTS[scheme]
    elements = K // GROUP * count
    weight = Arg("weight", dtype, (NP // PANEL, elements, PANEL))
    if scheme not in RUNS:
        return (weight,)
    found = SCHEMES[scheme]
    if found.bytes:
        return (weight, Arg("scale", "uint32", (NP // PANEL, scale_words(K // GROUP), PANEL)))
    if found.columns > GROUP:
        return (weight, Arg("scale", "uint32", (NP // PANEL, K // found.columns * 4, PANEL)))
    numbers = K // GROUP * len(found.groups)
    return (weight, Arg("scale", "float16", (NP // PANEL, numbers, PANEL)))


def group_numbers(scheme: str, element: Callable[[Expr], Expr], g: Expr, isa: str) -> list[Expr]:
    """What group ``g``'s integers are multiplied with, and what is taken off if any, float32.

    Args:
        element: the i-th of a row's numbers as they are stored, or of a panel's.
    """
    found = SCHEMES[scheme]
    if found.bytes:
        return [_of_byte(element(0), element(1 + g // 4), g % 4)]
    count = len(found.groups)
    if found.columns == GROUP:
        return [let(widen(element(g * count + i), isa)) for i in range(count)]
    each = found.columns // GROUP
    scales, minima, high, units = (let(element(g // each * 4 + i)) for i in range(4))
    lanes = lanes_of(units)

    def bits_of(word: Expr, mask: int) -> Expr:
        return (word >> splat(cast(g % each * 4, "uint32"), lanes)) & splat(mask, lanes, "uint32")

    def times(integer: Expr, shift: int) -> Expr:
        half = (units >> splat(shift, lanes, "uint32")) & splat(0xFFFF, lanes, "uint32")
        unit = let(widen(bits(let(cast(half, "uint16")), "float16"), isa))
        return let(cast(cast(integer, "int32"), "float32") * unit)

    two, four = splat(2, lanes, "uint32"), splat(4, lanes, "uint32")
    scale = let(bits_of(scales, 15) | (bits_of(high, 3) << four))
    minimum = let(bits_of(minima, 15) | (bits_of(high, 12) << two))
    return [times(scale, 0), times(minimum, 16)]


def _of_byte(unit: Expr, word: Expr, place: Expr) -> Expr:
    """The scale that byte ``place`` of a word stands for (`quantize.scales`)."""
    lanes = lanes_of(word)
    # The wanted byte goes to the top and comes back with its sign.
    up = let(word << splat(cast(24 - place * 8, "uint32"), lanes))
    number = let(cast(let(bits(up, "int32") >> splat(24, lanes, "int32")), "float32"))
    size = let(bits(bits(number, "uint32") & splat(0x7FFFFFFF, lanes, "uint32"), "float32"))
    return let(let(number * (size + splat(float(STEP), lanes))) * bits(unit, "float32"))
