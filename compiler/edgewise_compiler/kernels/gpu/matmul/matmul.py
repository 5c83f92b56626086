"""Linears of prefill: tiles of many rows against tiles of a matrix, unpacked once for all rows.

A workgroup computes 64 output columns of 16 or 64 rows. It walks over the input columns in stages:
a tile of x and a tile of the unpacked matrix go to shared memory, then every thread adds up its
outputs column after column. An output is one chain of additions over all columns in order, whatever
the tile, so the height of tiles, other rows and where a chunk was cut change no bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from tvm.ir import Expr as TirExpr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer

from edgewise_compiler.kernels.function import STEP, Arg, count_suffix
from edgewise_compiler.kernels.gpu.matmul.spec import PartSpec
from edgewise_compiler.kernels.gpu.matmul.weights import VECTORS, GpuWeights
from edgewise_compiler.kernels.gpu.operations import cast, f32, fma, lane, number, select, silu
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
from edgewise_runtime.format.abi import GROUP, STEP_SYMBOLS

THREADS = 256
SIDE = 16  # threads of a tile's side; a thread's outputs lie this far apart
COLUMNS = 64
FEW_ROWS, MANY_ROWS = 16, 64
HALF_MAX = 65504.0
# x is stored this much smaller in float16 tiles, an exact power of two: sums of four products then
# overflow beyond a million, and what is lost below is a part in a million of a normalized row.
HALF_SCALE = 16.0


@dataclass(frozen=True)
class Tile:
    """Sizes of a kernel's tiles: rows, and groups of 32 input columns a stage."""

    rows: int
    groups: int
    half: bool

    @property
    def dtype(self) -> str:
        """What four columns of a tile are in shared memory."""
        return "float16x4" if self.half else "float32x4"

    @property
    def vectors(self) -> int:
        """Vectors of four columns in a row of a tile."""
        return self.groups * VECTORS


