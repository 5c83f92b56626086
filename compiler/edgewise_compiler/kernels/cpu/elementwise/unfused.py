"""Sums, gates and gathered rows that no pass made part of another kernel: one row at a time."""

from __future__ import annotations

from functools import cache

from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, PrimFunc

from edgewise_compiler.kernels.cpu.vector import (
    GATED,
    let,
    load,
    softcapped,
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
    symbol,
)
from edgewise_compiler.kernels.numbers import LOG2E
from edgewise_runtime.format.abi import LOGIT_ROWS, PANEL


@cache
def add(N: int, H: int, W: int, *, in_place: bool, count: int) -> PrimFunc:
    """x[N,H] + the first H columns of y[N,W], float32, for step[count] rows.

    Arguments in order: ``in_place`` y and x, which becomes the sum, otherwise x, y and out[N,H];
    step. H is a multiple of 16.
    """

    def body(*buffers: Buffer) -> None:
        *inputs, y, out, step = buffers
        x = inputs[0] if inputs else out

        def row(i: Expr) -> None:
            with T.serial(H // PANEL) as p, block("panel"):
                store(out, load(x, i, p * PANEL) + load(y, i, p * PANEL), i, p * PANEL)

        with block("rows"):
            for_rows(live_rows(step, count, N), N, row)

    arguments = (
        *(() if in_place else (Arg("x", "float32", (N, H)),)),
        Arg("y", "float32", (N, W)),
        Arg("out", "float32", (N, H)),
        STEP,
    )
    name = f"add{'_to' if in_place else ''}_{H}of{W}_n{N}{count_suffix(count)}"
    return kernel(name, arguments, body)


@cache
def swiglu(N: int, H: int, isa: str, *, count: int, activation: str = "silu") -> PrimFunc:
    """silu(gate) * up, or of another activation, as out[N,H] of x[N,2H], whose panels of 16 columns
    are gate and up by turns.

    Arguments in order: x, out, step, all float32, for step[count] rows. H is a multiple of 16.
    """

    def body(x: Buffer, out: Buffer, step: Buffer) -> None:
        def row(i: Expr) -> None:
            with T.serial(H // PANEL) as p, block("panel"):
                gate, up = (let(load(x, i, (p * 2 + j) * PANEL)) for j in range(2))
                store(out, GATED[activation](gate, up, isa), i, p * PANEL)

        with block("rows"):
            for_rows(live_rows(step, count, N), N, row)

    arguments = (Arg("x", "float32", (N, 2 * H)), Arg("out", "float32", (N, H)), STEP)
    kind = "swiglu" if activation == "silu" else activation
    return kernel(f"{kind}_{H}_n{N}{count_suffix(count)}", arguments, body)


@cache
def softcap(N: int, H: int, cap: float, isa: str, *, count: int) -> PrimFunc:
    """``x = cap * tanh(x / cap)`` of x[N,H] float32, for step[count] rows; H is a multiple of 16.

    Arguments in order: x, step.
    """

    def body(x: Buffer, step: Buffer) -> None:
        def row(i: Expr) -> None:
            with T.serial(H // PANEL) as p, block("panel"):
                value = load(x, i, p * PANEL) * splat(2 * LOG2E / cap)
                store(x, softcapped(value, cap, isa), i, p * PANEL)

        with block("rows"):
            for_rows(live_rows(step, count, N), N, row)

    arguments = (Arg("x", "float32", (N, H)), STEP)
    return kernel(symbol("softcap", H, f"n{N}", f"c{cap}") + count_suffix(count), arguments, body)


@cache
def gather(N: int, R: int, H: int) -> PrimFunc:
    """out[i] = x[logit_rows[i]] for step[2] rows, all of H float32; H is a multiple of 16.

    Arguments in order: x[N,H], logit_rows int32[R], out[R,H], step.
    """

    def body(x: Buffer, logit_rows: Buffer, out: Buffer, step: Buffer) -> None:
        def row(i: Expr) -> None:
            # An index from the host is kept inside the buffer whatever it says.
            source = T.bind(T.max(0, T.min(logit_rows[i], N - 1)))
            with T.serial(H // PANEL) as p, block("panel"):
                store(out, load(x, source, p * PANEL), i, p * PANEL)

        with block("rows"):
            for_rows(live_rows(step, LOGIT_ROWS, R), R, row)

    arguments = (
        Arg("x", "float32", (N, H)),
        Arg("logit_rows", "int32", (R,)),
        Arg("out", "float32", (R, H)),
        STEP,
    )
    return kernel(f"gather_{H}_n{N}_r{R}", arguments, body)
