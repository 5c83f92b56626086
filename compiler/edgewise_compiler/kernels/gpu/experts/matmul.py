"""Linears of experts: of few rows a pair at a time, of many in tiles of one expert's rows.

They are the kernels of any linear, whose rows of x, of out and of the matrix are found in tables: a
pair's result is what its expert would give it alone, bit for bit. Of an expert that no row goes
through nothing is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from tvm.ir import Expr as TirExpr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer

from edgewise_compiler.kernels.experts import ExpertsSpec, order_arg
from edgewise_compiler.kernels.function import STEP, Arg
from edgewise_compiler.kernels.gpu.experts.route import (
    ids_arg,
    tile_bound,
    tile_count,
    tiles_arg,
)
from edgewise_compiler.kernels.gpu.matmul.matmul import FEW_ROWS, TileKernel, tile_for
from edgewise_compiler.kernels.gpu.matmul.matmul import THREADS as TILE_THREADS
from edgewise_compiler.kernels.gpu.matmul.matvec import MatvecKernel
from edgewise_compiler.kernels.gpu.matmul.serial import ONE, SEVERAL, SerialKernel
from edgewise_compiler.kernels.gpu.matmul.serial import THREADS as SERIAL_THREADS
from edgewise_compiler.kernels.gpu.matmul.shape import THREADS as MATVEC_THREADS
from edgewise_compiler.kernels.gpu.matmul.shape import shape_for
from edgewise_compiler.kernels.gpu.matmul.spec import PartSpec
from edgewise_compiler.kernels.gpu.matmul.weights import GpuWeights
from edgewise_compiler.kernels.gpu.thread import Launch, Thread, bind, kernel, local, when
from edgewise_runtime.format.abi import ROWS


@dataclass(frozen=True, kw_only=True)
class ExpertsPart(ExpertsSpec):
    """Some of the experts, whose weights lie in one buffer.

    Attributes:
        first: the first of them.
        held: how many they are.
    """

    first: int
    held: int

    @property
    def width(self) -> int:
        """Columns of out."""
        return self.outputs // 2 if self.gated else self.outputs

    def one(self) -> PartSpec:
        """The linear of one of them."""
        return PartSpec(
            rows=self.sources,
            outputs=self.outputs,
            inputs=self.inputs,
            scheme=self.scheme,
            epilogue=self.epilogue,
            bias=self.bias,
            live=self.pairs,
            width=self.width,
        )

    def weights(self) -> GpuWeights:
        """All of them."""
        return GpuWeights(self.scheme, self.held * self.outputs, self.inputs)

    def biases(self) -> tuple[Arg, ...]:
        """Theirs, if they have some."""
        return (Arg("bias", "float32", (self.held * self.outputs,)),) if self.bias else ()

    @property
    def label(self) -> str:
        """The part of a kernel's name that says all of it."""
        return f"{self.name}_{self.first}of{self.held}"


def _base(spec: ExpertsPart, expert: TirExpr) -> TirExpr:
    """The first packed row of an expert that is held."""
    return bind(T.max(T.min(expert - spec.first, spec.held - 1), 0) * spec.outputs)


def _held(spec: ExpertsPart, expert: TirExpr) -> TirExpr:
    return T.And(expert >= spec.first, expert < spec.first + spec.held)


@dataclass(frozen=True)
class _Pair:
    """Which row of x, and which part of the matrix."""

    source: TirExpr
    base: TirExpr


@dataclass(frozen=True)
class _PairMatvec(MatvecKernel):
    pair: _Pair

    def _source(self, m: int) -> TirExpr:
        return self.pair.source

    def _packed(self, row: TirExpr) -> TirExpr:
        return bind(self.pair.base + row)


@dataclass(frozen=True)
class _PairSerial(SerialKernel):
    pair: _Pair

    def _source(self, m: int) -> TirExpr:
        return self.pair.source

    def _packed(self, row: TirExpr) -> TirExpr:
        return bind(self.pair.base + row)


