"""Exact integer dot products of one group (32 columns), a way for each instruction set.

All return int32x16 per row and panel: ``start + sum(code * activation)`` over the group, where code
is the unsigned stored weight. They agree to the bit because nothing in them rounds or saturates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import add
from typing import Any, NamedTuple

from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, Shuffle

from edgewise_compiler.kernels.cpu.matmul.layout import RUNS, Run, masked
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


class Operands(NamedTuple):
    """Where a group's numbers come from.

    Attributes:
        word: (panel of the tile, index) -> uint32x16, a word of 16 rows; each word of a group once.
        four: (row of the tile, index) -> int32, four int8 activations, columns 4*index and on.
        starts: int32 for each row of the tile: what takes the zero point off the codes.
        sum: row of the tile -> int32, the sum of its activations.
        isa: the instruction set that they are unpacked with.
    """

    word: Callable[[int, Any], Expr]
    four: Callable[[int, Any], Expr]
    starts: Sequence[Expr]
    sum: Callable[[int], Expr]
    isa: str


Group = Callable[[Tile, Operands], list[list[Expr]]]


class Dot(NamedTuple):
    """A way to compute groups and the tiles that suit its registers."""

    group: Group
    shapes: Shapes


def _increase(sum_: Buffer, by: Expr) -> None:
    store(sum_, load(sum_, 0, lanes=lanes_of(by)) + by, 0)


def _grid(tile: Tile, value: Callable[[int, int], Any]) -> list[list[Any]]:
    return [[value(r, p) for p in range(tile.panels)] for r in range(tile.rows)]


def _fours(run: Run, tile: Tile, operands: Operands, at: Expr | int) -> list[list[Expr]]:
    """Run ``at`` of a group, unpacked, for each panel."""
    return [
        run.integers([operands.word(p, at * run.words + i) for i in range(run.words)], operands.isa)
        for p in range(tile.panels)
    ]


def _vnni(run: Run) -> Group:
    """vpdpbusd: four unsigned times four signed bytes into an int32, without saturation."""

    def group(tile: Tile, operands: Operands) -> list[list[Expr]]:
        sums = _grid(tile, lambda r, p: splat(operands.starts[r]))
        for at in range(run.count):
            codes = _fours(run, tile, operands, at)
            for part in range(run.fours):
                for r in range(tile.rows):
                    four = splat(operands.four(r, at * run.fours + part))
                    for p in range(tile.panels):
                        sums[r][p] = let(
                            llvm(
                                "int32x16",
                                "llvm.x86.avx512.vpdpbusd.512",
                                sums[r][p],
                                bits(codes[p][part], "int8"),
                                bits(four, "int8"),
                            )
                        )
        return sums

    return group


def _halves(word: Expr) -> list[Expr]:
    return [let(Shuffle([word], list(range(first, first + 8)))) for first in (0, 8)]


def _join(halves: list[Expr]) -> Expr:
    return let(Shuffle(halves, list(range(16))))


def _avx2_bytes(run: Run, most: int) -> Group:
    """vpmaddubsw: pairs of products add up in int16, which holds ``most`` such pairs."""

    def group(tile: Tile, operands: Operands) -> list[list[Expr]]:
        ones = splat(1, 16, "int16")
        wide = [_grid(tile, lambda r, p: splat(0, 8, "int32")) for _ in range(2)]
        sums = [_grid(tile, lambda r, p: splat(0, 16, "int16")) for _ in range(2)]

        def widen(half: int, r: int, p: int) -> None:
            pairs = llvm("int32x8", "llvm.x86.avx2.pmadd.wd", sums[half][r][p], ones)
            wide[half][r][p] = let(wide[half][r][p] + pairs)
            sums[half][r][p] = splat(0, 16, "int16")

        for at in range(run.count):
            codes = _fours(run, tile, operands, at)
            for part in range(run.fours):
                index = at * run.fours + part
                quads = [_halves(panel[part]) for panel in codes]
                for r in range(tile.rows):
                    four = splat(operands.four(r, index), 8)
                    for p in range(tile.panels):
                        for half in range(2):
                            pairs = llvm(
                                "int16x16",
                                "llvm.x86.avx2.pmadd.ub.sw",
                                bits(quads[p][half], "int8"),
                                bits(four, "int8"),
                            )
                            sums[half][r][p] = let(sums[half][r][p] + pairs)
                            if (index + 1) % most == 0:
                                widen(half, r, p)

        def total(r: int, p: int) -> Expr:
            return let(_join([wide[half][r][p] for half in range(2)]) + splat(operands.starts[r]))

        return _grid(tile, total)

    return group


def _even_and_odd(four: Expr, lanes: int) -> tuple[Expr, Expr]:
    """int8 activations as int16 for ``lanes`` lanes of codes: columns 0 and 2, then 1 and 3."""
    pairs = let(bits(splat(four, lanes), "int16"))
    eight = splat(8, lanes * 2, "int16")
    return let((pairs << eight) >> eight), let(pairs >> eight)


def _avx2_pairs(run: Run) -> Group:
    """vpmaddwd on even and odd bytes widened to int16: 255 * 127 would saturate vpmaddubsw."""

    def group(tile: Tile, operands: Operands) -> list[list[Expr]]:
        sums = [_grid(tile, lambda r, p: register(splat(0, 8, "int32"))) for _ in range(2)]
        with T.serial(run.count) as at, block("step"):
            fours = _fours(run, tile, operands, at)
            for part in range(run.fours):
                parts = [
                    [_halves(masked(panel[part], shift, 0x00FF00FF)) for panel in fours]
                    for shift in (0, 8)
                ]
                for r in range(tile.rows):
                    four = operands.four(r, at * run.fours + part)
                    for odd, pairs in enumerate(_even_and_odd(four, 8)):
                        for p in range(tile.panels):
                            for half in range(2):
                                codes = bits(parts[odd][p][half], "int16")
                                products = llvm("int32x8", "llvm.x86.avx2.pmadd.wd", codes, pairs)
                                _increase(sums[half][r][p], products)

        def total(r: int, p: int) -> Expr:
            halves = [load(sums[h][r][p], 0, lanes=8) for h in range(2)]
            return _join(halves) + splat(operands.starts[r])

        return _grid(tile, total)

    return group


def _quarters(word: Expr) -> list[Expr]:
    return [let(Shuffle([word], list(range(first, first + 4)))) for first in range(0, 16, 4)]


def _dotprod(run: Run, *, above_127: bool) -> Group:
    """sdot: four signed times four signed bytes into an int32, in each of four lanes.

    Args:
        above_127: some integers are no signed bytes, so each counts 128 less than it is.
    """

    def group(tile: Tile, operands: Operands) -> list[list[Expr]]:
        def start(r: int) -> Expr:
            whole = operands.starts[r]
            return splat(let(whole + operands.sum(r) * 128) if above_127 else whole, 4)

        def signed(four: Expr) -> Expr:
            return let(four ^ splat(0x80808080, 16, "uint32")) if above_127 else four

        starts = [start(r) for r in range(tile.rows)]
        sums = [_grid(tile, lambda r, p: starts[r]) for _ in range(4)]
        for at in range(run.count):
            codes = _fours(run, tile, operands, at)
            for part in range(run.fours):
                quads = [_quarters(signed(panel[part])) for panel in codes]
                for r in range(tile.rows):
                    four = bits(splat(operands.four(r, at * run.fours + part), 4), "int8")
                    for p in range(tile.panels):
                        for quarter in range(4):
                            sums[quarter][r][p] = let(
                                llvm(
                                    "int32x4",
                                    "llvm.aarch64.neon.sdot",
                                    sums[quarter][r][p],
                                    bits(quads[p][quarter], "int8"),
                                    four,
                                )
                            )
        return _grid(tile, lambda r, p: _join([sums[quarter][r][p] for quarter in range(4)]))

    return group


def _portable_q4(tile: Tile, operands: Operands) -> list[list[Expr]]:
    """int16 products and sums: a lane adds up 16 products of at most 15 * 127."""
    sums = _grid(tile, lambda r, p: register(splat(0, 32, "int16")))
    with T.serial(RUNS["q4"].count) as step, block("step"):
        words = [operands.word(p, step) for p in range(tile.panels)]
        for part in range(2):
            # Columns 0 and 2, then 1 and 3, of four: one to each int16 of a lane.
            codes = [
                [bits(masked(w, part * 4 + odd * 8, 0x000F000F), "int16") for w in words]
                for odd in range(2)
            ]
            for r in range(tile.rows):
                for odd, pairs in enumerate(_even_and_odd(operands.four(r, step * 2 + part), 16)):
                    for p in range(tile.panels):
                        _increase(sums[r][p], codes[odd][p] * pairs)

    def total(r: int, p: int) -> Expr:
        return let(_pairs_added(load(sums[r][p], 0, lanes=32)) + splat(operands.starts[r]))

    return _grid(tile, total)


def _pairs_added(sums: Expr) -> Expr:
    """int16x32 to int32x16: both int16 of a lane."""
    both, sixteen = let(bits(sums, "int32")), splat(16, 16, "int32")
    return ((both << sixteen) >> sixteen) + (both >> sixteen)


def _portable_pairs(run: Run, together: int) -> Group:
    """int16 products, of which ``together`` (1, 4 or 8) are added up before they are widened."""

    def group(tile: Tile, operands: Operands) -> list[list[Expr]]:
        sums = _grid(tile, lambda r, p: register(splat(operands.starts[r])))
        with T.serial(run.count) as at, block("run"):
            fours = _fours(run, tile, operands, at)
            each = max(together // 2, 1)
            for first in range(0, run.fours, each):
                parts = range(first, first + each)
                codes = [
                    [
                        bits(masked(w[part], shift, 0x00FF00FF), "int16")
                        for part in parts
                        for shift in (0, 8)
                    ]
                    for w in fours
                ]
                for r in range(tile.rows):
                    values = [
                        half
                        for part in parts
                        for half in _even_and_odd(operands.four(r, at * run.fours + part), 16)
                    ]
                    for p in range(tile.panels):
                        products = [c * v for c, v in zip(codes[p], values, strict=True)]
                        for i in range(0, len(products), together):
                            some = reduce(add, products[i : i + together])
                            _increase(sums[r][p], _pairs_added(some))
        return _grid(tile, lambda r, p: load(sums[r][p], 0))

    return group


def _portable_q8(tile: Tile, operands: Operands) -> list[list[Expr]]:
    """int32 products of single bytes."""
    sums = _grid(tile, lambda r, p: register(splat(operands.starts[r])))
    with T.serial(RUNS["q8"].count) as step, block("step"):
        words = [operands.word(p, step) for p in range(tile.panels)]
        for byte in range(4):
            codes = [cast(masked(word, byte * 8, 0xFF), "int32") for word in words]
            for r in range(tile.rows):
                # The wanted byte goes to the top and comes back with its sign.
                value = (operands.four(r, step) << T.int32(24 - byte * 8)) >> T.int32(24)
                for p in range(tile.panels):
                    _increase(sums[r][p], codes[p] * splat(value))
    return _grid(tile, lambda r, p: load(sums[r][p], 0))


_SMALL = Shapes(Tile(4, 1), Tile(4, 1))

# What may be added up in int16 follows from the largest integer of a scheme, times 127: 15 in q4,
# q4a and q4k, 22 in q4_nl, 24 in mxfp4, 31 in q5, 46 in q5_nl, 63 in q6, 94 in q6_nl, 240 in
# iq4_nl, 255 in q8.
_PORTABLE: dict[str, Dot] = {
    "q4": Dot(_portable_q4, _SMALL),
    "q4a": Dot(_portable_q4, _SMALL),
    "q4k": Dot(_portable_q4, _SMALL),
    "q5": Dot(_portable_pairs(RUNS["q5"], together=8), _SMALL),
    "q6": Dot(_portable_pairs(RUNS["q6"], together=4), _SMALL),
    "q8": Dot(_portable_q8, _SMALL),
    "q4_nl": Dot(_portable_pairs(RUNS["q4_nl"], together=4), _SMALL),
    "q5_nl": Dot(_portable_pairs(RUNS["q5_nl"], together=4), _SMALL),
    "q6_nl": Dot(_portable_pairs(RUNS["q6_nl"], together=1), _SMALL),
    "iq4_nl": Dot(_portable_pairs(RUNS["iq4_nl"], together=1), _SMALL),
    "mxfp4": Dot(_portable_pairs(RUNS["mxfp4"], together=4), _SMALL),
}

_DOTPROD = {
    scheme: Dot(_dotprod(run, above_127=scheme in ("q8", "iq4_nl")), _SMALL)
    for scheme, run in RUNS.items()
}

DOTS: dict[tuple[str, str], Dot] = {
    ("avx512vnni", "q4"): Dot(_vnni(RUNS["q4"]), Shapes(Tile(8, 1), Tile(4, 2))),
    ("avx512vnni", "q4a"): Dot(_vnni(RUNS["q4a"]), Shapes(Tile(8, 1), Tile(4, 2))),
    ("avx512vnni", "q4k"): Dot(_vnni(RUNS["q4k"]), Shapes(Tile(8, 1), Tile(4, 2))),
    ("avx512vnni", "q5"): Dot(_vnni(RUNS["q5"]), Shapes(Tile(8, 1), Tile(8, 2))),
    ("avx512vnni", "q6"): Dot(_vnni(RUNS["q6"]), Shapes(Tile(8, 1), Tile(8, 2))),
    ("avx512vnni", "q8"): Dot(_vnni(RUNS["q8"]), Shapes(Tile(8, 1), Tile(8, 1))),
    ("avx512vnni", "q4_nl"): Dot(_vnni(RUNS["q4_nl"]), Shapes(Tile(8, 1), Tile(8, 2))),
    ("avx512vnni", "q5_nl"): Dot(_vnni(RUNS["q5_nl"]), Shapes(Tile(8, 1), Tile(8, 1))),
    ("avx512vnni", "q6_nl"): Dot(_vnni(RUNS["q6_nl"]), Shapes(Tile(8, 1), Tile(8, 2))),
    ("avx512vnni", "iq4_nl"): Dot(_vnni(RUNS["iq4_nl"]), Shapes(Tile(8, 1), Tile(4, 2))),
    ("avx512vnni", "mxfp4"): Dot(_vnni(RUNS["mxfp4"]), Shapes(Tile(8, 1), Tile(4, 2))),
    ("avx2", "q4"): Dot(_avx2_bytes(RUNS["q4"], most=8), _SMALL),
    ("avx2", "q4a"): Dot(_avx2_bytes(RUNS["q4a"], most=8), _SMALL),
    ("avx2", "q4k"): Dot(_avx2_bytes(RUNS["q4k"], most=8), _SMALL),
    ("avx2", "q5"): Dot(_avx2_bytes(RUNS["q5"], most=4), _SMALL),
    ("avx2", "q6"): Dot(_avx2_bytes(RUNS["q6"], most=2), _SMALL),
    ("avx2", "q8"): Dot(_avx2_pairs(RUNS["q8"]), _SMALL),
    ("avx2", "q4_nl"): Dot(_avx2_bytes(RUNS["q4_nl"], most=4), _SMALL),
    ("avx2", "q5_nl"): Dot(_avx2_bytes(RUNS["q5_nl"], most=2), _SMALL),
    ("avx2", "q6_nl"): Dot(_avx2_bytes(RUNS["q6_nl"], most=1), _SMALL),
    ("avx2", "iq4_nl"): Dot(_avx2_pairs(RUNS["iq4_nl"]), _SMALL),
    ("avx2", "mxfp4"): Dot(_avx2_bytes(RUNS["mxfp4"], most=4), _SMALL),
    **{("neon-dotprod", scheme): dot for scheme, dot in _DOTPROD.items()},
    **{(isa, scheme): dot for isa in ("neon", "portable") for scheme, dot in _PORTABLE.items()},
}
