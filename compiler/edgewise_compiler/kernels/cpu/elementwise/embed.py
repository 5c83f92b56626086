"""Looking up embeddings in packed weights."""

from __future__ import annotations

from functools import cache

from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, PrimFunc

from edgewise_compiler.kernels.cpu.matmul.layout import RUNS, group_numbers, weight_args
from edgewise_compiler.kernels.cpu.vector import cast, fma, let, splat, store, widen
from edgewise_compiler.kernels.function import (
    STEP,
    Arg,
    block,
    for_rows,
    kernel,
    live_rows,
    symbol,
)
from edgewise_compiler.quantize import ZERO_POINT
from edgewise_runtime.format.abi import ROWS


def _integers(scheme: str, words: list[Expr], isa: str) -> list[Expr]:
    """The integers in a run of words minus their zero point, four at a time: int32x4 each."""
    shifts, mask = cast(T.ramp(0, 8, 4), "uint32"), splat(0xFF, 4, "uint32")
    zero = splat(ZERO_POINT[scheme], 4, "int32")
    fours = RUNS[scheme].integers(words, isa)
    return [cast((splat(four, 4) >> shifts) & mask, "int32") - zero for four in fours]


@cache
def embed(
    scheme: str,
    N: int,
    H: int,
    V: int,
    isa: str,
    factor: float = 1.0,
    part: tuple[int, int] | None = None,
) -> PrimFunc:
    """tokens int32[N], packed weight of V rows [, scale] -> x[N,H] float32, for step[0] rows.

    Arguments in order: tokens, weight, scale (of integers), x, step. Ids outside 0..V-1 read the
    nearest row rather than memory that is not theirs.

    Args:
        factor: what a row of the table is multiplied with, once it is float32.
        part: the first of the table's rows that are here, and how many; tokens of other parts leave
            their row of x as it is.
    """
    first, here = part or (0, -(-V // 32) * 32)
    weights = weight_args(scheme, here, H)

    def scaled(value: Expr, lanes: int) -> Expr:
        return value if factor == 1.0 else let(value) * splat(factor, lanes)

    def body(tokens: Buffer, weight: Buffer, *rest: Buffer) -> None:
        scale, x, step = rest if len(rest) == 3 else (None, *rest)

        def row(i: Expr) -> None:
            token = T.bind(T.max(0, T.min(tokens[i], V - 1)) - first)
            if part is None:
                looked_up(i, token)
                return
            with T.If(T.And(token >= 0, token < here)), T.Then(), block("there"):
                looked_up(i, token)

        def looked_up(i: Expr, token: Expr) -> None:
            panel, lane = T.bind(token // 16), T.bind(token % 16)
            if scale is None:
                with T.serial(H) as k, block("value"):
                    value = weight[panel, k, lane]
                    value = value if scheme == "f32" else widen(value, isa)
                    T.buffer_store(x, scaled(value, 1), [i, k])
                return
            run = RUNS[scheme]
            with T.serial(H // run.fours // 4) as r, block("run"):
                unit, *minimum = group_numbers(
                    scheme, lambda i: scale[panel, i, lane], r // run.count, isa
                )
                words = [let(weight[panel, r * run.words + w, lane]) for w in range(run.words)]
                for four, codes in enumerate(_integers(scheme, words, isa)):
                    column = (r * run.fours + four) * 4
                    value = cast(codes, "float32") * splat(unit, 4)
                    for less in minimum:
                        value = fma(splat(less, 4), splat(-1.0, 4), let(value), isa)
                    store(x, scaled(value, 4), i, column)

        with block("rows"):
            for_rows(live_rows(step, ROWS, N), N, row)

    arguments = (Arg("tokens", "int32", (N,)), *weights, Arg("x", "float32", (N, H)), STEP)
    name = f"embed_{scheme}_{V}x{H}_n{N}" + (f"_from{first}of{here}" if part else "")
    return kernel(name if factor == 1.0 else symbol(name, f"f{factor}"), arguments, body)
