"""Sums, gates and gathered rows that no pass made part of another kernel: one row a workgroup."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer

from edgewise_compiler.kernels.function import STEP, Arg, count_suffix, logit_rows_arg, symbol
from edgewise_compiler.kernels.gpu.operations import (
    GATED,
    lane,
    number,
    softcapped,
    vector_of,
)
from edgewise_compiler.kernels.gpu.thread import Launch, Thread, bind, kernel, store, when
from edgewise_compiler.kernels.numbers import LOG2E
from edgewise_runtime.format.abi import LOGIT_ROWS, PANEL, STEP_SYMBOLS

_THREADS = 64
_TURNS = 4  # vectors a thread caps


@cache
def add(N: int, H: int, W: int, *, in_place: bool, count: int) -> Launch:
    """``x[N, H]`` + the first H columns of ``y[N, W]``, float32, for step[count] rows.

    Arguments: ``in_place`` y and x, which becomes the sum, otherwise x, y and out [N, H]; step.
    """
    arguments = (
        *(() if in_place else (Arg("x", "float32x4", (N, H // 4)),)),
        Arg("y", "float32x4", (N, W // 4)),
        Arg("out", "float32x4", (N, H // 4)),
        STEP,
    )

    def vector(buffers: Sequence[Buffer], row: Expr, i: Expr) -> None:
        *inputs, y, out = buffers
        x = inputs[0] if inputs else out
        store(out, x[row, i] + y[row, i], row, i)

    name = f"add{'_to' if in_place else ''}_{H}of{W}_n{N}{count_suffix(count)}"
    return for_vectors(name, arguments, vector, N, H // 4, count)


@cache
def swiglu(N: int, H: int, *, count: int, activation: str = "silu") -> Launch:
    """silu(gate) * up, or of another activation, as out [N, H] of x [N, 2H], whose panels of
    16 columns are gate, up, gate …

    Arguments: x, out, step, all float32; step[count] rows are live.
    """
    arguments = (
        Arg("x", "float32x4", (N, H // 2)),
        Arg("out", "float32x4", (N, H // 4)),
        STEP,
    )
    panel = PANEL // 4

    def vector(buffers: Sequence[Buffer], row: Expr, i: Expr) -> None:
        x, out = buffers
        at = bind(i // panel * (2 * panel) + i % panel)
        gate, up = bind(x[row, at]), bind(x[row, at + panel])
        act = GATED[activation]
        store(out, vector_of(*(act(lane(gate, c), lane(up, c)) for c in range(4))), row, i)

    kind = "swiglu" if activation == "silu" else activation
    return for_vectors(f"{kind}_{H}_n{N}{count_suffix(count)}", arguments, vector, N, H // 4, count)


@cache
def softcap(N: int, H: int, cap: float, *, count: int) -> Launch:
    """``x = cap * tanh(x / cap)`` of x [N, H] float32, for step[count] rows.

    Arguments: x, step. A workgroup takes a run of a row's columns: logits are long.
    """
    vectors = H // 4
    run = _THREADS * _TURNS

    def body(thread: Thread, x: Buffer, step: Buffer) -> None:
        row = thread.x
        with when(row < T.min(step[count], N)), T.serial(0, _TURNS) as turn:
            i = bind(thread.y * run + turn * _THREADS + thread.t)
            with when(i < vectors):
                value = bind(x[row, i] * number(2 * LOG2E / cap, "float32x4"))
                store(x, vector_of(*(softcapped(lane(value, c), cap) for c in range(4))), row, i)

    name = symbol("softcap", H, f"n{N}", f"c{cap}") + count_suffix(count)
    rows = STEP_SYMBOLS[count]
    return kernel(
        name,
        (Arg("x", "float32x4", (N, vectors)), STEP),
        body,
        threads=_THREADS,
        grid=(rows, -(-vectors // run)),
        bounds={rows: N},
    )


@cache
def gather(N: int, R: int, H: int) -> Launch:
    """``out[i] = x[logit_rows[i]]`` for step[2] rows of H float32.

    Arguments: x [N, H], logit_rows int32 [R], out [R, H], step.
    """
    arguments = (
        Arg("x", "float32x4", (N, H // 4)),
        logit_rows_arg(R, N),
        Arg("out", "float32x4", (R, H // 4)),
        STEP,
    )

    def vector(buffers: Sequence[Buffer], row: Expr, i: Expr) -> None:
        x, logit_rows, out = buffers
        source = bind(T.max(T.min(logit_rows[row], N - 1), 0))
        store(out, x[source, i], row, i)

    return for_vectors(f"gather_{H}_n{N}_r{R}", arguments, vector, R, H // 4, LOGIT_ROWS)


def for_vectors(
    name: str,
    arguments: Sequence[Arg],
    vector: Callable[[Sequence[Buffer], Expr, Expr], None],
    bound: int,
    vectors: int,
    count: int,
) -> Launch:
    """A kernel that runs ``vector(buffers, row, i)`` for every vector of four of the live rows."""

    def body(thread: Thread, *buffers: Buffer) -> None:
        *others, step = buffers
        with (
            when(thread.x < T.min(step[count], bound)),
            T.serial(0, -(-vectors // _THREADS)) as turn,
        ):
            i = bind(turn * _THREADS + thread.t)
            with when(i < vectors):
                vector(others, thread.x, i)

    live = STEP_SYMBOLS[count]
    return kernel(name, arguments, body, threads=_THREADS, grid=(live, 1), bounds={live: bound})
