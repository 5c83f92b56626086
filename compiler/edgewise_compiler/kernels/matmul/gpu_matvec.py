"""Linears of decode: a few rows of activations against all of a matrix, which is read once.

Neighbouring threads ("lanes") share an output row and take its groups of 32 columns in turn, so
that a step of theirs reads consecutive memory. A thread computes several output rows, which share
its loads of x. How a row of activations is summed depends on the matrix alone: in a group column
after column, a lane's groups in order, then the lanes. So any number of rows beside it changes
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from tvm.ir import Expr as TirExpr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer

from edgewise_compiler.kernels.function import STEP, Arg
from edgewise_compiler.kernels.gpu import (
    MAX_WORKGROUPS,
    Launch,
    Thread,
    barrier,
    bind,
    exp2,
    f32,
    fma,
    gpu_kernel,
    i32,
    lane,
    local,
    number,
    shared,
    shuffle_xor,
    store,
    subgroup_size,
    u32,
    when,
)
from edgewise_compiler.kernels.matmul.gpu_weights import VECTORS, GpuWeights

THREADS = 64
PANEL = 16  # gate and up rows alternate by so many
LOG2E = 1.4426950408889634
# Workgroups from which a thread takes four output rows: fewer would leave processors idle.
MANY_WORKGROUPS = 256


@dataclass(frozen=True)
class Shape:
    """How the work of one matrix is divided.

    Attributes:
        lanes: threads that share an output row, a power of two.
        columns: output rows of the matrix a thread computes.
        batch: rows of activations a workgroup handles.
    """

    lanes: int
    columns: int
    batch: int

    @property
    def sets(self) -> int:
        """Lane groups of a workgroup, each with output rows of its own."""
        return THREADS // self.lanes


def shape_for(rows: int, groups: int, batch: int, *, paired: bool) -> Shape:
    """Lanes that divide the groups of a row with little waste, and as many rows as pay."""
    lanes = min((64, 32, 16, 8), key=lambda n: (-(-groups // n) * n, -n))
    sets = THREADS // lanes
    columns = 4 if rows // (sets * 4) >= MANY_WORKGROUPS else 2
    while rows // (sets * columns) > MAX_WORKGROUPS or (paired and columns < 2):
        columns *= 2
    return Shape(lanes, columns, batch)


@cache
def gpu_matvec(
    x_rows: int,
    NP: int,
    K: int,
    scheme: str,
    *,
    batch: int,
    rows: int,
    bound: int,
    epilogue: str = "store",
    bias: bool = False,
    norm: float | None = None,
    gather: bool = False,
    out_width: int,
    first: int = 0,
    subgroups: bool = False,
) -> Launch:
    """``out[i, first + row]`` of ``x[i] . W[row]`` for the live rows i.

    Arguments: x float32 [x_rows, K], weight, scale of an integer scheme, the norm's weight float32
    [K] with ``norm``, logit_rows int32 [bound] with ``gather``, bias float32 [NP] with ``bias``,
    out float32 [bound or more, out_width], step.

    Args:
        batch: rows of activations a workgroup handles, 1 to 8. A row's bits do not depend on it.
        rows: which element of step counts the live rows.
        bound: the most live rows.
        epilogue: ``store``, ``add`` onto out, or ``swiglu``: silu(gate) * up of interleaved panels,
            half the columns.
        norm: x is RMS-normalized (Zhang and Sennrich 2019) with this epsilon on the way in.
        gather: row i reads ``x[logit_rows[i]]``.
        first: the packed row at which this part of a linear begins.
    """
    weights = GpuWeights(scheme, NP, K)
    paired = epilogue == "swiglu"
    shape = shape_for(NP, weights.groups, batch, paired=paired)
    arguments = (
        Arg("x", "float32x4", (x_rows, K // 4)),
        *weights.arguments(),
        *((Arg("norm", "float32x4", (K // 4,)),) if norm is not None else ()),
        *((Arg("logit_rows", "int32", (bound,)),) if gather else ()),
        *((Arg("bias", "float32", (NP,)),) if bias else ()),
        Arg("out", "float32", (max(bound, x_rows) if rows == 0 else bound, out_width)),
        STEP,
    )

    def body(thread: Thread, *buffers: Buffer) -> None:
        named = {arg.name: buffer for arg, buffer in zip(arguments, buffers, strict=True)}
        live = bind(T.min(named["step"][rows], bound))
        with when(thread.y * batch < live):
            _Kernel(thread, named, weights, shape, live, norm, gather).run(epilogue, first, bias)

    flags = "".join(letter for letter, on in (("b", bias), ("g", gather), ("s", subgroups)) if on)
    eps = "" if norm is None else f"_n{norm:.3e}".replace(".", "p").replace("-", "m")
    name = (
        f"matvec_{scheme}_{epilogue}{eps}_{NP}x{K}_x{x_rows}_m{batch}_r{rows}_{bound}"
        f"_o{out_width}_{first}{'_' + flags if flags else ''}"
    )
    symbol = {0: "n", 2: "r"}[rows]
    per_workgroup = shape.sets * shape.columns
    return gpu_kernel(
        name,
        arguments,
        body,
        threads=THREADS,
        grid=(-(-NP // per_workgroup), ("ceildiv", symbol, batch)),
        bounds={symbol: bound},
        subgroups=subgroups,
    )


@dataclass(frozen=True)
class _Kernel:
    """The parts of one kernel's body."""

    thread: Thread
    named: dict[str, Buffer]
    weights: GpuWeights
    shape: Shape
    live: TirExpr
    norm: float | None
    gather: bool

    def run(self, epilogue: str, first: int, bias: bool) -> None:
        shape, thread = self.shape, self.thread
        lane_index = bind(thread.t % shape.lanes)
        rows = self._output_rows(epilogue)
        sums = local((shape.columns * shape.batch,))
        squares = local((shape.batch,))
        for i in range(shape.columns * shape.batch):
            store(sums, 0.0, i)
        for m in range(shape.batch):
            store(squares, 0.0, m)
        sources = [self._source(m) for m in range(shape.batch)]
        groups = self.weights.groups
        with T.serial(0, -(-groups // shape.lanes)) as step:
            g = bind(step * shape.lanes + lane_index)
            if groups % shape.lanes:
                with when(g < groups):
                    self._group(rows, sources, g, sums, squares)
            else:
                self._group(rows, sources, g, sums, squares)
        values = [sums[i] for i in range(shape.columns * shape.batch)]
        if self.norm is not None:
            values += [squares[m] for m in range(shape.batch)]
        totals = self._across_lanes(values)
        self._finish(totals, epilogue, first, bias)

    def _output_rows(self, epilogue: str) -> list[TirExpr]:
        """The packed rows this thread computes; for SwiGLU gate rows, then their up rows."""
        shape, thread = self.shape, self.thread
        most = self.weights.rows - 1
        set_index = bind(thread.x * shape.sets + thread.t // shape.lanes)
        if epilogue == "swiglu":
            half = shape.columns // 2
            outputs = [bind(set_index * half + i) for i in range(half)]
            gates = [bind(o // PANEL * (2 * PANEL) + o % PANEL) for o in outputs]
            return [bind(T.min(r, most)) for r in (*gates, *(g + PANEL for g in gates))]
        return [bind(T.min(set_index * shape.columns + i, most)) for i in range(shape.columns)]

    def _source(self, m: int) -> TirExpr:
        """The row of x for the m-th row of this workgroup; the last live one beyond those."""
        row = bind(T.min(self.thread.y * self.shape.batch + m, self.live - 1))
        return bind(self.named["logit_rows"][row]) if self.gather else row

    def _group(
        self,
        rows: Sequence[TirExpr],
        sources: Sequence[TirExpr],
        g: TirExpr,
        sums: Buffer,
        squares: Buffer,
    ) -> None:
        """Adds one group of columns to every sum."""
        batch, x = self.shape.batch, self.named["x"]
        packed = [self.named["weight"]] + ([self.named["scale"]] if self.weights.scaled else [])
        loaded = [self.weights.group(packed, row, g) for row in rows]
        inner = local((len(rows) * batch,))
        for j in range(VECTORS):
            gain = bind(self.named["norm"][g * VECTORS + j]) if self.norm is not None else None
            for m, source in enumerate(sources):
                vector = bind(x[source, g * VECTORS + j])
                if gain is not None:
                    for c in range(4):
                        value = lane(vector, c)
                        store(squares, fma(value, value, squares[m]), m)
                    vector = bind(vector * gain)
                for r, (columns, _) in enumerate(loaded):
                    at = r * batch + m
                    for c in range(4):
                        product = lane(columns[j], c), lane(vector, c)
                        if j == c == 0:
                            store(inner, product[0] * product[1], at)
                        else:
                            store(inner, fma(*product, inner[at]), at)
        for r, (_, scale) in enumerate(loaded):
            for m in range(batch):
                at = r * batch + m
                total = sums[at] + inner[at] if scale is None else fma(inner[at], scale, sums[at])
                store(sums, total, at)

    def _across_lanes(self, values: Sequence[TirExpr]) -> Callable[[Any, Any], TirExpr]:
        """Adds the lanes up; returns a reader of (which value, which lane group)."""
        lanes, thread = self.shape.lanes, self.thread
        stride = THREADS + 1  # threads that read different values then read different banks
        scratch = shared((len(values) * stride,))
        joined: TirExpr | int = 1
        if thread.subgroups:
            width = subgroup_size()
            total = local((1,))
            for v, value in enumerate(values):
                store(total, value, 0)
                for mask in (1 << i for i in range(lanes.bit_length() - 1)):
                    other = shuffle_xor(total[0], mask)
                    store(total, T.Select(width > u32(mask), total[0] + other, total[0]), 0)
                store(scratch, total[0], v * stride + thread.t)
            joined = bind(T.min(i32(width), lanes))
        else:
            for v, value in enumerate(values):
                store(scratch, value, v * stride + thread.t)
        barrier()
        sum_ = local((1,))

        def read(value: Any, set_index: Any) -> TirExpr:
            base = bind(value * stride + set_index * lanes)
            store(sum_, scratch[base], 0)
            with T.serial(1, T.floordiv(lanes, joined) if thread.subgroups else lanes) as i:
                store(sum_, sum_[0] + scratch[base + i * joined], 0)
            return bind(sum_[0])

        return read

    def _finish(
        self, totals: Callable[[Any, Any], TirExpr], epilogue: str, first: int, bias: bool
    ) -> None:
        """One thread an output: the sums of its lanes, the norm's scale, the epilogue."""
        shape, thread = self.shape, self.thread
        paired = epilogue == "swiglu"
        columns = shape.columns // 2 if paired else shape.columns
        outputs = shape.sets * columns * shape.batch
        width = self.weights.rows // 2 if paired else self.weights.rows
        out = self.named["out"]
        for start in range(0, outputs, THREADS):
            index = bind(thread.t + start)
            set_index = bind(index % shape.sets)
            column = bind(index // shape.sets % columns)
            m = bind(index // (shape.sets * columns))
            row = bind(thread.y * shape.batch + m)
            at = bind((thread.x * shape.sets + set_index) * columns + column)
            with when(T.And(T.And(index < outputs, row < self.live), at < width)):
                scale = self._norm_scale(totals, set_index, m)

                def total(
                    which: TirExpr,
                    packed: TirExpr,
                    m: TirExpr = m,
                    set_index: TirExpr = set_index,
                    scale: TirExpr | None = scale,
                ) -> TirExpr:
                    value = totals(which * shape.batch + m, set_index)
                    shift = self.named["bias"][packed] if bias else f32(0.0)
                    if scale is not None:
                        return bind(fma(value, scale, shift))
                    return bind(value + shift) if bias else value

                target = bind(at + (first // 2 if paired else first))
                if paired:
                    gate_row = bind(at // PANEL * (2 * PANEL) + at % PANEL)
                    gate = total(column, gate_row)
                    up = total(column + columns, gate_row + PANEL)
                    store(out, bind(gate / (f32(1.0) + exp2(gate * f32(-LOG2E)))) * up, row, target)
                elif epilogue == "add":
                    store(out, out[row, target] + total(column, at), row, target)
                else:
                    store(out, total(column, at), row, target)

    def _norm_scale(
        self, totals: Callable[[Any, Any], TirExpr], set_index: TirExpr, m: TirExpr
    ) -> TirExpr | None:
        if self.norm is None:
            return None
        squares = totals(self.shape.columns * self.shape.batch + m, set_index)
        mean = fma(squares, f32(1.0 / self.weights.k), number(self.norm))
        return bind(f32(1.0) / T.sqrt(mean))
