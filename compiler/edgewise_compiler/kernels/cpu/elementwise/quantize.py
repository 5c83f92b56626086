"""Quantizing activations to int8, 32 values to a scale."""

from __future__ import annotations

from functools import cache

from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, PrimFunc

from edgewise_compiler.kernels.cpu.vector import (
    bits,
    cast,
    lane_max,
    lane_sum,
    let,
    load,
    rint_bits,
    size_bits,
    splat,
    store,
)
from edgewise_compiler.kernels.function import (
    STEP,
    Arg,
    block,
    count_suffix,
    for_rows,
    kernel,
    live_rows,
)
from edgewise_runtime.format.abi import GROUP, ROWS

_FLOAT_MAX = 3.4028234663852886e38


def a8_args(rows: int, K: int, prefix: str = "x") -> tuple[Arg, Arg, Arg]:
    """The three buffers of quantized activations: codes, scales, sums of codes."""
    return (
        Arg(f"{prefix}q", "int8", (rows, K)),
        Arg(f"{prefix}s", "float32", (rows, K // GROUP)),
        Arg(f"{prefix}c", "int32", (rows, K // GROUP)),
    )


def store_group(
    out: tuple[Buffer, Buffer, Buffer],
    row: Expr,
    group: Expr,
    values: tuple[Expr, Expr],
    isa: str,
) -> None:
    """Quantizes one group of 32 ``values`` (two vectors in registers) into ``out``.

    scale = max|v| / 127; q = v * (127 / max|v|), product and rounding in one step, ties to even.
    The third is sum(q): a linear starts from it times its own weights' zero point. The quotient is
    capped at the largest float, so a group of zeros needs no case of its own; values below 4e-37
    count as zero. One that is not finite makes such a scale.
    """
    xq, xs, xc = out
    low, high = values
    largest = let(bits(lane_max(T.max(size_bits(low), size_bits(high))), "float32"))
    inverse = let(T.min(splat(127.0, 1) / largest, splat(_FLOAT_MAX, 1)))
    codes = [let(rint_bits(value, splat(inverse), isa)) for value in values]
    for half, code in enumerate(codes):
        store(xq, cast(code, "int8"), row, group * GROUP + half * 16)
    T.buffer_store(xs, largest / splat(127.0, 1), [row, group])
    T.buffer_store(xc, lane_sum(codes[0] + codes[1]), [row, group])


@cache
def quantize(N: int, K: int, isa: str, count: int = ROWS) -> PrimFunc:
    """x[N,K] float32 -> xq int8[N,K], xs float32[N,K/32], xc int32[N,K/32]; step[count] rows."""

    def body(x: Buffer, xq: Buffer, xs: Buffer, xc: Buffer, step: Buffer) -> None:
        with block("rows"):

            def row(i: Expr) -> None:
                with T.serial(K // GROUP) as g, block("group"):
                    values = (let(load(x, i, g * GROUP)), let(load(x, i, g * GROUP + 16)))
                    store_group((xq, xs, xc), i, g, values, isa)

            for_rows(live_rows(step, count, N), N, row)

    arguments = (Arg("x", "float32", (N, K)), *a8_args(N, K), STEP)
    return kernel(f"quantize_{K}_n{N}{count_suffix(count)}", arguments, body)
