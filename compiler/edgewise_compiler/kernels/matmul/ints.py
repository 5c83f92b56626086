"""Linear layers on quantized weights and quantized activations."""

from __future__ import annotations

from functools import cache

from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, PrimFunc

from edgewise_compiler.kernels.elementwise.quantize import a8_args
from edgewise_compiler.kernels.function import STEP, Arg, block, kernel, live_rows
from edgewise_compiler.kernels.matmul.dots import DOTS, STEPS, Operands
from edgewise_compiler.kernels.matmul.layout import GROUP, PANEL, weight_args
from edgewise_compiler.kernels.matmul.tiles import (
    EPILOGUES,
    PREFETCH_BYTES,
    Tile,
    finish,
    for_tiles,
    prefetch,
    quantized_swiglu,
)
from edgewise_compiler.kernels.vector import (
    bits,
    cast,
    fma,
    let,
    load,
    register,
    splat,
    store,
    widen,
)

_OFFSET = {4: 7, 8: 128}


@cache
def matmul_int(
    N: int, NP: int, K: int, bits_: int, *, epilogue: str, bias: bool, rows: int, isa: str
) -> PrimFunc:
    """y = x @ weight.T (+ bias) on codes, for step[rows] rows of x.

    Arguments in order: xq int8[N,K], xs float32[N,K/32], xc int32[N,K/32], weight and scale in the
    ``cpu`` layout of q4 or q8 (``bits_``), bias float32[NP] if ``bias``, outputs, step. Outputs by
    ``epilogue``: ``store`` out[N,NP] = y; ``add`` out += y; ``swiglu`` out[N,NP/2] = silu(gate)*up,
    whose panels alternate in y; ``swiglu_a8`` the same quantized to hq, hs, hc.

    Each output is acc = fma(float(xc + sum of codes*xq), scale*xs, acc) over the groups in order,
    whatever the instruction set and the rows computed beside it.
    """
    dot = DOTS[isa, bits_]
    steps = STEPS[bits_]
    ends = quantized_swiglu(_OFFSET[bits_]) if epilogue == "swiglu_a8" else EPILOGUES[epilogue]

    def body(
        xq: Buffer, xs: Buffer, xc: Buffer, weight: Buffer, scale: Buffer, *rest: Buffer
    ) -> None:
        *out, step = rest
        bias_buffer = out.pop(0) if bias else None

        def sums_of(tile: Tile, row: Expr, panel: Expr, sums: Buffer, first: Expr) -> None:
            """sums[r, first + p] = finished sums of the tile's rows from ``row``."""
            acc = [[register(splat(0.0)) for _ in range(tile.panels)] for _ in range(tile.rows)]
            with T.serial(K // GROUP) as g, block("group"):

                def word(p: int, i: int) -> Expr:
                    index = g * steps + i
                    if tile.panels == 1:
                        prefetch(weight, panel + p, index + PREFETCH_BYTES // 64, 0)
                    else:
                        prefetch(weight, panel + p + tile.panels, index, 0)
                    return let(load(weight, panel + p, index, 0))

                def four(r: int, i: int) -> Expr:
                    return bits(load(xq, row + r, g * GROUP + i * 4, lanes=4), "int32")

                dots = dot.group(tile, Operands(word, four, lambda r: xc[row + r, g]))
                units = [let(widen(load(scale, panel + p, g, 0), isa)) for p in range(tile.panels)]
                for r in range(tile.rows):
                    for p in range(tile.panels):
                        unit = let(units[p] * splat(xs[row + r, g]))
                        total = fma(cast(dots[r][p], "float32"), unit, load(acc[r][p], 0), isa)
                        store(acc[r][p], total, 0)
            for r in range(tile.rows):
                for p in range(tile.panels):
                    store(sums, load(acc[r][p], 0), r, first + p, 0)

        with T.parallel(NP // PANEL // ends.panels) as item, block("panels"):
            n = live_rows(step, rows, N)

            def tile_at(tile: Tile, row: Expr) -> None:
                sums = T.sblock_alloc_buffer((tile.rows, ends.panels, PANEL), "float32")
                with T.serial(ends.panels // tile.panels) as q, block("sums"):
                    first = q * tile.panels
                    sums_of(tile, row, item * ends.panels + first, sums, first)
                finish(ends, tuple(out), bias_buffer, sums, tile.rows, row, item, isa)

            for_tiles(n, N, dot.bulk, tile_at)

    arguments = (
        *a8_args(N, K),
        *weight_args(f"q{bits_}", NP, K),
        *((Arg("bias", "float32", (NP,)),) if bias else ()),
        *ends.outputs(N, NP),
        STEP,
    )
    name = f"matmul_q{bits_}_{epilogue}_{NP}x{K}_n{N}_s{rows}" + ("_bias" if bias else "")
    return kernel(name, arguments, body)
