"""Linear layers on float weights."""

from __future__ import annotations

from functools import cache
from typing import Any

from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, PrimFunc

from edgewise_compiler.kernels.cpu.isa import isa_named
from edgewise_compiler.kernels.cpu.matmul.layout import weight_args
from edgewise_compiler.kernels.cpu.matmul.tiles import (
    EPILOGUES,
    PAIR,
    PREFETCH_BYTES,
    Chunks,
    Row,
    Shapes,
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
from edgewise_compiler.kernels.cpu.vector import fma, let, load, splat, widen
from edgewise_compiler.kernels.function import STEP, Arg, block, kernel, live_rows
from edgewise_compiler.kernels.matmul import MatmulSpec
from edgewise_runtime.format.abi import PANEL

# Sixteen sums hide the latency of an fma and share loads; registers of 16 or 32 bytes hold fewer.
SHAPES = {
    "avx512vnni": Shapes(Tile(8, 1), Tile(8, 2)),
    "avx2": Shapes(Tile(4, 1), Tile(4, 1)),
    "neon-dotprod": Shapes(Tile(4, 1), Tile(4, 1)),
    "neon": Shapes(Tile(4, 1), Tile(4, 1)),
    "portable": Shapes(Tile(4, 1), Tile(4, 1)),
}


@cache
def matmul_float(spec: MatmulSpec, isa: str) -> PrimFunc:
    """y = x @ weight.T (+ bias) in float32, for step[count] rows of x.

    Arguments in order: x float32[N,K], weight float32 (``f32``) or float16 (``f16``) [NP/16,K,16],
    bias float32[NP] if there is one, out float32, step. Out by epilogue: ``store`` out[N,NP] = y;
    ``add`` out += y; ``swiglu`` out[N,NP/2] = silu(gate)*up, whose panels alternate in y.

    Each output is acc = fma(x[k], w[k], acc) from k = 0 on, in that order.
    """
    N, NP, K, scheme = spec.rows, spec.outputs, spec.inputs, spec.scheme
    ends = EPILOGUES[spec.epilogue]

    def body(x: Buffer, weight: Buffer, *rest: Buffer) -> None:
        *out, step = rest
        bias_buffer = out.pop(0) if spec.bias else None
        sums = sums_of(spec, isa, (x, weight))
        with T.parallel(NP // PANEL // PAIR // ends.pairs) as item, block("panels"):
            matmul(
                live_rows(step, spec.count, N),
                N,
                shapes=SHAPES[isa],
                sums=sums,
                epilogue=ends,
                out=out,
                bias=bias_buffer,
                item=item,
                isa=isa,
                first_pair=spec.first // PANEL // PAIR,
            )

    arguments = (
        Arg("x", "float32", (N, K)),
        *weight_args(scheme, NP, K),
        *((Arg("bias", "float32", (NP,)),) if spec.bias else ()),
        *ends.outputs(N, spec.total or NP),
        STEP,
    )
    return kernel(matmul_name(spec), arguments, body)


def sums_of(spec: MatmulSpec, isa: str, buffers: tuple[Buffer, ...]) -> Sums:
    """What puts the finished sums of a tile into memory.

    Args:
        buffers: x and weight, as :func:`matmul_float` has them.
    """
    K, scheme = spec.inputs, spec.scheme
    unroll = 4 if isa_named(isa).fused else 1
    lines = PREFETCH_BYTES // (64 if scheme == "f32" else 32)
    x, weight = buffers

    def sums(tile: Tile, row: Row, panel: Expr, finished: Chunks, first: Expr) -> None:
        acc = chunks_of(tile.rows, tile.panels)
        each = [(r, p) for r in range(tile.rows) for p in range(tile.panels)]
        for r, p in each:
            store_row(acc, splat(0.0), r, p)

        def column(k: Expr) -> None:
            values = []
            for p in range(tile.panels):
                if tile.panels == 1:
                    prefetch(weight, panel + p, k + lines, 0)
                value = load(weight, panel + p, k, 0)
                values.append(let(value if scheme == "f32" else widen(value, isa)))

            def accumulate(r: Any) -> None:
                for p in range(tile.panels):
                    total = fma(splat(x[row(r), k]), values[p], load_row(acc, r, p), isa)
                    store_row(acc, total, r, p)

            for_tile_rows(tile, isa, accumulate)

        with T.serial(K // unroll) as i, block("columns"):
            for u in range(unroll):
                column(i * unroll + u)
        for r, p in each:
            store_row(finished, load_row(acc, r, p), r, first + p)

    return sums
