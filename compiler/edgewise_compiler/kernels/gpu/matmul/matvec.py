"""Linears of decode: a few rows of activations against all of a matrix, which is read once.

Neighbouring threads ("lanes") share an output row and take its runs of 8 columns ("octets") in
turn: their loads of weights and of x then lie next to each other. A thread computes several output
rows, which share its loads of x. How a row of activations is summed depends on the matrix alone: a
lane's columns in order, then the lanes in pairs, pairs of pairs and so on. So any number of rows
beside it changes nothing, nor do subgroups.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from tvm.ir import Expr as TirExpr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer

from edgewise_compiler.kernels.function import STEP, Arg
from edgewise_compiler.kernels.gpu.matmul.spec import PartSpec
from edgewise_compiler.kernels.gpu.matmul.weights import GpuWeights, sum_lanes
from edgewise_compiler.kernels.gpu.operations import f32, fma, lane, number, silu
from edgewise_compiler.kernels.gpu.reduce import sum_groups
from edgewise_compiler.kernels.gpu.thread import Launch, Thread, bind, kernel, local, store, when
from edgewise_runtime.format.abi import PANEL, ROWS, STEP_SYMBOLS

THREADS = 64
OCTET = 8  # columns
# Octets of a row from which 64 lanes have enough to do each.
LONG_ROW = 256
# Workgroups from which a thread takes four output rows: fewer would leave processors idle.
MANY_WORKGROUPS = 256
# Octets whose weights are asked for before the first is used, by rows of activations at most: the
# more of those, the fewer registers are free and the more there is to do meanwhile.
AHEAD = ((2, 4), (4, 2), (8, 1))


@dataclass(frozen=True)
class Shape:
    """How the work of one matrix is divided.

    Attributes:
        lanes: threads that share an output row, a power of two.
        columns: output rows of the matrix a thread computes.
        batch: rows of activations a workgroup handles.
        ahead: octets loaded together.
    """

    lanes: int
    columns: int
    batch: int
    ahead: int

    @property
    def sets(self) -> int:
        """Lane groups of a workgroup, each with output rows of its own."""
        return THREADS // self.lanes


def shape_for(rows: int, k: int, batch: int) -> Shape:
    """As many lanes as leave at most one in eight idle, and as many rows a thread as pay.

    The lanes, which decide how a row is summed, follow from the row's length ``k`` alone.
    """
    octets = k // OCTET
    lengths = (64, 32, 16) if octets >= LONG_ROW else (32, 16)
    lanes = next((n for n in lengths if -(-octets // n) * n * 7 <= octets * 8), 8)
    columns = 4 if rows // (THREADS // lanes * 4) >= MANY_WORKGROUPS else 2
    return Shape(lanes, columns, batch, next(ahead for most, ahead in AHEAD if batch <= most))


@cache
def matvec(
    spec: PartSpec,
    *,
    batch: int,
    norm: float | None = None,
    gather: bool = False,
    subgroups: bool = False,
) -> Launch:
    """``out[i, first + row]`` of ``x[i] . W[row]`` for the live rows i.

    Arguments: x float32 [rows, K], weight, scale of an integer scheme, the norm's weight float32
    [K] with ``norm``, logit_rows int32 [live] with ``gather``, bias float32 [NP] with ``bias``,
    out float32 [live or more, width], step.

    Args:
        spec: NP outputs and K inputs, multiples of 32.
        batch: rows of activations a workgroup handles, 1 to 8. A row's bits do not depend on it.
        norm: x is RMS-normalized (Zhang and Sennrich 2019) with this epsilon on the way in.
        gather: row i reads ``x[logit_rows[i]]``.
        subgroups: for the sums over lanes.
    """
    NP, K, bound, count = spec.outputs, spec.inputs, spec.live, spec.count
    weights = GpuWeights(spec.scheme, NP, K)
    shape = shape_for(NP, K, batch)
    arguments = (
        Arg("x", "float32x4", (spec.rows, K // 4)),
        *weights.octet_arguments(),
        *((Arg("norm", "float32x4", (K // 4,)),) if norm is not None else ()),
        *((Arg("logit_rows", "int32", (bound,)),) if gather else ()),
        *((Arg("bias", "float32", (NP,)),) if spec.bias else ()),
        Arg("out", "float32", (max(bound, spec.rows) if count == ROWS else bound, spec.width)),
        STEP,
    )

    def body(thread: Thread, *buffers: Buffer) -> None:
        named = {arg.name: buffer for arg, buffer in zip(arguments, buffers, strict=True)}
        live = bind(T.min(named["step"][count], bound))
        with when(thread.y * batch < live):
            ready = weights.begun(team=thread)
            _Kernel(thread, named, spec, ready, shape, live, norm, gather).run()

    letters = (("b", spec.bias), ("g", gather), ("s", subgroups))
    flags = "".join(letter for letter, on in letters if on)
    eps = "" if norm is None else f"_n{norm!r}".replace(".", "p").replace("-", "m")
    name = (
        f"matvec_{spec.scheme}_{spec.epilogue}{eps}_{NP}x{K}_x{spec.rows}_m{batch}_r{count}"
        f"_{bound}_o{spec.width}_{spec.first}{'_' + flags if flags else ''}"
    )
    symbol = STEP_SYMBOLS[count]
    return kernel(
        name,
        arguments,
        body,
        threads=THREADS,
        grid=(NP // (shape.sets * shape.columns), ("ceildiv", symbol, batch)),
        bounds={symbol: bound},
        subgroups=subgroups,
    )


@dataclass(frozen=True)
class _Kernel:
    """The parts of one kernel's body."""

    thread: Thread
    named: dict[str, Buffer]
    spec: PartSpec
    weights: GpuWeights
    shape: Shape
    live: TirExpr
    norm: float | None
    gather: bool

    def run(self) -> None:
        shape = self.shape
        lane_index = bind(self.thread.t % shape.lanes)
        rows = self._output_rows()
        sources = [self._source(m) for m in range(shape.batch)]
        sums = local((shape.columns * shape.batch,))
        squares = local((shape.batch,))
        values = [(sums, i) for i in range(shape.columns * shape.batch)]
        if self.norm is not None:
            values += [(squares, m) for m in range(shape.batch)]
        for buffer, i in values:
            store(buffer, 0.0, i)
        octets, together = self.weights.k // OCTET, shape.lanes * shape.ahead
        whole, rest = divmod(octets, together)
        if whole:
            with T.serial(0, whole) as block:
                start = bind(block * together + lane_index)
                places = [bind(start + shape.lanes * i) for i in range(shape.ahead)]
                self._octets(rows, sources, places, sums, squares)
        if rest:
            with T.serial(0, -(-rest // shape.lanes)) as step:
                c = bind(step * shape.lanes + lane_index + whole * together)
                with when(c < octets):
                    self._octets(rows, sources, [c], sums, squares)
        read = sum_groups(self.thread, [buffer[i] for buffer, i in values], shape.lanes)
        self._finish(read)

    def _output_rows(self) -> list[TirExpr]:
        """The packed rows this thread computes; for SwiGLU gate rows, then their up rows."""
        shape, thread = self.shape, self.thread
        set_index = bind(thread.x * shape.sets + thread.t // shape.lanes)
        if self.spec.epilogue == "swiglu":
            half = shape.columns // 2
            gates = [_gate_row(bind(set_index * half + i)) for i in range(half)]
            return [*gates, *(bind(gate + PANEL) for gate in gates)]
        return [bind(set_index * shape.columns + i) for i in range(shape.columns)]

    def _source(self, m: int) -> TirExpr:
        """The row of x for the m-th row of this workgroup; the last live one beyond those."""
        row = bind(T.min(self.thread.y * self.shape.batch + m, self.live - 1))
        return bind(self.named["logit_rows"][row]) if self.gather else row

    def _octets(
        self,
        rows: Sequence[TirExpr],
        sources: Sequence[TirExpr],
        places: Sequence[TirExpr],
        sums: Buffer,
        squares: Buffer,
    ) -> None:
        """Adds the octets at ``places`` to every sum, having asked for all their weights first."""
        weights = self.weights
        packed = [self.named["weight"]] + ([self.named["scale"]] if weights.scaled else [])
        words = [[weights.load(packed, row, c) for row in rows] for c in places]
        numbers = [
            [weights.numbers(packed, row, bind(c // 4)) for row in rows] if weights.scaled else None
            for c in places
        ]
        inner = local((self.shape.columns * self.shape.batch,)) if weights.scaled else sums
        for c, loaded, of_rows in zip(places, words, numbers, strict=True):
            if of_rows is not None:
                for at in range(self.shape.columns * self.shape.batch):
                    store(inner, 0.0, at)
            columns = [weights.unpack(row_words) for row_words in loaded]
            totals: list[TirExpr] = []
            for m, source in enumerate(sources):
                vectors = self._x(source, c, m, squares)
                if weights.shifted:
                    totals.append(bind(sum_lanes(vectors)))
                for j, vector in enumerate(vectors):
                    for r in range(len(rows)):
                        at = r * self.shape.batch + m
                        for i in range(4):
                            product = lane(columns[r][j], i), lane(vector, i)
                            store(inner, fma(*product, inner[at]), at)
            if of_rows is not None:
                for at in range(self.shape.columns * self.shape.batch):
                    scale, *shift = of_rows[at // self.shape.batch]
                    store(sums, fma(inner[at], scale, sums[at]), at)
                    for more in shift:
                        total = totals[at % self.shape.batch]
                        store(sums, fma(total, more, sums[at]), at)

    def _x(self, source: TirExpr, c: TirExpr, m: int, squares: Buffer) -> list[TirExpr]:
        """An octet of x; with a norm times its weight, the squares added to row m's."""
        vectors = [bind(self.named["x"][source, c * 2 + j]) for j in range(2)]
        if self.norm is None:
            return vectors
        for vector in vectors:
            for i in range(4):
                store(squares, fma(lane(vector, i), lane(vector, i), squares[m]), m)
        return [bind(v * self.named["norm"][c * 2 + j]) for j, v in enumerate(vectors)]

    def _finish(self, read: Callable[[TirExpr | int, TirExpr | int], TirExpr]) -> None:
        """One thread an output: the sums of its lanes, the norm's scale, the epilogue."""
        shape, thread, spec = self.shape, self.thread, self.spec
        epilogue, first = spec.epilogue, spec.first
        paired = epilogue == "swiglu"
        columns = shape.columns // 2 if paired else shape.columns
        outputs = shape.sets * columns * shape.batch
        out = self.named["out"]
        with T.serial(0, -(-outputs // THREADS)) as turn:
            index = bind(turn * THREADS + thread.t)
            column = bind(index % columns)
            set_index = bind(index // columns % shape.sets)
            m = bind(index // (columns * shape.sets))
            row = bind(thread.y * shape.batch + m)
            at = bind((thread.x * shape.sets + set_index) * columns + column)
            with when(T.And(index < outputs, row < self.live)):
                scale = None
                if self.norm is not None:
                    squares = read(shape.columns * shape.batch + m, set_index)
                    mean = fma(squares, f32(1.0 / self.weights.k), number(self.norm))
                    scale = bind(f32(1.0) / T.sqrt(mean))

                def total(which: TirExpr, packed: TirExpr) -> TirExpr:
                    value = read(which * shape.batch + m, set_index)
                    shift = self.named["bias"][packed] if spec.bias else None
                    if scale is None:
                        return value if shift is None else bind(value + shift)
                    return bind(value * scale if shift is None else fma(value, scale, shift))

                if paired:
                    gate_row = _gate_row(at)
                    gate = total(column, gate_row)
                    value = bind(silu(gate) * total(column + columns, gate_row + PANEL))
                else:
                    value = total(column, at)
                place = bind(at + (first // 2 if paired else first))
                store(out, out[row, place] + value if epilogue == "add" else value, row, place)


def _gate_row(f: TirExpr) -> TirExpr:
    """The packed row of gate f; its up row lies a panel further."""
    return bind(f // PANEL * (2 * PANEL) + f % PANEL)
