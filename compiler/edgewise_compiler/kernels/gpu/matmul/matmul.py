"""Linears of prefill: tiles of many rows against tiles of a matrix, unpacked once for all rows.

A workgroup computes 32 to 128 output columns of 16 or 64 rows. It walks over the input columns in
stages: a tile of x and a tile of the unpacked matrix go to shared memory, then every thread adds up
its outputs column after column. An output is one chain of additions over all columns in order,
whatever the tile, so sizes of tiles, other rows and where a chunk was cut change no bit.
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
from edgewise_compiler.kernels.gpu.matmul.weights import GpuWeights
from edgewise_compiler.kernels.gpu.operations import (
    GATES,
    cast,
    f32,
    fma,
    lane,
    number,
    select,
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
from edgewise_runtime.format.abi import STEP_SYMBOLS

THREADS = 256
_OCTET = 8  # columns that are unpacked together
SIDE = 16  # threads of a tile's side; a thread's outputs lie this far apart
COLUMNS = 64
FEW_ROWS, MANY_ROWS = 16, 64
# Outputs below which a tile has half as many columns, since fewer workgroups would leave processors
# idle, and from which it has twice as many: a thread then multiplies four vectors of x with eight.
NARROW, WIDE = 2048, 4096
STAGE = 32  # input columns of a stage, of float32
FOLD = 4  # vectors whose products are added up in float16
BANKS = 128  # bytes that shared memory gives at once
# x is stored this much smaller in float16 tiles, an exact power of two: sums of four products then
# overflow beyond a million, and what is lost below is a part in a million of a normalized row.
HALF_SCALE = 16.0


@dataclass(frozen=True)
class Tile:
    """Sizes of a kernel's tiles: rows, output columns, and input columns of a stage."""

    rows: int
    columns: int
    stage: int
    half: bool

    @property
    def dtype(self) -> str:
        """What four columns of a tile are in shared memory."""
        return "float16x4" if self.half else "float32x4"

    @property
    def vectors(self) -> int:
        """Vectors of four columns in a row of a tile."""
        return self.stage // 4

    @property
    def octets(self) -> int:
        """Runs of eight columns that a thread unpacks for a stage."""
        return max(1, self.columns * self.stage // (_OCTET * THREADS))

    def row(self, row: TirExpr) -> tuple[TirExpr, TirExpr]:
        """Where a row of a tile begins, and by how much its vectors are turned, for `slot`.

        Each row, or each second one, is turned by one more, so that the same vector of as many rows
        as memory reads at once lies in different banks. Rows `SIDE` apart are turned alike.
        """
        at_once = BANKS // (8 if self.half else 16)
        turned = row // max(1, at_once // self.vectors) & (min(at_once, self.vectors) - 1)
        return bind(row * self.vectors), bind(turned)


def slot(row: tuple[TirExpr, TirExpr], vector: TirExpr) -> TirExpr:
    """Where a vector of a tile's row lies."""
    begin, turned = row
    return begin + (vector ^ turned)


def tile_for(outputs: int, *, few: bool, half: bool) -> Tile:
    """The tiles of a matrix with so many outputs; ``few`` and ``half`` as `matmul` has them."""
    rows = FEW_ROWS if few else MANY_ROWS
    columns = COLUMNS // 2 if outputs < NARROW else COLUMNS
    if outputs >= WIDE and not few:
        columns = 2 * COLUMNS
    # What a stage has of both tiles fits 16 KiB.
    return Tile(rows, columns, STAGE * (2 if half else 1) * COLUMNS // max(COLUMNS, columns), half)


@cache
def matmul(spec: PartSpec, *, few: bool, half: bool) -> Launch:
    """``out[i, first + row]`` of ``x[i] . W[row]`` for the live rows i.

    Arguments: x float32 [rows, K], weight, scale of an integer scheme, bias float32 [NP] with
    ``bias``, out float32 [N, width], step.

    Args:
        spec: N live rows at most, NP outputs and K inputs.
        few: tiles of 16 rows instead of 64, for steps of few rows. The bits are the same.
        half: tiles in float16, multiplied by pairs of columns: the products of 16 columns, eight
            even ones and eight odd ones, are added up in float16, those sums in float32. Inputs are
            rounded to float16: more than a million is infinite, and NaN stays NaN, so that what
            float16 cannot hold shows in the output. The error is that of 11 bits a product and
            of as many an addition, about 2^-10 of the size of the sum over the square root of its
            length.
    """
    N, NP, K = spec.live, spec.outputs, spec.inputs
    weights = GpuWeights(spec.scheme, NP, K)
    tile = tile_for(NP, few=few, half=half)
    arguments = (
        Arg("x", "float32x4", (spec.rows, K // 4)),
        *weights.octet_arguments(tile.octets),
        *((Arg("bias", "float32", (NP,)),) if spec.bias else ()),
        Arg("out", "float32", (N, spec.width)),
        STEP,
    )

    def body(thread: Thread, *buffers: Buffer) -> None:
        named = {arg.name: buffer for arg, buffer in zip(arguments, buffers, strict=True)}
        live = bind(T.min(named["step"][spec.count], N))
        with when(thread.y * tile.rows < live):
            TileKernel(thread, named, spec, weights.begun(), tile, live).run()

    name = (
        f"matmul_{spec.scheme}_{spec.epilogue}_{N}_{NP}x{K}_t{tile.rows}x{tile.columns}"
        f"_o{spec.width}_{spec.first}{'_half' if half else ''}{'_b' if spec.bias else ''}"
        f"{count_suffix(spec.count)}"
    )
    symbol = STEP_SYMBOLS[spec.count]
    return kernel(
        name,
        arguments,
        body,
        threads=THREADS,
        grid=(-(-NP // tile.columns), ("ceildiv", symbol, tile.rows)),
        bounds={symbol: N},
    )


@dataclass(frozen=True)
class TileKernel:
    """The parts of one kernel's body."""

    thread: Thread
    named: dict[str, Buffer]
    spec: PartSpec
    weights: GpuWeights
    tile: Tile
    live: TirExpr

    def run(self) -> None:
        tile, thread = self.tile, self.thread
        rows, columns = tile.rows // SIDE, tile.columns // SIDE
        xs = shared((tile.rows * tile.vectors,), tile.dtype)
        ws = shared((tile.columns * tile.vectors,), tile.dtype)
        sums = local((rows * columns,))
        for i in range(rows * columns):
            store(sums, 0.0, i)
        across, down = bind(thread.t % SIDE), bind(thread.t // SIDE)
        of_x, of_w = tile.row(down), tile.row(across)
        apart = SIDE * tile.vectors

        def operands(v: TirExpr) -> tuple[list[TirExpr], list[TirExpr]]:
            """The v-th vectors of this thread's rows of both tiles."""
            mine, theirs = bind(slot(of_x, v)), bind(slot(of_w, v))
            return (
                [bind(xs[mine + apart * i]) for i in range(rows)],
                [bind(ws[theirs + apart * j]) for j in range(columns)],
            )

        multiply = _multiply_pairs if tile.half else _multiply
        with T.serial(0, -(-self.weights.k // tile.stage)) as stage:
            self._load_x(xs, stage)
            self._load_weights(ws, stage)
            barrier()
            multiply(sums, tile.vectors, operands)
            barrier()
        for i in range(rows):
            row = bind(self._row(down, SIDE * i))
            with when(row < self.live):

                def value(j: int, column: TirExpr, at: int = i * columns) -> TirExpr:
                    return self._value(sums[at + j], column)

                out = self.named["out"]
                target = self._target(row)
                write_outputs(thread, out, self.spec, value, target, columns=tile.columns)

    def _row(self, first: TirExpr, more: int = 0) -> TirExpr:
        """A row of this workgroup's tile, of all rows."""
        row = self.thread.y * self.tile.rows + first
        return row + more if more else row

    def _source(self, row: TirExpr) -> TirExpr:
        """The row of x for a row of the tile; the last live one beyond those."""
        return bind(T.min(self._row(row), self.live - 1))

    def _target(self, row: TirExpr) -> TirExpr:
        """The row of out for it."""
        return row

    def _packed(self, row: TirExpr) -> TirExpr:
        """Where the matrix has one of its rows."""
        return row

    def _load_x(self, xs: Buffer, stage: TirExpr) -> None:
        tile = self.tile
        for start in range(0, tile.rows * tile.vectors, THREADS):
            index = bind(self.thread.t + start)
            row, v = bind(index // tile.vectors), bind(index % tile.vectors)
            source = self._source(row)
            at = bind(stage * tile.vectors + v)
            with when(index < tile.rows * tile.vectors):
                vector = self._inside(source, at)
                if tile.half:
                    vector = cast(vector * number(1 / HALF_SCALE, "float32x4"), "float16")
                store(xs, vector, slot(tile.row(row), v))

    def _load_weights(self, ws: Buffer, stage: TirExpr) -> None:
        """Each thread unpacks one or two runs of 8 columns of one matrix row."""
        tile, weights, each = self.tile, self.weights, self.tile.octets
        packed = [self.named["weight"]] + ([self.named["scale"]] if weights.scaled else [])
        threads = tile.stage // (_OCTET * each)  # of a row
        row, part = bind(self.thread.t // threads), bind(self.thread.t % threads * each)
        source = self._packed(
            bind(T.min(self.thread.x * tile.columns + row, self.spec.outputs - 1))
        )
        c = bind(stage * (tile.stage // _OCTET) + part)
        inside = bind(T.min(c, weights.k // _OCTET - each))

        def unpack() -> None:
            place = tile.row(row)
            for i, vector in enumerate(weights.octets(packed, source, inside, each)):
                value = cast(vector, "float16") if tile.half else vector
                store(ws, value, slot(place, part * 2 + i))

        if tile.columns * threads == THREADS:
            unpack()
            return
        with when(row < tile.columns):
            unpack()

    def _inside(self, row: TirExpr, at: TirExpr) -> TirExpr:
        """Four columns of x; zero beyond the last, where an odd group leaves half of a stage.

        Chosen and never multiplied: beyond a row lies another one, which may hold a NaN.
        """
        x, width = self.named["x"], self.weights.k // 4
        if self.weights.k % self.tile.stage == 0:
            return x[row, at]
        inside = bind(x[row, T.min(at, width - 1)])
        return select(at < width, inside, number(0.0, "float32x4"))

    def _value(self, total: TirExpr, column: TirExpr) -> TirExpr:
        """What a sum stands for: scaled back from float16 tiles, with the column's bias."""
        bias = self.spec.bias
        shift = self.named["bias"][self._packed(column)] if bias else f32(0.0)
        if self.tile.half:
            return bind(fma(total, f32(HALF_SCALE), shift))
        return bind(total + shift) if bias else total


Operands = Callable[[TirExpr], tuple[list[TirExpr], list[TirExpr]]]


def _multiply(sums: Buffer, vectors: int, operands: Operands) -> None:
    """Adds the products of a stage's ``vectors`` to the sums, column after column."""
    with T.serial(0, vectors) as v:
        xs, ws = operands(v)
        for i, x in enumerate(xs):
            for j, w in enumerate(ws):
                at = i * len(ws) + j
                for c in range(4):
                    store(sums, fma(lane(x, c), lane(w, c), sums[at]), at)


def _multiply_pairs(sums: Buffer, vectors: int, operands: Operands) -> None:
    """The same in float16, two columns by one instruction where the hardware has it."""
    (count,) = sums.shape
    pairs = local((int(count),), "float16x2")
    with T.serial(0, vectors // FOLD) as fold:
        for k in range(FOLD):
            xs, ws = ([_pairs(v) for v in four] for four in operands(bind(fold * FOLD + k)))
            for i, x in enumerate(xs):
                for j, w in enumerate(ws):
                    at = i * len(ws) + j
                    first = fma(x[0], w[0], pairs[at]) if k else x[0] * w[0]
                    store(pairs, first, at)
                    store(pairs, fma(x[1], w[1], pairs[at]), at)
        for at in range(int(count)):
            both = bind(cast(pairs[at], "float32"))
            store(sums, sums[at] + (lane(both, 0) + lane(both, 1)), at)


def _pairs(four: TirExpr) -> list[TirExpr]:
    return [bind(vector_of(lane(four, c), lane(four, c + 1))) for c in (0, 2)]


def write_outputs(
    thread: Thread,
    out: Buffer,
    spec: PartSpec,
    value: Callable[[int, TirExpr], TirExpr],
    row: TirExpr,
    *,
    columns: int,
) -> None:
    """Writes this thread's outputs of a row: every 16th column of its workgroup's tile.

    Args:
        spec: its outputs; columns of the tile beyond them do not exist.
        value: the j-th output and its packed row, to its value.
        columns: of the tile.
    """
    across = thread.t % SIDE
    start = bind(thread.x * columns + across)
    outputs, height, first = columns // SIDE, spec.outputs, spec.first
    if spec.gated:
        # Panels of 16 gate rows and of their 16 up rows alternate.
        for j in range(0, outputs, 2):
            with when(start + SIDE * j < height):
                gate, up = value(j, start + SIDE * j), value(j + 1, start + SIDE * (j + 1))
                at = thread.x * (columns // 2) + SIDE * (j // 2) + across + first // 2
                store(out, GATES[spec.epilogue](gate, up), row, at)
        return
    for j in range(outputs):
        with when(start + SIDE * j < height):
            at, found = bind(start + (SIDE * j + first)), value(j, start + SIDE * j)
            store(out, out[row, at] + found if spec.epilogue == "add" else found, row, at)
