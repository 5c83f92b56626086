"""Linears of prefill by instructions for matrices (NVIDIA's tensor cores), with float16 operands.

A workgroup computes 64 or 128 output columns of 16 or 64 rows. As in `matmul` it walks over the
input columns in stages, of 32: a tile of x and a tile of the unpacked matrix go to shared memory
in float16. Each of its subgroups of 32 threads then has 16 or 32 rows by 32 columns of outputs,
which it adds up by :func:`~..operations.mma`, 16 input columns at a time. What an output is follows
from its row and its column alone: the same instructions in the same order, whatever the tile.

A thread's part of a matrix has pairs of input columns that lie eight apart. Which columns are
called so is free where both matrices agree: here a thread's four pairs of two instructions are
eight columns that lie together, so that one wide load has what both take of a row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache

from tvm.ir import Expr as TirExpr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer

from edgewise_compiler.kernels.function import STEP, Arg, count_suffix
from edgewise_compiler.kernels.gpu.matmul.matmul import (
    COLUMNS,
    FEW_ROWS,
    HALF_SCALE,
    MANY_ROWS,
    WIDE,
)
from edgewise_compiler.kernels.gpu.matmul.spec import PartSpec
from edgewise_compiler.kernels.gpu.matmul.weights import GpuWeights
from edgewise_compiler.kernels.gpu.operations import (
    GATES,
    f32,
    fma,
    given,
    lane,
    mma,
    number,
    pack_halves,
    vector_of,
)
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
from edgewise_runtime.format.abi import PANEL, STEP_SYMBOLS

_EPILOGUES = ("store", "add", *GATES)
_KNOWN = frozenset("rows outputs inputs scheme epilogue bias count live width first".split())

SUBGROUP = 32
STAGE = 32  # input columns of a stage
OCTETS = STAGE // 8  # words of eight float16 in a row of a tile
HEIGHT, WIDTH = 16, 8  # of the outputs of one instruction
ACROSS = 2 * PANEL  # output columns of a subgroup: a panel of gates and that of their ups


@dataclass(frozen=True)
class Tile:
    """Sizes of a kernel's tile of outputs.

    Attributes:
        rows, columns: of a workgroup.
        high: rows of a subgroup, in steps of `HEIGHT`.
    """

    rows: int
    columns: int
    high: int

    @property
    def across(self) -> int:
        """Subgroups beside each other."""
        return self.columns // ACROSS

    @property
    def threads(self) -> int:
        """Threads of a workgroup."""
        return SUBGROUP * self.across * (self.rows // (HEIGHT * self.high))


def tile_for(outputs: int, *, few: bool) -> Tile:
    """The tile of a matrix with so many outputs."""
    if few:
        return Tile(FEW_ROWS, COLUMNS, 1)
    return Tile(MANY_ROWS, 2 * COLUMNS, 2) if outputs >= WIDE else Tile(MANY_ROWS, COLUMNS, 1)


def fits(spec: PartSpec) -> bool:
    """Whether the kernel has all that a linear asks for. What linears come to have is left to
    `matmul` until it is here, too."""
    others = (field for field in fields(spec) if field.name not in _KNOWN)
    return spec.epilogue in _EPILOGUES and all(getattr(spec, f.name) == f.default for f in others)


@cache
def matmul_tensor(spec: PartSpec, *, few: bool) -> Launch:
    """``out[i, first + row]`` of ``x[i] . W[row]`` for the live rows i.

    Arguments: those of `matmul`, in its order.

    Inputs and weights are rounded to float16, inputs a `HALF_SCALE`-th of what they are; products
    are exact and sums float32. The error is that of two roundings to 11 bits for each product.

    Args:
        spec: N live rows at most, NP outputs and K inputs, multiples of 32.
        few: tiles of 16 rows instead of 64, for steps of few rows. The bits are the same.
    """
    N, NP, K = spec.live, spec.outputs, spec.inputs
    weights = GpuWeights(spec.scheme, NP, K)
    tile = tile_for(NP, few=few)
    each = min(2, tile.columns * OCTETS // tile.threads)
    arguments = (
        Arg("x", "float32x4", (spec.rows, K // 4)),
        *weights.octet_arguments(each),
        *((Arg("bias", "float32", (NP,)),) if spec.bias else ()),
        Arg("out", "float32", (N, spec.width)),
        STEP,
    )

    def body(thread: Thread, *buffers: Buffer) -> None:
        named = {arg.name: buffer for arg, buffer in zip(arguments, buffers, strict=True)}
        live = bind(T.min(named["step"][spec.count], N))
        with when(thread.y * tile.rows < live):
            _Kernel(thread, named, spec, weights.begun(), tile, each, live).run()

    name = (
        f"matmul_tensor_{spec.scheme}_{spec.epilogue}_{N}_{NP}x{K}_t{tile.rows}x{tile.columns}"
        f"_o{spec.width}_{spec.first}{'_b' if spec.bias else ''}{count_suffix(spec.count)}"
    )
    symbol = STEP_SYMBOLS[spec.count]
    return kernel(
        name,
        arguments,
        body,
        threads=tile.threads,
        grid=(-(-NP // tile.columns), ("ceildiv", symbol, tile.rows)),
        bounds={symbol: N},
        subgroups=True,
    )


@dataclass(frozen=True)
class _Kernel:
    """The parts of one kernel's body. A thread loads ``each`` octets of a matrix row together."""

    thread: Thread
    named: dict[str, Buffer]
    spec: PartSpec
    weights: GpuWeights
    tile: Tile
    each: int
    live: TirExpr

    def run(self) -> None:
        tile, t = self.tile, self.thread.t
        high, wide = tile.high, ACROSS // WIDTH
        xs = shared((tile.rows * OCTETS,), "uint32x4")
        ws = shared((tile.columns * OCTETS,), "uint32x4")
        sums = local((high * wide,), "float32x4")
        for i in range(high * wide):
            store(sums, number(0.0, "float32x4"), i)
        subgroup, place = bind(t // SUBGROUP), bind(t % SUBGROUP)
        group, pair = bind(place // 4), bind(place % 4)
        first_row = bind(subgroup // tile.across * (HEIGHT * high))
        first_column = bind(subgroup % tile.across * ACROSS)
        of_x = bind((first_row + group) * OCTETS + pair)
        of_w = bind((first_column + group) * OCTETS + pair)
        with T.serial(0, self.weights.k // STAGE) as stage:
            self._load_x(xs, stage)
            self._load_weights(ws, stage)
            barrier()
            rows = [bind(xs[of_x + i * (WIDTH * OCTETS)]) for i in range(2 * high)]
            columns = [bind(ws[of_w + j * (WIDTH * OCTETS)]) for j in range(wide)]
            for half in (0, 2):  # of the eight columns that a thread has of each row
                b = [bind(vector_of(lane(w, half), lane(w, half + 1))) for w in columns]
                for i in range(high):
                    low, up = rows[2 * i], rows[2 * i + 1]
                    words = (lane(v, half + part) for part in (0, 1) for v in (low, up))
                    a = bind(vector_of(*words))
                    for j in range(wide):
                        store(sums, mma(a, b[j], sums[i * wide + j]), i * wide + j)
            barrier()
        start = bind(self.thread.x * tile.columns + first_column)
        for i in range(2 * high):
            row = bind(self.thread.y * tile.rows + first_row + (i * WIDTH + group))
            with when(row < self.live), when(start < self.spec.outputs):

                def value(j: int, at: int = i) -> tuple[TirExpr, TirExpr]:
                    four = bind(sums[at // 2 * wide + j])
                    return lane(four, at % 2 * 2), lane(four, at % 2 * 2 + 1)

                self._write(row, start, bind(pair * 2), value)

    def _load_x(self, xs: Buffer, stage: TirExpr) -> None:
        """Each thread rounds eight columns of some rows; behind the last row it is that again."""
        tile, x = self.tile, self.named["x"]
        for start in range(0, tile.rows * OCTETS, tile.threads):
            index = bind(self.thread.t + start)
            source = bind(T.min(self.thread.y * tile.rows + index // OCTETS, self.live - 1))
            at = bind((stage * OCTETS + index % OCTETS) * 2)
            store(xs, self._rounded([x[source, at], x[source, at + 1]], 1 / HALF_SCALE), index)

    def _load_weights(self, ws: Buffer, stage: TirExpr) -> None:
        """Each thread unpacks one or two runs of eight columns of some rows of the matrix."""
        tile, weights, each = self.tile, self.weights, self.each
        packed = [self.named["weight"]] + ([self.named["scale"]] if weights.scaled else [])
        runs = OCTETS // each  # of a row
        for start in range(0, tile.columns * runs, tile.threads):
            index = bind(self.thread.t + start)
            row, part = bind(index // runs), bind(index % runs * each)
            source = bind(T.min(self.thread.x * tile.columns + row, weights.rows - 1))
            found = weights.octets(packed, source, bind(stage * OCTETS + part), each)
            for i in range(each):
                store(ws, self._rounded(found[2 * i : 2 * i + 2]), row * OCTETS + part + i)

    def _rounded(self, vectors: list[TirExpr], scale: float = 1.0) -> TirExpr:
        """Two float32x4 as eight float16. Each must be bound, or be read once."""
        bound = [bind(v * number(scale, "float32x4") if scale != 1.0 else v) for v in vectors]
        pairs = [(v, c) for v in bound for c in (0, 2)]
        return bind(vector_of(*(pack_halves(lane(v, c), lane(v, c + 1)) for v, c in pairs)))

    def _write(
        self,
        row: TirExpr,
        start: TirExpr,
        pair: TirExpr,
        value: Callable[[int], tuple[TirExpr, TirExpr]],
    ) -> None:
        """Writes this thread's outputs of a row: two of every eight columns from ``start`` on."""
        out, first, epilogue = self.named["out"], self.spec.first, self.spec.epilogue
        if self.spec.gated:
            for j in range(PANEL // WIDTH):
                gates, ups = value(j), value(j + PANEL // WIDTH)
                for c in (0, 1):
                    column = bind(start + (j * WIDTH + c) + pair)
                    gate = self._value(gates[c], column)
                    up = self._value(ups[c], bind(column + PANEL))
                    at = bind(T.floordiv(start, 2) + (first // 2 + j * WIDTH + c) + pair)
                    store(out, GATES[epilogue](gate, given(up)), row, at)
            return
        for j in range(ACROSS // WIDTH):
            both = value(j)
            for c in (0, 1):
                column = bind(start + (j * WIDTH + c) + pair)
                found, at = self._value(both[c], column), bind(column + first)
                store(out, out[row, at] + found if epilogue == "add" else found, row, at)

    def _value(self, total: TirExpr, column: TirExpr) -> TirExpr:
        """What a sum stands for, scaled back, with the column's bias."""
        shift = self.named["bias"][column] if self.spec.bias else f32(0.0)
        return bind(fma(total, f32(HALF_SCALE), shift))
