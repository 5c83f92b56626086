"""Linears of decode: a few rows of activations against all of a matrix, which is read once.

Neighbouring threads ("lanes") share an output row and take its runs of columns in turn: their loads
of weights then lie next to each other, and each is as wide as a load can be. A thread computes
several output rows, which share its reads of x. Of one row of activations x is put into shared
memory, normalized on the way, while the first weights are coming; several rows do not fit there.

How a row of activations is summed depends on the matrix alone: a lane's runs in order, in a run
every fourth column, then the lanes in pairs, pairs of pairs and so on. So any number of rows beside
it changes nothing, nor do subgroups.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial, reduce
from operator import add
from typing import Protocol

from tvm.ir import Expr as TirExpr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer

from edgewise_compiler.kernels.function import STEP, Arg, logit_rows_arg
from edgewise_compiler.kernels.gpu.matmul.shape import THREADS, Shape, joining_shape, shape_for
from edgewise_compiler.kernels.gpu.matmul.spec import PartSpec
from edgewise_compiler.kernels.gpu.matmul.weights import GpuWeights, sum_lanes
from edgewise_compiler.kernels.gpu.operations import GATES, f32, fma, number
from edgewise_compiler.kernels.gpu.reduce import sum_groups
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
from edgewise_runtime.format.abi import PANEL, ROWS, STEP_SYMBOLS

# Columns of x that are in shared memory at once: all of a row, or of longer ones a piece.
ALL_COLUMNS, SOME_COLUMNS = 3072, 2048
AT_ONCE = 4  # vectors of x that a thread asks for before it stores the first


class Source(Protocol):
    """What is no buffer yet and becomes a row of x on the way into shared memory."""

    @property
    def names(self) -> tuple[int | str, ...]:
        """What tells kernels that read it from others."""

    def arguments(self) -> tuple[Arg, ...]:
        """What it is made of, in place of x."""

    def begin(self, thread: Thread, named: Mapping[str, Buffer]) -> Callable[[TirExpr], TirExpr]:
        """Four columns by their number. Every thread of the workgroup comes here once."""


@cache
def matvec(
    spec: PartSpec,
    *,
    batch: int,
    norm: float | None = None,
    gather: bool = False,
    subgroups: bool = False,
    source: Source | None = None,
) -> Launch:
    """``out[i, first + row]`` of ``x[i] . W[row]`` for the live rows i.

    Arguments: x float32 [rows, K], weight, scale of an integer scheme, the norm's weight float32
    [K] with ``norm``, logit_rows int32 [live] with ``gather``, bias float32 [NP] with ``bias``,
    out float32 [live or more, width], step. With ``source`` its arguments stand for x.

    Args:
        spec: NP outputs and K inputs, multiples of 32.
        batch: rows of activations a workgroup handles, 1 to 8. A row's bits do not depend on it.
        norm: x is RMS-normalized (Zhang and Sennrich 2019) with this epsilon on the way in.
        gather: row i reads ``x[logit_rows[i]]``.
        subgroups: for the sums over lanes.
        source: of a workgroup's only row of x, where it is no buffer; ``batch`` is 1 then.
    """
    NP, K, bound, count = spec.outputs, spec.inputs, spec.live, spec.count
    weights = GpuWeights(spec.scheme, NP, K)
    runs = K // weights.run
    shape = joining_shape(NP, runs) if source else shape_for(NP, runs, batch)
    arguments = (
        *(source.arguments() if source else (Arg("x", "float32x4", (spec.rows, K // 4)),)),
        *weights.arguments(),
        *((Arg("norm", "float32x4", (K // 4,)),) if norm is not None else ()),
        *((logit_rows_arg(bound, spec.rows),) if gather else ()),
        *((Arg("bias", "float32", (NP,)),) if spec.bias else ()),
        Arg("out", "float32", (max(bound, spec.rows) if count == ROWS else bound, spec.width)),
        STEP,
    )

    def body(thread: Thread, *buffers: Buffer) -> None:
        named = {arg.name: buffer for arg, buffer in zip(arguments, buffers, strict=True)}
        live = bind(T.min(named["step"][count], bound))
        with when(thread.y * batch < live):
            ready = weights.begun(team=thread)
            sums = local((shape.outputs,), "float32" if weights.scaled else "float32x4")
            squares = None if norm is None else local((batch,), "float32x4")
            MatvecKernel(
                thread, named, spec, ready, shape, live, norm, gather, sums, squares, source
            ).run()

    letters = (("b", spec.bias), ("g", gather), ("s", subgroups))
    flags = "".join(letter for letter, on in letters if on)
    read = "" if source is None else "".join(f"_{part}" for part in source.names)
    eps = "" if norm is None else f"_n{norm!r}".replace(".", "p").replace("-", "m")
    name = (
        f"matvec_{spec.scheme}_{spec.epilogue}{eps}_{NP}x{K}_x{spec.rows}_m{batch}_r{count}"
        f"_{bound}_o{spec.width}_{spec.first}{'_' + flags if flags else ''}{read}"
    )
    symbol = STEP_SYMBOLS[count]
    return kernel(
        name,
        arguments,
        body,
        threads=THREADS,
        grid=(shape.workgroups(NP), ("ceildiv", symbol, batch)),
        bounds={symbol: bound},
        subgroups=subgroups,
    )


@dataclass(frozen=True)
class MatvecKernel:
    """The parts of one kernel's body; ``sums`` and ``squares`` are what a lane has added up."""

    thread: Thread
    named: dict[str, Buffer]
    spec: PartSpec
    weights: GpuWeights
    shape: Shape
    live: TirExpr
    norm: float | None
    gather: bool
    sums: Buffer
    squares: Buffer | None
    source: Source | None

    def run(self) -> None:
        shape = self.shape
        _clear(self.sums, shape.outputs)
        _clear(self.squares, shape.batch)
        rows = self._output_rows()
        sources = [self._source(m) for m in range(shape.batch)]
        if shape.batch == 1:
            self._staged(rows, sources[0])
        else:
            self._unstaged(rows, sources)
        totals = [self.sums[i] for i in range(shape.outputs)]
        if not self.weights.scaled:
            totals = [bind(sum_lanes([total])) for total in totals]
        if self.squares is not None:
            totals += [bind(sum_lanes([self.squares[m]])) for m in range(shape.batch)]
        self._finish(sum_groups(self.thread, totals, shape.lanes))

    def _output_rows(self) -> list[TirExpr]:
        """The packed rows this thread computes; for SwiGLU gate rows, then their up rows."""
        shape, thread = self.shape, self.thread
        set_index = bind(thread.x * shape.sets + thread.t // shape.lanes)
        if self.spec.gated:
            half = shape.columns // 2
            gates = [_gate_row(bind(set_index * half + i)) for i in range(half)]
            rows = [*gates, *(bind(gate + PANEL) for gate in gates)]
        else:
            rows = [bind(set_index * shape.columns + i) for i in range(shape.columns)]
        return [self._packed(row) for row in rows]

    def _packed(self, row: TirExpr) -> TirExpr:
        """Where the matrix has one of its rows."""
        return row

    def _source(self, m: int) -> TirExpr:
        """The row of x for the m-th row of this workgroup; the last live one beyond those."""
        row = bind(T.min(self.thread.y * self.shape.batch + m, self.live - 1))
        return bind(self.named["logit_rows"][row]) if self.gather else row

    def _staged(self, rows: Sequence[TirExpr], source: TirExpr) -> None:
        """One row of activations, through shared memory."""
        run, k = self.weights.run, self.weights.k
        # What a source keeps in shared memory needs room beside them.
        most = ALL_COLUMNS if self.source is None else SOME_COLUMNS
        columns = k if k <= most else SOME_COLUMNS
        vectors = run // 4  # of x, in a run
        runs = columns // run
        # A vector of every run lies together: neighbouring lanes read neighbours. Storing them by
        # runs, an odd number apart, meets no bank twice either.
        stride = runs | 1
        space = shared((vectors * stride,), "float32x4")
        row = self._row(source)

        def stage(piece: TirExpr | int) -> None:
            def fill() -> None:
                self._fill(space, row, piece * (columns // 4), columns // 4, stride)
                barrier()

            def x(m: int, place: TirExpr, j: int) -> TirExpr:
                return space[j * stride + place]

            self._add_runs(rows, piece * runs, runs, x, fill)

        if columns == k:
            stage(0)
            return
        with T.serial(0, -(-k // columns)) as piece:
            stage(piece)
            barrier()

    def _row(self, source: TirExpr) -> Callable[[TirExpr], TirExpr]:
        """Four columns of a row of x by their number."""
        if self.source is not None:
            return self.source.begin(self.thread, self.named)
        x = self.named["x"]
        return lambda at: bind(x[source, at])

    def _fill(
        self,
        space: Buffer,
        row: Callable[[TirExpr], TirExpr],
        first: TirExpr | int,
        count: int,
        stride: int,
    ) -> None:
        """Puts ``count`` vectors of a row of x, normalized, where `_staged` wants them."""
        vectors, whole = self.weights.run // 4, self.weights.k // 4
        turns = -(-count // THREADS)
        together = min(AT_ONCE, turns)
        rounds = -(-turns // together)
        # The last turn need not be for all threads, nor the last piece of a row as long as others.
        ragged = rounds * together * THREADS != count or whole % count != 0
        with T.serial(0, rounds) as i:
            begin = bind(i * (together * THREADS) + self.thread.t)
            places = [bind(begin + j * THREADS) for j in range(together)]
            ats = [bind(first + place) for place in places]
            if ragged:
                ats = [bind(T.min(at, whole - 1)) for at in ats]
            loaded = [row(at) for at in ats]

            def put(place: TirExpr, at: TirExpr, vector: TirExpr) -> None:
                value = self._normed(vector, at)
                self._square(vector, 0)
                store(space, value, place % vectors * stride + place // vectors)

            for place, at, vector in zip(places, ats, loaded, strict=True):
                if not ragged:
                    put(place, at, vector)
                    continue
                with when(T.And(place < count, first + place < whole)):
                    put(place, at, vector)

    def _unstaged(self, rows: Sequence[TirExpr], sources: Sequence[TirExpr]) -> None:
        """Several rows of activations, from where they lie."""
        x, run, whole = self.named["x"], self.weights.run, self.weights.k // 4
        if self.squares is not None:
            # In the order in which `_fill` comes to them.
            with T.serial(0, -(-whole // THREADS)) as i:
                at = bind(i * THREADS + self.thread.t)
                with when(at < whole):
                    for m, source in enumerate(sources):
                        self._square(bind(x[source, at]), m)

        def read(m: int, place: TirExpr, j: int) -> TirExpr:
            at = bind(place * (run // 4) + j)
            return self._normed(x[sources[m], at], at)

        self._add_runs(rows, 0, self.weights.k // run, read, lambda: None)

    def _normed(self, vector: TirExpr, at: TirExpr) -> TirExpr:
        """Four columns of x, times the norm's weight if there is one."""
        return vector if self.norm is None else vector * self.named["norm"][at]

    def _square(self, vector: TirExpr, m: int) -> None:
        """Adds the squares of four columns of the m-th row."""
        if self.squares is not None:
            store(self.squares, fma(vector, vector, self.squares[m]), m)

    def _add_runs(
        self,
        rows: Sequence[TirExpr],
        first: TirExpr | int,
        count: int,
        x: Callable[[int, TirExpr, int], TirExpr],
        prepare: Callable[[], None],
    ) -> None:
        """Adds this lane's runs, of ``count`` from ``first`` on, to every sum.

        The weights of a run are asked for before those of the run before are used, and the first
        ones before ``prepare``, after which x may be read.

        Args:
            x: of (m, place, j) the j-th vector of the m-th row's run that is ``place`` after
                ``first``.
        """
        weights, lanes = self.weights, self.shape.lanes
        packed = [self.named["weight"]] + ([self.named["scale"]] if weights.scaled else [])
        dtype, loads = weights.run_loads
        held = local((len(rows) * loads,), dtype)
        each = 1 + weights.shifted if weights.scaled else 0
        scales = local((max(1, len(rows) * each),))
        whole = weights.k // weights.run
        # Pieces of a row may end before their last run, and the last turn need not be for all.
        ragged = count % lanes != 0 or whole % count != 0
        lane_index = bind(self.thread.t % lanes)

        def ask(turn: TirExpr | int) -> None:
            c = bind(first + turn * lanes + lane_index)
            if ragged:
                c = bind(T.min(c, whole - 1))
            for r, row in enumerate(rows):
                for i, load in enumerate(weights.load_run(packed[0], row, c)):
                    store(held, load, r * loads + i)
                if weights.scaled:
                    for i, found in enumerate(weights.numbers(packed, row, c)):
                        store(scales, found, r * each + i)

        def taken() -> tuple[list[list[TirExpr]], list[list[TirExpr]]]:
            return (
                [[bind(held[r * loads + i]) for i in range(loads)] for r in range(len(rows))],
                [[bind(scales[r * each + i]) for i in range(each)] for r in range(len(rows))],
            )

        def use(turn: TirExpr | int, then: Callable[[], None]) -> None:
            loaded, numbers = taken()
            then()
            place = bind(turn * lanes + lane_index)
            if not ragged:
                self._add(loaded, numbers, place, x)
                return
            with when(T.And(place < count, first + place < whole)):
                self._add(loaded, numbers, place, x)

        turns = -(-count // lanes)
        ask(0)
        prepare()
        if turns > 1:
            with T.serial(0, turns - 1) as turn:
                use(turn, lambda: ask(turn + 1))
        use(turns - 1, lambda: None)

    def _add(
        self,
        loaded: Sequence[Sequence[TirExpr]],
        numbers: Sequence[Sequence[TirExpr]],
        place: TirExpr,
        x: Callable[[int, TirExpr, int], TirExpr],
    ) -> None:
        """Adds one run of all output rows; products of integers by themselves first, unscaled."""
        weights, batch = self.weights, self.shape.batch
        outputs = self.shape.outputs
        inner = local((outputs,), "float32x4") if weights.scaled else self.sums
        totals = local((batch,), "float32x4") if weights.shifted else None
        if weights.scaled:
            _clear(inner, outputs)
            _clear(totals, batch)
        octets = zip(*(weights.unpack_run(words) for words in loaded), strict=True)
        for octet, columns in enumerate(octets):
            for m in range(batch):
                vectors = [bind(x(m, place, octet * 2 + j)) for j in range(2)]
                for j, vector in enumerate(vectors):
                    if totals is not None:
                        store(totals, totals[m] + vector, m)
                    for r, column in enumerate(columns):
                        at = r * batch + m
                        store(inner, fma(column[j], vector, inner[at]), at)
        if not weights.scaled:
            return
        of_rows = [bind(sum_lanes([totals[m]])) for m in range(batch) if totals is not None]
        for at in range(outputs):
            scale, *shift = numbers[at // batch]
            store(self.sums, fma(sum_lanes([inner[at]]), scale, self.sums[at]), at)
            for more in shift:
                store(self.sums, fma(of_rows[at % batch], more, self.sums[at]), at)

    def _finish(self, read: Callable[[TirExpr | int, TirExpr | int], TirExpr]) -> None:
        """One thread an output: the sums of its lanes, the norm's scale, the epilogue."""
        shape, thread, spec = self.shape, self.thread, self.spec
        epilogue, first = spec.epilogue, spec.first
        paired = spec.gated
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
                    of_sets = (read(shape.columns * shape.batch + m, i) for i in range(shape.sets))
                    squares = reduce(add, of_sets)
                    mean = fma(squares, f32(1.0 / self.weights.k), number(self.norm))
                    scale = bind(f32(1.0) / T.sqrt(mean))

                def total(which: TirExpr, packed: TirExpr) -> TirExpr:
                    value = read(which * shape.batch + m, set_index)
                    shift = self.named["bias"][self._packed(packed)] if spec.bias else None
                    if scale is None:
                        return value if shift is None else bind(value + shift)
                    return bind(value * scale if shift is None else fma(value, scale, shift))

                if paired:
                    gate_row = _gate_row(at)
                    gate = total(column, gate_row)
                    up = partial(total, column + columns, gate_row + PANEL)
                    value = bind(GATES[epilogue](gate, up))
                else:
                    value = total(column, at)
                place = bind(at + (first // 2 if paired else first))
                store(out, out[row, place] + value if epilogue == "add" else value, row, place)


def _clear(buffer: Buffer | None, count: int) -> None:
    """Zeroes, if there is such a buffer."""
    if buffer is not None:
        for i in range(count):
            store(buffer, 0.0, i)


def _gate_row(f: TirExpr) -> TirExpr:
    """The packed row of gate f; its up row lies a panel further."""
    return bind(f // PANEL * (2 * PANEL) + f % PANEL)