@cache
def experts_pairs(spec: ExpertsPart, *, serial: bool, subgroups: bool) -> Launch:
    """``out[pair]`` of ``x[pair or its row] . W[its expert]``, a pair by itself.

    Arguments: x float32 [sources, K], weight, scale of an integer scheme, bias float32 [held * NP]
    with ``bias``, ids int32 [pairs], out float32 [pairs, width], step. Experts of other parts are
    left to their launches.

    Args:
        serial: as `matmul_serial` computes it, else as `matvec` does.
    """
    N, one, weights = spec.rows, spec.one(), spec.weights()
    shape = shape_for(spec.outputs, spec.inputs // weights.run, 1)
    arguments = (
        Arg("x", "float32x4", (spec.sources, spec.inputs // 4)),
        *weights.arguments(),
        *spec.biases(),
        ids_arg(N, spec.chosen, spec.experts),
        Arg("out", "float32", (spec.pairs, spec.width)),
        STEP,
    )

    def body(thread: Thread, *buffers: Buffer) -> None:
        named = {arg.name: buffer for arg, buffer in zip(arguments, buffers, strict=True)}
        live = bind(T.max(T.min(named["step"][ROWS], N), 0) * spec.chosen)
        index = thread.y
        with when(index < live):
            expert = bind(named["ids"][index])
            with when(_held(spec, expert)):
                source = index if spec.each else bind(index // spec.chosen)
                pair = _Pair(source, _base(spec, expert))
                if serial:
                    place = bind(thread.x * SERIAL_THREADS + thread.t)
                    with when(place * ONE[0] < spec.outputs):
                        ready = weights.begun()
                        _PairSerial(thread, named, one, ready, *ONE, live, place, pair).run()
                    return
                ready = weights.begun(team=thread)
                sums = local((shape.outputs,), "float32" if weights.scaled else "float32x4")
                given = (one, ready, shape, live, None, False, sums, None, None)
                _PairMatvec(thread, named, *given, pair).run()

    across = SERIAL_THREADS * ONE[0] if serial else shape.sets * shape.columns
    return kernel(
        f"experts_{'serial' if serial else 'pairs'}_{spec.label}{'_s' if subgroups else ''}",
        arguments,
        body,
        threads=SERIAL_THREADS if serial else MATVEC_THREADS,
        grid=(-(-spec.outputs // across), ("mul", "n", spec.chosen)),
        bounds={"n": N},
        subgroups=subgroups,
    )


@dataclass(frozen=True)
class _Rows:
    """The pairs of a tile: of ``order`` those from ``first`` on, and their part of the matrix."""

    order: Buffer
    first: TirExpr
    base: TirExpr
    spec: ExpertsPart

    def pair(self, row: TirExpr) -> TirExpr:
        """The pair of a row of the tile."""
        place = bind(T.min(self.first + row, self.spec.pairs - 1))
        return bind(self.order[place])

    def source(self, row: TirExpr) -> TirExpr:
        """The row of x for it."""
        pair = self.pair(row)
        return pair if self.spec.each else bind(pair // self.spec.chosen)


@dataclass(frozen=True)
class _ExpertTile(TileKernel):
    rows: _Rows

    def _row(self, first: TirExpr, more: int = 0) -> TirExpr:
        return first + more

    def _source(self, row: TirExpr) -> TirExpr:
        return self.rows.source(bind(T.min(row, self.live - 1)))

    def _target(self, row: TirExpr) -> TirExpr:
        return self.rows.pair(row)

    def _packed(self, row: TirExpr) -> TirExpr:
        return bind(self.rows.base + row)


@dataclass(frozen=True)
class _SerialTile(SerialKernel):
    rows: _Rows

    def _row(self, m: int) -> TirExpr:
        return T.int32(m)

    def _source(self, m: int) -> TirExpr:
        return self.rows.source(bind(T.min(T.int32(m), self.live - 1)))

    def _target(self, row: TirExpr) -> TirExpr:
        return self.rows.pair(row)

    def _packed(self, row: TirExpr) -> TirExpr:
        return bind(self.rows.base + row)


def tile_rows(*, serial: bool) -> int:
    """Pairs of a tile. Experts have few rows each, so that larger tiles would be mostly empty."""
    return SEVERAL[1] if serial else FEW_ROWS


@cache
def experts_tiles(spec: ExpertsPart, *, serial: bool, half: bool) -> Launch:
    """``out[pair]`` of ``x[pair or its row] . W[its expert]``, pairs of an expert together.

    Arguments: x float32 [sources, K], weight, scale of an integer scheme, bias float32 [held * NP]
    with ``bias``, order and tiles of `route.order`, out float32 [pairs, width].

    Args:
        serial: as `matmul_serial` computes it, else as `matmul` does.
        half: as there.
    """
    one, weights, rows = spec.one(), spec.weights(), tile_rows(serial=serial)
    tile = tile_for(spec.outputs, few=True, half=half)
    tiles = tile_bound(spec.pairs, spec.experts, rows)
    arguments = (
        Arg("x", "float32x4", (spec.sources, spec.inputs // 4)),
        *weights.octet_arguments(1 if serial else tile.octets),
        *spec.biases(),
        order_arg(spec.pairs),
        tiles_arg(tiles, spec.experts, spec.pairs),
        Arg("out", "float32", (spec.pairs, spec.width)),
    )

    def body(thread: Thread, *buffers: Buffer) -> None:
        named = {arg.name: buffer for arg, buffer in zip(arguments, buffers, strict=True)}
        expert, first, count = (bind(named["tiles"][thread.y, i]) for i in range(3))
        with when(T.And(count > 0, _held(spec, expert))):
            found = _Rows(named["order"], first, _base(spec, expert), spec)
            if serial:
                place = bind(thread.x * SERIAL_THREADS + thread.t)
                with when(place * SEVERAL[0] < spec.outputs):
                    given = (one, weights.begun(), *SEVERAL, count, place)
                    _SerialTile(thread, named, *given, found).run()
                return
            _ExpertTile(thread, named, one, weights.begun(), tile, count, found).run()

    across = SERIAL_THREADS * SEVERAL[0] if serial else tile.columns
    kind = "serial_tiles" if serial else f"tiles_{tile.rows}x{tile.columns}"
    return kernel(
        f"experts_{kind}_{spec.label}{'_half' if half else ''}",
        arguments,
        body,
        threads=SERIAL_THREADS if serial else TILE_THREADS,
        grid=(-(-spec.outputs // across), tile_count(spec.chosen, spec.experts, rows)),
        bounds={"n": spec.rows},
    )
