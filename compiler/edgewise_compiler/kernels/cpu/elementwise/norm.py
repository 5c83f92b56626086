"""Root-mean-square normalization, plain or fused with quantization."""

from __future__ import annotations

from functools import cache

from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, PrimFunc

from edgewise_compiler.kernels.cpu.elementwise.quantize import a8_args, store_group
from edgewise_compiler.kernels.cpu.vector import fma, lane_sum, let, load, register, splat, store
from edgewise_compiler.kernels.function import (
    STEP,
    Arg,
    block,
    count_suffix,
    for_rows,
    kernel,
    live_rows,
    symbol,
)
from edgewise_compiler.kernels.norm import NormSpec
from edgewise_runtime.format.abi import GROUP, LOGIT_ROWS, ROWS


def inverse_rms(x: Buffer, row: Expr, first: Expr | int, H: int, eps: float, isa: str) -> Expr:
    """1 / sqrt(mean(v*v) + eps) of v = x[row, first : first + H]; H is a multiple of 32.

    Squares are added in 32 lanes from left to right; lanes 16-31 are added to 0-15, then a tree.
    """
    sums = [register(splat(0.0)) for _ in range(2)]
    with T.serial(H // 32) as i, block("squares"):
        for half, total in enumerate(sums):
            value = let(load(x, row, first + i * 32 + half * 16))
            store(total, fma(value, value, load(total, 0), isa), 0)
    squares = let(lane_sum(load(sums[0], 0) + load(sums[1], 0)))
    mean = let(squares / splat(float(H), 1))
    return let(splat(1.0, 1) / T.sqrt(mean + splat(eps, 1)))


@cache
def rms_norm(spec: NormSpec, isa: str, *, quantized: bool) -> PrimFunc:
    """x[N,H], weight[H] float32 -> x / rms(x) * weight, as float32 or quantized.

    Arguments in order: x, weight, logit_rows int32[gathered] to gather, then y[N or gathered,H] or
    xq, xs, xc, step. Gathering, output row i comes from input row logit_rows[i] and step[2] rows
    are live; otherwise rows correspond and step[count] are live.

    Args:
        quantized: as :func:`quantize` has it, instead of float32.
    """
    N, H, gather = spec.rows, spec.width, spec.gathered is not None
    out_rows = N if spec.gathered is None else spec.gathered
    count = LOGIT_ROWS if gather else spec.count

    def body(x: Buffer, weight: Buffer, *rest: Buffer) -> None:
        *rows, step = rest
        logit_rows = rows.pop(0) if gather else None

        def row(i: Expr) -> None:
            # An index from the host is kept inside the buffer whatever it says.
            source = i if logit_rows is None else T.bind(T.max(0, T.min(logit_rows[i], N - 1)))
            scale = inverse_rms(x, source, 0, H, spec.eps, isa)
            with T.serial(H // GROUP) as g, block("group"):
                values = tuple(
                    let(load(x, source, k) * splat(scale) * load(weight, k))
                    for k in (g * GROUP, g * GROUP + 16)
                )
                if quantized:
                    store_group(tuple(rows), i, g, values, isa)
                else:
                    for half, value in enumerate(values):
                        store(rows[0], value, i, g * GROUP + half * 16)

        with block("rows"):
            for_rows(live_rows(step, count, out_rows), out_rows, row)

    results = a8_args(out_rows, H) if quantized else (Arg("y", "float32", (out_rows, H)),)
    arguments = (
        Arg("x", "float32", (N, H)),
        Arg("weight", "float32", (H,)),
        *((Arg("logit_rows", "int32", (out_rows,)),) if gather else ()),
        *results,
        STEP,
    )
    kind = "a8" if quantized else "f32"
    live = f"_gather{out_rows}" if gather else count_suffix(count)
    name = symbol(f"rms_norm_{kind}", H, f"n{N}", f"e{spec.eps}") + live
    return kernel(name, arguments, body)


@cache
def norm_runs(N: int, H: int, runs: tuple[int, ...], eps: float, isa: str) -> PrimFunc:
    """x[N,H] float32 -> each run of columns by itself / its rms * its weight, others as they are.

    Arguments in order: x, a weight float32 of each run, y[N,H], step, for step[0] rows. Runs follow
    each other from column 0 on; they are multiples of 32, H of 16.
    """

    def body(x: Buffer, *rest: Buffer) -> None:
        *weights, y, step = rest

        def row(i: Expr) -> None:
            first = 0
            for run, weight in zip(runs, weights, strict=True):
                scale = inverse_rms(x, i, first, run, eps, isa)
                with T.serial(run // 16) as c, block("columns"):
                    value = load(x, i, first + c * 16) * splat(scale) * load(weight, c * 16)
                    store(y, value, i, first + c * 16)
                first += run
            with T.serial((H - first) // 16) as c, block("others"):
                store(y, load(x, i, first + c * 16), i, first + c * 16)

        with block("rows"):
            for_rows(live_rows(step, ROWS, N), N, row)

    arguments = (
        Arg("x", "float32", (N, H)),
        *(Arg(f"weight{i}", "float32", (run,)) for i, run in enumerate(runs)),
        Arg("y", "float32", (N, H)),
        STEP,
    )
    return kernel(symbol("norm_runs", H, *runs, f"n{N}", f"e{eps}"), arguments, body)
