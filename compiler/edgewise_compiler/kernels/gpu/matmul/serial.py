"""Linears in which no thread waits for another: every output is summed by one thread, in order.

Software adapters and some mobile GPUs pay more for a barrier than for the work it divides. Here a
thread unpacks a group of 32 columns of a few matrix rows and multiplies it with one row of x or
with several. An output is one chain of additions over the groups in order, and each group one over
its columns, whatever rows stand beside it: decode and prefill give the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from tvm.ir import Expr as TirExpr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer

from edgewise_compiler.kernels.function import STEP, Arg
from edgewise_compiler.kernels.gpu.matmul.spec import PartSpec
from edgewise_compiler.kernels.gpu.matmul.weights import VECTORS, GpuWeights, sum_lanes
from edgewise_compiler.kernels.gpu.operations import GATES, fma, lane
from edgewise_compiler.kernels.gpu.thread import Launch, Thread, bind, kernel, local, store, when
from edgewise_runtime.format.abi import PANEL, ROWS, STEP_SYMBOLS

THREADS = 32
COLUMNS = 4  # matrix rows a thread computes: they share its loads of x
MANY_ROWS = 4  # rows of x a thread multiplies them with, which share what was unpacked
OCTETS = VECTORS // 2  # of 8 columns, in a group


@cache
def matmul_serial(spec: PartSpec, *, single: bool) -> Launch:
    """``out[i, first + row]`` of ``x[i] . W[row]`` for the live rows i.

    Arguments: x float32 [rows, K], weight, scale of an integer scheme, bias float32 [NP] with
    ``bias``, out float32 [live or more, width], step.

    Args:
        spec: NP outputs and K inputs.
        single: for steps of one row; otherwise a thread takes four. The bits are the same.
    """
    NP, K, bound, count = spec.outputs, spec.inputs, spec.live, spec.count
    weights = GpuWeights(spec.scheme, NP, K)
    batch = 1 if single else MANY_ROWS
    arguments = (
        Arg("x", "float32x4", (spec.rows, K // 4)),
        *(weights.arguments() if single else weights.octet_arguments()),
        *((Arg("bias", "float32", (NP,)),) if spec.bias else ()),
        Arg("out", "float32", (max(bound, spec.rows) if count == ROWS else bound, spec.width)),
        STEP,
    )

    def body(thread: Thread, *buffers: Buffer) -> None:
        named = {arg.name: buffer for arg, buffer in zip(arguments, buffers, strict=True)}
        live = bind(T.min(named["step"][count], bound))
        place = bind(thread.x * THREADS + thread.t)
        with when(T.And(place * COLUMNS < NP, thread.y * batch < live)):
            SerialKernel(thread, named, spec, weights.begun(), batch, live, place).run()

    name = (
        f"serial_{spec.scheme}_{spec.epilogue}_{NP}x{K}_x{spec.rows}_m{batch}_r{count}_{bound}"
        f"_o{spec.width}_{spec.first}{'_b' if spec.bias else ''}"
    )
    symbol = STEP_SYMBOLS[count]
    return kernel(
        name,
        arguments,
        body,
        threads=THREADS,
        grid=(-(-NP // (THREADS * COLUMNS)), ("ceildiv", symbol, batch)),
        bounds={symbol: bound},
    )


@dataclass(frozen=True)
class SerialKernel:
    """The parts of one kernel's body."""

    thread: Thread
    named: dict[str, Buffer]
    spec: PartSpec
    weights: GpuWeights
    batch: int
    live: TirExpr
    place: TirExpr

    def run(self) -> None:
        columns = self._columns()
        sources = [self._source(m) for m in range(self.batch)]
        sums = local((COLUMNS * self.batch,))
        for i in range(COLUMNS * self.batch):
            store(sums, 0.0, i)
        inner = local((COLUMNS * self.batch,)) if self.weights.scaled else sums
        with T.serial(0, self.weights.groups) as group:
            self._group(columns, sources, group, inner, sums)
        for m in range(self.batch):
            row = bind(self._row(m))
            with when(row < self.live):
                values = [
                    bind(sums[c * self.batch + m] + self.named["bias"][column])
                    if self.spec.bias
                    else sums[c * self.batch + m]
                    for c, column in enumerate(columns)
                ]
                self._write(values, self._target(row))

    def _row(self, m: int) -> TirExpr:
        """The m-th row of this workgroup."""
        return self.thread.y * self.batch + m

    def _source(self, m: int) -> TirExpr:
        """The row of x for it; the last live one beyond those."""
        return bind(T.min(self._row(m), self.live - 1))

    def _target(self, row: TirExpr) -> TirExpr:
        """The row of out for it."""
        return row

    def _packed(self, row: TirExpr) -> TirExpr:
        """Where the matrix has one of its rows."""
        return row

    def _columns(self) -> list[TirExpr]:
        """The packed rows this thread computes; for SwiGLU gate rows, then their up rows."""
        if self.spec.gated:
            half = COLUMNS // 2
            gate = bind(self.place * half)
            packed = bind(gate // PANEL * (2 * PANEL) + gate % PANEL)
            gates = [bind(packed + i) for i in range(half)]
            rows = [*gates, *(bind(row + PANEL) for row in gates)]
        else:
            rows = [bind(self.place * COLUMNS + c) for c in range(COLUMNS)]
        return [self._packed(row) for row in rows]

    def _group(
        self,
        columns: Sequence[TirExpr],
        sources: Sequence[TirExpr],
        group: TirExpr,
        inner: Buffer,
        sums: Buffer,
    ) -> None:
        """Adds 32 columns to every sum; products of integers by themselves first, unscaled."""
        weights = self.weights
        packed = [self.named["weight"]] + ([self.named["scale"]] if weights.scaled else [])
        if weights.scaled:
            for at in range(COLUMNS * self.batch):
                store(inner, 0.0, at)
        totals = local((self.batch,)) if weights.shifted else None
        if totals is not None:
            for m in range(self.batch):
                store(totals, 0.0, m)

        def add(octet: TirExpr | int, unpacked: Sequence[Sequence[TirExpr]]) -> None:
            """Adds 8 columns, unpacked for each packed row as two vectors."""
            xs = [
                [bind(self.named["x"][row, group * VECTORS + octet * 2 + j]) for j in range(2)]
                for row in sources
            ]
            if totals is not None:
                for m, vectors in enumerate(xs):
                    store(totals, totals[m] + sum_lanes(vectors), m)
            for c, halves in enumerate(unpacked):
                for j, column in enumerate(halves):
                    for m, vectors in enumerate(xs):
                        at = c * self.batch + m
                        for i in range(4):
                            product = lane(column, i), lane(vectors[j], i)
                            store(inner, fma(*product, inner[at]), at)

        if self.batch == 1:
            words = [weights.group_words(packed[0], column, group) for column in columns]
            for octet in range(OCTETS):
                add(octet, [weights.unpack_octet(loaded, octet) for loaded in words])
        else:
            # Four times as long, a kernel takes four times as long to compile, in software.
            with T.serial(0, OCTETS) as octet:
                c = bind(group * OCTETS + octet)
                add(octet, [weights.unpack(weights.load(packed, row, c)) for row in columns])
        if weights.scaled:
            for c, column in enumerate(columns):
                scale, *shift = weights.numbers(packed, column, group)
                for m in range(self.batch):
                    at = c * self.batch + m
                    store(sums, fma(inner[at], scale, sums[at]), at)
                    if totals is not None:
                        store(sums, fma(totals[m], shift[0], sums[at]), at)

    def _write(self, values: list[TirExpr], row: TirExpr) -> None:
        out, epilogue, first = self.named["out"], self.spec.epilogue, self.spec.first
        outputs, start = COLUMNS, first
        if self.spec.gated:
            outputs, start = COLUMNS // 2, first // 2
            gates, ups = values[:outputs], values[outputs:]
            values = [bind(GATES[epilogue](gate, up)) for gate, up in zip(gates, ups, strict=True)]
        for c, value in enumerate(values):
            at = bind(self.place * outputs + (start + c))
            store(out, out[row, at] + value if epilogue == "add" else value, row, at)
