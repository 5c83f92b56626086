"""Exact integer dot products of one group (32 columns), a way for each instruction set.

All return int32x16 per row and panel: ``start + sum(code * activation)`` over the group, where code
is the unsigned stored weight. They agree to the bit because nothing in them rounds or saturates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, Shuffle

from edgewise_compiler.kernels.cpu.matmul.tiles import Shapes, Tile
from edgewise_compiler.kernels.cpu.vector import (
    bits,
    cast,
    lanes_of,
    let,
    llvm,
    load,
    register,
    splat,
    store,
)
from edgewise_compiler.kernels.function import block

STEPS = {4: 4, 8: 8}  # words of a row in a group, by bits of a weight


class Operands(NamedTuple):
    """Where a group's numbers come from.

    Attributes:
        word: (panel of the tile, step) -> uint32x16, packed weights of 16 rows; each step once.
        four: (row of the tile, index) -> int32, four int8 activations, columns 4*index and on.
        starts: int32 for each row of the tile: what takes the zero point off the codes.
    """

    word: Callable[[int, Any], Expr]
    four: Callable[[int, Any], Expr]
    starts: Sequence[Expr]


Group = Callable[[Tile, Operands], list[list[Expr]]]


class Dot(NamedTuple):
    """A way to compute groups and the tiles that suit its registers."""

    group: Group
    shapes: Shapes


def _mask(word: Expr, shift: int, mask: int, lanes: int = 16) -> Expr:
    value = word >> splat(shift, lanes, "uint32") if shift else word
    return let(value & splat(mask, lanes, "uint32"))


def _increase(sum_: Buffer, by: Expr) -> None:
    store(sum_, load(sum_, 0, lanes=lanes_of(by)) + by, 0)


def _grid(tile: Tile, value: Callable[[int, int], Any]) -> list[list[Any]]:
    return [[value(r, p) for p in range(tile.panels)] for r in range(tile.rows)]


def _quads(bits_: int, word: Expr) -> list[Expr]:
    """One word as vectors of bytes in column order: four columns each, uint32x16."""
    return [word] if bits_ == 8 else [_mask(word, shift, 0x0F0F0F0F) for shift in (0, 4)]


def _vnni(bits_: int) -> Group:
    """vpdpbusd: four unsigned times four signed bytes into an int32, without saturation."""

    def group(tile: Tile, operands: Operands) -> list[list[Expr]]:
        sums = _grid(tile, lambda r, p: splat(operands.starts[r]))
        for step in range(STEPS[bits_]):
            words = [_quads(bits_, operands.word(p, step)) for p in range(tile.panels)]
            for part in range(len(words[0])):
                for r in range(tile.rows):
                    four = splat(operands.four(r, step * len(words[0]) + part))
                    for p in range(tile.panels):
                        sums[r][p] = let(
                            llvm(
                                "int32x16",
                                "llvm.x86.avx512.vpdpbusd.512",
                                sums[r][p],
                                bits(words[p][part], "int8"),
                                bits(four, "int8"),
                            )
                        )
        return sums

    return group


def _halves(word: Expr) -> list[Expr]:
    return [let(Shuffle([word], list(range(first, first + 8)))) for first in (0, 8)]


def _join(halves: list[Expr]) -> Expr:
    return let(Shuffle(halves, list(range(16))))


def _avx2_q4(tile: Tile, operands: Operands) -> list[list[Expr]]:
    """vpmaddubsw: pairs of products add up in int16, where 32 of at most 15 * 127 fit."""
    sums = [_grid(tile, lambda r, p: splat(0, 16, "int16")) for _ in range(2)]
    for step in range(STEPS[4]):
        words = [_quads(4, operands.word(p, step)) for p in range(tile.panels)]
        for part in range(2):
            quads = [_halves(word[part]) for word in words]
            for r in range(tile.rows):
                four = splat(operands.four(r, step * 2 + part), 8)
                for p in range(tile.panels):
                    for half in range(2):
                        pairs = llvm(
                            "int16x16",
                            "llvm.x86.avx2.pmadd.ub.sw",
                            bits(quads[p][half], "int8"),
                            bits(four, "int8"),
                        )
                        sums[half][r][p] = let(sums[half][r][p] + pairs)
    ones = splat(1, 16, "int16")

    def total(r: int, p: int) -> Expr:
        wide = [llvm("int32x8", "llvm.x86.avx2.pmadd.wd", sums[h][r][p], ones) for h in range(2)]
        return let(_join(wide) + splat(operands.starts[r]))

    return _grid(tile, total)


def _avx2_q8(tile: Tile, operands: Operands) -> list[list[Expr]]:
    """vpmaddwd on even and odd bytes widened to int16: 255 * 127 would saturate vpmaddubsw."""
    sums = [_grid(tile, lambda r, p: register(splat(0, 8, "int32"))) for _ in range(2)]
    eight = splat(8, 16, "int16")
    with T.serial(STEPS[8]) as step, block("step"):
        words = [operands.word(p, step) for p in range(tile.panels)]
        parts = [[_halves(_mask(w, shift, 0x00FF00FF)) for w in words] for shift in (0, 8)]
        for r in range(tile.rows):
            four = let(bits(splat(operands.four(r, step), 8), "int16"))
            for odd, pairs in enumerate((let((four << eight) >> eight), let(four >> eight))):
                for p in range(tile.panels):
                    for half in range(2):
                        codes = bits(parts[odd][p][half], "int16")
                        products = llvm("int32x8", "llvm.x86.avx2.pmadd.wd", codes, pairs)
                        _increase(sums[half][r][p], products)

    def total(r: int, p: int) -> Expr:
        return _join([load(sums[h][r][p], 0, lanes=8) for h in range(2)]) + splat(
            operands.starts[r]
        )

    return _grid(tile, total)


def _portable_q4(tile: Tile, operands: Operands) -> list[list[Expr]]:
    """int16 products and sums: a lane adds up 16 products of at most 15 * 127."""
    sums = _grid(tile, lambda r, p: register(splat(0, 32, "int16")))
    eight = splat(8, 32, "int16")
    with T.serial(STEPS[4]) as step, block("step"):
        words = [operands.word(p, step) for p in range(tile.panels)]
        for part in range(2):
            # Columns 0 and 2, then 1 and 3, of four: one to each int16 of a lane.
            codes = [
                [bits(_mask(w, part * 4 + odd * 8, 0x000F000F), "int16") for w in words]
                for odd in range(2)
            ]
            for r in range(tile.rows):
                four = let(bits(splat(operands.four(r, step * 2 + part)), "int16"))
                for odd, pairs in enumerate((let((four << eight) >> eight), let(four >> eight))):
                    for p in range(tile.panels):
                        _increase(sums[r][p], codes[odd][p] * pairs)
    sixteen = splat(16, 16, "int32")

    def total(r: int, p: int) -> Expr:
        both = let(bits(load(sums[r][p], 0, lanes=32), "int32"))
        pair = ((both << sixteen) >> sixteen) + (both >> sixteen)
        return let(pair + splat(operands.starts[r]))

    return _grid(tile, total)


def _portable_q8(tile: Tile, operands: Operands) -> list[list[Expr]]:
    """int32 products of single bytes."""
    sums = _grid(tile, lambda r, p: register(splat(operands.starts[r])))
    with T.serial(STEPS[8]) as step, block("step"):
        words = [operands.word(p, step) for p in range(tile.panels)]
        for byte in range(4):
            codes = [cast(_mask(word, byte * 8, 0xFF), "int32") for word in words]
            for r in range(tile.rows):
                # The wanted byte goes to the top and comes back with its sign.
                value = (operands.four(r, step) << T.int32(24 - byte * 8)) >> T.int32(24)
                for p in range(tile.panels):
                    _increase(sums[r][p], codes[p] * splat(value))
    return _grid(tile, lambda r, p: load(sums[r][p], 0))


_FOURS = Shapes(Tile(4, 1), Tile(4, 1))

DOTS: dict[tuple[str, int], Dot] = {
    ("avx512vnni", 4): Dot(_vnni(4), Shapes(Tile(8, 1), Tile(4, 2))),
    ("avx512vnni", 8): Dot(_vnni(8), Shapes(Tile(8, 1), Tile(8, 1))),
    ("avx2", 4): Dot(_avx2_q4, _FOURS),
    ("avx2", 8): Dot(_avx2_q8, _FOURS),
    ("portable", 4): Dot(_portable_q4, _FOURS),
    ("portable", 8): Dot(_portable_q8, _FOURS),
}