@cache
def matmul(spec: PartSpec, *, few: bool, half: bool) -> Launch:
    """``out[i, first + row]`` of ``x[i] . W[row]`` for the live rows i.

    Arguments: x float32 [rows, K], weight, scale of an integer scheme, bias float32 [NP] with
    ``bias``, out float32 [N, width], step.

    Args:
        spec: N live rows at most, NP outputs and K inputs.
        few: tiles of 16 rows instead of 64, for steps of few rows. The bits are the same.
        half: tiles in float16: the products of four columns are added up in float16, those sums in
            float32. Inputs are rounded to float16 and held within a million. The error is that of
            11 bits a product, about 2^-11 of the size of the sum over the square root of its
            length.
    """
    N, NP, K = spec.live, spec.outputs, spec.inputs
    weights = GpuWeights(spec.scheme, NP, K)
    tile = Tile(FEW_ROWS if few else MANY_ROWS, 2 if half else 1, half)
    arguments = (
        Arg("x", "float32x4", (spec.rows, K // 4)),
        *weights.octet_arguments(),
        *((Arg("bias", "float32", (NP,)),) if spec.bias else ()),
        Arg("out", "float32", (N, spec.width)),
        STEP,
    )

    def body(thread: Thread, *buffers: Buffer) -> None:
        named = {arg.name: buffer for arg, buffer in zip(arguments, buffers, strict=True)}
        live = bind(T.min(named["step"][spec.count], N))
        with when(thread.y * tile.rows < live):
            _Kernel(thread, named, spec, weights.begun(), tile, live).run()

    name = (
        f"matmul_{spec.scheme}_{spec.epilogue}_{N}_{NP}x{K}_t{tile.rows}_o{spec.width}_{spec.first}"
        f"{'_half' if half else ''}{'_b' if spec.bias else ''}{count_suffix(spec.count)}"
    )
    symbol = STEP_SYMBOLS[spec.count]
    return kernel(
        name,
        arguments,
        body,
        threads=THREADS,
        grid=(-(-NP // COLUMNS), ("ceildiv", symbol, tile.rows)),
        bounds={symbol: N},
    )


@dataclass(frozen=True)
class _Kernel:
    """The parts of one kernel's body."""

    thread: Thread
    named: dict[str, Buffer]
    spec: PartSpec
    weights: GpuWeights
    tile: Tile
    live: TirExpr

    def run(self) -> None:
        tile, thread = self.tile, self.thread
        rows, columns = tile.rows // SIDE, COLUMNS // SIDE
        xs = shared((tile.rows * tile.vectors,), tile.dtype)
        ws = shared((COLUMNS * tile.vectors,), tile.dtype)
        sums = local((rows * columns,))
        for i in range(rows * columns):
            store(sums, 0.0, i)
        across, down = bind(thread.t % SIDE), bind(thread.t // SIDE)
        with T.serial(0, -(-self.weights.groups // tile.groups)) as stage:
            self._load_x(xs, stage)
            self._load_weights(ws, stage)
            barrier()
            with T.serial(0, tile.vectors) as v:
                xv = [bind(xs[self._slot(down + SIDE * i, v)]) for i in range(rows)]
                wv = [bind(ws[self._slot(across + SIDE * j, v)]) for j in range(columns)]
                for i in range(rows):
                    for j in range(columns):
                        self._add(sums, i * columns + j, xv[i], wv[j])
            barrier()
        for i in range(rows):
            row = bind(thread.y * tile.rows + down + SIDE * i)
            with when(row < self.live):

                def value(j: int, column: TirExpr, at: int = i * columns) -> TirExpr:
                    return self._value(sums[at + j], column)

                write_outputs(thread, self.named["out"], self.spec, value, row)

    def _slot(self, row: TirExpr, vector: TirExpr) -> TirExpr:
        """Where a vector of a tile's row lies: turned by the row, so that banks do not collide."""
        return row * self.tile.vectors + (vector ^ (row & (VECTORS - 1)))

    def _load_x(self, xs: Buffer, stage: TirExpr) -> None:
        tile = self.tile
        for start in range(0, tile.rows * tile.vectors, THREADS):
            index = bind(self.thread.t + start)
            row, v = bind(index // tile.vectors), bind(index % tile.vectors)
            source = bind(T.min(self.thread.y * tile.rows + row, self.live - 1))
            at = bind(stage * tile.vectors + v)
            with when(index < tile.rows * tile.vectors):
                vector = self._inside(source, at)
                if tile.half:
                    most = number(HALF_MAX, "float32x4")
                    scaled = vector * number(1 / HALF_SCALE, "float32x4")
                    low = number(-HALF_MAX, "float32x4")
                    vector = cast(T.max(T.min(scaled, most), low), "float16")
                store(xs, vector, self._slot(row, v))

    def _load_weights(self, ws: Buffer, stage: TirExpr) -> None:
        """Each thread unpacks 8 columns of one matrix row, for each group of the stage."""
        tile, weights = self.tile, self.weights
        octets = GROUP // 8
        packed = [self.named["weight"]] + ([self.named["scale"]] if weights.scaled else [])
        row, part = bind(self.thread.t // octets), bind(self.thread.t % octets)
        source = bind(T.min(self.thread.x * COLUMNS + row, weights.rows - 1))
        for g in range(tile.groups):
            c = bind((stage * tile.groups + g) * octets + part)
            inside = bind(T.min(c, weights.k // 8 - 1))
            for i, vector in enumerate(weights.octet(packed, source, inside)):
                v = bind(g * VECTORS + part * 2 + i)
                store(ws, cast(vector, "float16") if tile.half else vector, self._slot(row, v))

    def _inside(self, row: TirExpr, at: TirExpr) -> TirExpr:
        """Four columns of x; zero beyond the last, where an odd group leaves half of a stage.

        Chosen and never multiplied: beyond a row lies another one, which may hold a NaN.
        """
        x, width = self.named["x"], self.weights.k // 4
        if self.weights.groups % self.tile.groups == 0:
            return x[row, at]
        inside = bind(x[row, T.min(at, width - 1)])
        return select(at < width, inside, number(0.0, "float32x4"))

    def _add(self, sums: Buffer, at: int, x: TirExpr, w: TirExpr) -> None:
        """Adds the products of four columns to one output's sum."""
        if not self.tile.half:
            for c in range(4):
                store(sums, fma(lane(x, c), lane(w, c), sums[at]), at)
            return
        four = bind(lane(x, 0) * lane(w, 0))
        for c in range(1, 4):
            four = bind(fma(lane(x, c), lane(w, c), four))
        store(sums, sums[at] + cast(four, "float32"), at)

    def _value(self, total: TirExpr, column: TirExpr) -> TirExpr:
        """What a sum stands for: scaled back from float16 tiles, with the column's bias."""
        bias = self.spec.bias
        shift = self.named["bias"][column] if bias else f32(0.0)
        if self.tile.half:
            return bind(fma(total, f32(HALF_SCALE), shift))
        return bind(total + shift) if bias else total


def write_outputs(
    thread: Thread,
    out: Buffer,
    spec: PartSpec,
    value: Callable[[int, TirExpr], TirExpr],
    row: TirExpr,
) -> None:
    """Writes this thread's outputs of a row: every 16th column of its workgroup's tile.

    Args:
        spec: its outputs; columns of the tile beyond them do not exist.
        value: the j-th output and its packed row, to its value.
    """
    across = thread.t % SIDE
    start = bind(thread.x * COLUMNS + across)
    outputs, height, first = COLUMNS // SIDE, spec.outputs, spec.first
    if spec.epilogue == "swiglu":
        # Panels of 16 gate rows and of their 16 up rows alternate.
        for j in range(0, outputs, 2):
            with when(start + SIDE * j < height):
                gate, up = value(j, start + SIDE * j), value(j + 1, start + SIDE * (j + 1))
                at = thread.x * (COLUMNS // 2) + SIDE * (j // 2) + across + first // 2
                store(out, silu(gate) * up, row, at)
        return
    for j in range(outputs):
        with when(start + SIDE * j < height):
            at, found = bind(start + (SIDE * j + first)), value(j, start + SIDE * j)
            store(out, out[row, at] + found if spec.epilogue == "add" else found, row, at)
