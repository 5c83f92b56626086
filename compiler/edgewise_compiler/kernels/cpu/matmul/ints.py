"""Linear layers on quantized weights and quantized activations."""

from __future__ import annotations

from functools import cache
from typing import Any

from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, PrimFunc

from edgewise_compiler.kernels.cpu.elementwise.quantize import a8_args
from edgewise_compiler.kernels.cpu.matmul.dots import DOTS, Operands
from edgewise_compiler.kernels.cpu.matmul.layout import RUNS, group_numbers, weight_args
from edgewise_compiler.kernels.cpu.matmul.tiles import (
    EPILOGUES,
    PAIR,
    PREFETCH_BYTES,
    Chunks,
    Row,
    Sums,
    Tile,
    chunks_of,
    for_tile_rows,
    load_row,
    matmul,
    matmul_name,
    prefetch,
    store_row,
)
from edgewise_compiler.kernels.cpu.vector import bits as bits_of
from edgewise_compiler.kernels.cpu.vector import cast, fma, let, load, splat
from edgewise_compiler.kernels.function import STEP, Arg, block, kernel, live_rows
from edgewise_compiler.kernels.matmul import MatmulSpec
from edgewise_compiler.quantize import ZERO_POINT
from edgewise_runtime.format.abi import GROUP, PANEL


@cache
def matmul_int(spec: MatmulSpec, isa: str) -> PrimFunc:
    """y = x @ weight.T (+ bias) on codes, for step[count] rows of x.

    Arguments in order: xq int8[N,K], xs float32[N,K/32], xc int32[N,K/32], weight and scale in the
    ``cpu`` layout of integers, bias float32[NP] if there is one, outputs, step. Outputs by
    epilogue: ``store`` out[N,NP] = y; ``add`` out += y; ``swiglu`` out[N,NP/2] = silu(gate)*up,
    whose panels alternate in y; ``swiglu_a8`` the same quantized to hq, hs, hc. A part of a linear
    writes its own columns of what all of it has.

    Each output is acc = fma(float(sum of codes*xq - zero*xc), scale*xs, acc) over the groups in
    order, whatever the instruction set and the rows computed beside it; where groups have a minimum
    followed by acc = fma(minimum, float(-xc)*xs, acc).
    """
    N, NP, K, scheme = spec.rows, spec.outputs, spec.inputs, spec.scheme
    ends = EPILOGUES[spec.epilogue]

    def body(
        xq: Buffer, xs: Buffer, xc: Buffer, weight: Buffer, scale: Buffer, *rest: Buffer
    ) -> None:
        *out, step = rest
        bias_buffer = out.pop(0) if spec.bias else None
        sums = sums_of(spec, isa, (xq, xs, xc, weight, scale))
        with T.parallel(NP // PANEL // PAIR // ends.pairs) as item, block("panels"):
            matmul(
                live_rows(step, spec.count, N),
                N,
                shapes=DOTS[isa, scheme].shapes,
                sums=sums,
                epilogue=ends,
                out=out,
                bias=bias_buffer,
                item=item,
                isa=isa,
                first_pair=spec.first // PANEL // PAIR,
            )

    arguments = (
        *a8_args(N, K),
        *weight_args(scheme, NP, K),
        *((Arg("bias", "float32", (NP,)),) if spec.bias else ()),
        *ends.outputs(N, spec.total or NP),
        STEP,
    )
    return kernel(matmul_name(spec), arguments, body)


def sums_of(spec: MatmulSpec, isa: str, buffers: tuple[Buffer, ...]) -> Sums:
    """What puts the finished sums of a tile into memory.

    Args:
        buffers: xq, xs, xc, weight and scale, as :func:`matmul_int` has them.
    """
    K, scheme = spec.inputs, spec.scheme
    dot, words = DOTS[isa, scheme], RUNS[scheme].count * RUNS[scheme].words
    zero = ZERO_POINT[scheme]
    xq, xs, xc, weight, scale = buffers

    def sums(tile: Tile, row: Row, panel: Expr, finished: Chunks, first: Expr) -> None:
        dots = chunks_of(tile.rows, tile.panels, "int32")
        acc = chunks_of(tile.rows, tile.panels)
        each = [(r, p) for r in range(tile.rows) for p in range(tile.panels)]
        for r, p in each:
            store_row(acc, splat(0.0), r, p)
        with T.serial(K // GROUP) as g, block("group"):

            def word(p: int, i: Expr | int) -> Expr:
                index = g * words + i
                if tile.panels == 1:
                    prefetch(weight, panel + p, index + PREFETCH_BYTES // 64, 0)
                else:
                    prefetch(weight, panel + p + tile.panels, index, 0)
                return let(load(weight, panel + p, index, 0))

            def four(r: int, i: Expr | int) -> Expr:
                return bits_of(load(xq, row(r), g * GROUP + i * 4, lanes=4), "int32")

            starts = [let(xc[row(r), g] * -zero) for r in range(tile.rows)]
            operands = Operands(word, four, starts, lambda r: xc[row(r), g], isa)
            results = dot.group(tile, operands)
            for r, p in each:
                store_row(dots, results[r][p], r, p)

            def numbers(p: int) -> list[Expr]:
                return group_numbers(scheme, lambda i: load(scale, panel + p, i, 0), g, isa)

            units, *minima = zip(*(numbers(p) for p in range(tile.panels)), strict=True)

            def accumulate(r: Any) -> None:
                for p in range(tile.panels):
                    unit = let(units[p] * splat(xs[row(r), g]))
                    dot_ = cast(load_row(dots, r, p), "float32")
                    store_row(acc, fma(dot_, unit, load_row(acc, r, p), isa), r, p)
                for minimum in minima:
                    sum_ = let(cast(T.int32(0) - xc[row(r), g], "float32") * xs[row(r), g])
                    for p in range(tile.panels):
                        total = fma(minimum[p], splat(sum_), load_row(acc, r, p), isa)
                        store_row(acc, total, r, p)

            for_tile_rows(tile, isa, accumulate)
        for r, p in each:
            store_row(finished, load_row(acc, r, p), r, first + p)

    return sums
