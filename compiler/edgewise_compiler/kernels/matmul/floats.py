"""Linear layers on float weights."""

from __future__ import annotations

from functools import cache

from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, PrimFunc

from edgewise_compiler.kernels.function import STEP, Arg, block, kernel, live_rows
from edgewise_compiler.kernels.matmul.layout import PANEL, weight_args
from edgewise_compiler.kernels.matmul.tiles import (
    EPILOGUES,
    PREFETCH_BYTES,
    Tile,
    finish,
    for_tiles,
    prefetch,
)
from edgewise_compiler.kernels.vector import fma, let, load, register, splat, store, widen

# Sixteen sums hide the latency of an fma where registers are plenty; elsewhere they would spill.
_BULK = {"avx512vnni": Tile(8, 2), "avx2": Tile(4, 1), "portable": Tile(4, 1)}
_SCHEME = {"float32": "f32", "float16": "f16"}
_UNROLL = 4


@cache
def matmul_float(
    N: int, NP: int, K: int, wdtype: str, *, epilogue: str, bias: bool, rows: int, isa: str
) -> PrimFunc:
    """y = x @ weight.T (+ bias) in float32, for step[rows] rows of x.

    Arguments in order: x float32[N,K], weight ``wdtype`` (float32 or float16) [NP/16,K,16], bias
    float32[NP] if ``bias``, out float32, step. Out by ``epilogue``: ``store`` out[N,NP] = y;
    ``add`` out += y; ``swiglu`` out[N,NP/2] = silu(gate)*up, whose panels alternate in y.

    Each output is acc = fma(x[k], w[k], acc) from k = 0 on, in that order.
    """
    scheme = _SCHEME[wdtype]
    ends = EPILOGUES[epilogue]
    lines = PREFETCH_BYTES // (64 if wdtype == "float32" else 32)

    def body(x: Buffer, weight: Buffer, *rest: Buffer) -> None:
        *out, step = rest
        bias_buffer = out.pop(0) if bias else None

        def sums_of(tile: Tile, row: Expr, panel: Expr, sums: Buffer, first: Expr) -> None:
            acc = [[register(splat(0.0)) for _ in range(tile.panels)] for _ in range(tile.rows)]
            with T.serial(K // _UNROLL) as i, block("columns"):
                for k in (i * _UNROLL + u for u in range(_UNROLL)):
                    columns = []
                    for p in range(tile.panels):
                        prefetch(weight, panel + p, k + lines, 0)
                        value = load(weight, panel + p, k, 0)
                        columns.append(let(value if scheme == "f32" else widen(value, isa)))
                    for r in range(tile.rows):
                        for p in range(tile.panels):
                            old = load(acc[r][p], 0)
                            store(acc[r][p], fma(splat(x[row + r, k]), columns[p], old, isa), 0)
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

            for_tiles(n, N, _BULK[isa], tile_at)

    arguments = (
        Arg("x", "float32", (N, K)),
        *weight_args(scheme, NP, K),
        *((Arg("bias", "float32", (NP,)),) if bias else ()),
        *ends.outputs(N, NP),
        STEP,
    )
    name = f"matmul_{scheme}_{epilogue}_{NP}x{K}_n{N}_s{rows}" + ("_bias" if bias else "")
    return kernel(name, arguments, body)
