"""Linears of experts: each expert's weights times the rows that go through it.

Work is cut by experts and panels. An expert's rows are cut into tiles as those of any linear are,
and the panels of a work item stay in a core's cache for all of them: weights are read once, and
those of experts without rows are not. Each result is that of the linear by itself, bit for bit.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, PrimFunc

from edgewise_compiler.kernels.cpu.elementwise.quantize import a8_args
from edgewise_compiler.kernels.cpu.experts.route import groups_arg
from edgewise_compiler.kernels.cpu.matmul import floats, ints
from edgewise_compiler.kernels.cpu.matmul.dots import DOTS
from edgewise_compiler.kernels.cpu.matmul.layout import RUNS, weight_args
from edgewise_compiler.kernels.cpu.matmul.tiles import (
    EPILOGUES,
    PAIR,
    Chunks,
    Epilogue,
    Row,
    Tile,
    matmul,
)
from edgewise_compiler.kernels.experts import ExpertsSpec, order_arg
from edgewise_compiler.kernels.function import Arg, block, kernel
from edgewise_runtime.format.abi import PANEL

SPREAD_ROWS = 4
"""Rows an expert has on average from which every thread takes some panels of all experts: experts
with many rows are then shared. Below, a thread takes experts one after the other, whose weights lie
beside each other, where prefetching finds them."""


@cache
def experts(spec: ExpertsSpec, isa: str) -> PrimFunc:
    """``y[pair] = x[pair or its row] @ weight[its expert].T (+ bias)``.

    Arguments in order: x, as `matmul_float` or, of an integer scheme, `matmul_int` has it, with
    ``spec.sources`` rows; weight, and scale, of all experts one after the other; bias
    float32[experts*NP] if there is one; order and groups of `route`; outputs by the epilogue as
    there, with a row for each pair.
    """
    N, NP, K, E = spec.rows, spec.outputs, spec.inputs, spec.experts
    integer, ends = spec.scheme in RUNS, EPILOGUES[spec.epilogue]
    items = NP // PANEL // PAIR // ends.pairs
    module = ints if integer else floats
    shapes = DOTS[isa, spec.scheme].shapes if integer else floats.SHAPES[isa]
    taken = (*(a8_args(spec.sources, K) if integer else (Arg("x", "float32", (spec.sources, K)),)),)
    packed = weight_args(spec.scheme, E * NP, K)
    inputs = len(taken) + len(packed)

    def body(*buffers: Buffer) -> None:
        sums = module.sums_of(spec, isa, buffers[:inputs])
        (*out,) = buffers[inputs:]
        bias = out.pop(0) if spec.bias else None
        order, groups = out.pop(0), out.pop(0)
        active = T.bind(T.max(0, T.min(groups[0, E], E)))
        spread = T.bind(groups[1, active] >= active * SPREAD_ROWS)
        with T.parallel(active * items) as turn, block("panels"):
            which = _within(T.Select(spread, turn % active, turn // items), E)
            item = _within(T.Select(spread, turn // active, turn % items), items)
            expert = _within(groups[0, which], E)
            first = T.bind(groups[1, which])
            count = T.bind(T.max(0, T.min(groups[1, which + 1] - first, N)))

            def pair_at(row: Expr) -> Expr:
                return order[_within(first + row, spec.pairs)]

            def source(row: Expr) -> Expr:
                pair = pair_at(row)
                return pair if spec.each else pair // spec.chosen

            def of_expert(tile: Tile, row: Row, panel: Expr, chunks: Chunks, p: Expr) -> None:
                rows = [T.bind(source(row(r))) for r in range(tile.rows)]

                def at(r: Any) -> Expr:
                    return rows[r] if isinstance(r, int) else source(row(r))

                sums(tile, at, T.bind(expert * (NP // PANEL) + panel), chunks, p)

            matmul(
                count,
                N,
                shapes=shapes,
                sums=of_expert,
                epilogue=_placed(ends, pair_at),
                out=out,
                bias=bias,
                item=item,
                isa=isa,
                first_bias=T.bind(expert * NP),
            )

    arguments = (
        *taken,
        *packed,
        *((Arg("bias", "float32", (E * NP,)),) if spec.bias else ()),
        order_arg(spec.pairs),
        groups_arg(N, spec.chosen, E),
        *ends.outputs(spec.pairs, NP),
    )
    return kernel(f"experts_{spec.name}", arguments, body)


def _within(value: Expr, count: int) -> Expr:
    """``value``, an index of so many things whatever is in memory."""
    return T.bind(T.max(0, T.min(value, count - 1)))


def _placed(ends: Epilogue, place: Any) -> Epilogue:
    """The epilogue for rows that are written to where ``place`` says."""

    def last(function: Any) -> Any:
        def placed(out: Any, row: Expr, *others: Any) -> Any:
            return function(out, T.bind(place(row)), *others)

        return placed

    if ends.group is None:
        return ends._replace(pair=last(ends.pair))
    return ends._replace(group=last(ends.group))
