"""RMS normalization on the GPU, for steps of many rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer

from edgewise_compiler.kernels.function import STEP, Arg, count_suffix, logit_rows_arg, symbol
from edgewise_compiler.kernels.gpu.operations import f32, fma, lane, number
from edgewise_compiler.kernels.gpu.reduce import sum_groups
from edgewise_compiler.kernels.gpu.thread import Launch, Thread, bind, kernel, local, store, when
from edgewise_compiler.kernels.norm import NormSpec
from edgewise_runtime.format.abi import LOGIT_ROWS, ROWS, STEP_SYMBOLS

_THREADS = 64


@cache
def rms_norm(spec: NormSpec, *, subgroups: bool) -> Launch:
    """``y = x / sqrt(mean(x**2) + eps) * weight`` for the live rows (Zhang and Sennrich 2019).

    Arguments: x float32 [N, H], weight float32 [H], logit_rows int32 [gathered] to gather,
    y float32 [N or gathered, H], step. A workgroup takes one row; a thread adds up every 64th
    vector of four, and threads are joined in pairs: the same bits with subgroups of any width and
    without.
    """
    N, H, gathered = spec.rows, spec.width, spec.gathered
    vectors = H // 4
    bound, count = (N, spec.count) if gathered is None else (gathered, LOGIT_ROWS)
    symbol = STEP_SYMBOLS[count]
    arguments = (
        Arg("x", "float32x4", (N, vectors)),
        Arg("weight", "float32x4", (vectors,)),
        *(() if gathered is None else (logit_rows_arg(gathered, N),)),
        Arg("y", "float32x4", (bound, vectors)),
        STEP,
    )

    def body(thread: Thread, x: Buffer, weight: Buffer, *others: Buffer) -> None:
        *rows, y, step = others
        target = thread.x
        with when(target < T.min(step[count], bound)):
            row = bind(rows[0][target]) if rows else target
            squares = local((1,))
            store(squares, 0.0, 0)
            with T.serial(0, -(-vectors // _THREADS)) as i:
                at = bind(i * _THREADS + thread.t)
                with when(at < vectors):
                    vector = bind(x[row, at])
                    for c in range(4):
                        store(squares, fma(lane(vector, c), lane(vector, c), squares[0]), 0)
            total = bind(sum_groups(thread, [squares[0]], _THREADS)(0, 0))
            mean = fma(total, f32(1.0 / H), number(spec.eps))
            scale = bind(f32(1.0) / T.sqrt(mean))
            with T.serial(0, -(-vectors // _THREADS)) as i:
                at = bind(i * _THREADS + thread.t)
                with when(at < vectors):
                    store(y, x[row, at] * scale * weight[at], target, at)

    live = count_suffix(count) if gathered is None else f"_g{gathered}"
    flags = ("_s" if subgroups else "") + live
    name = f"rms_norm_{N}x{H}_e{spec.eps:.3e}{flags}"
    return kernel(
        name.replace(".", "p").replace("-", "m"),
        arguments,
        body,
        threads=_THREADS,
        grid=(symbol, 1),
        bounds={symbol: bound},
        subgroups=subgroups,
    )


@cache
def norm_runs(N: int, H: int, runs: tuple[int, ...], eps: float, *, subgroups: bool) -> Launch:
    """Runs of columns of x, each by itself as `rms_norm` has it; other columns as they are.

    Arguments: x float32 [N, H], a weight float32 of each run, y float32 [N, H], step. Runs follow
    each other from column 0 on. A workgroup takes one row; all are multiples of 4.
    """
    arguments = (
        Arg("x", "float32x4", (N, H // 4)),
        *(Arg(f"weight{i}", "float32x4", (run // 4,)) for i, run in enumerate(runs)),
        Arg("y", "float32x4", (N, H // 4)),
        STEP,
    )
    starts = [sum(runs[:i]) // 4 for i in range(len(runs) + 1)]

    def body(thread: Thread, x: Buffer, *others: Buffer) -> None:
        *weights, y, step = others
        row = thread.x

        def every(count: int, action: Callable[[Expr], None]) -> None:
            with T.serial(0, -(-count // _THREADS)) as i:
                at = bind(i * _THREADS + thread.t)
                with when(at < count):
                    action(at)

        with when(row < T.min(step[ROWS], N)):
            squares = local((len(runs),))
            for k, run in enumerate(runs):
                store(squares, 0.0, k)

                def add(at: Expr, k: int = k) -> None:
                    vector = bind(x[row, starts[k] + at])
                    for c in range(4):
                        store(squares, fma(lane(vector, c), lane(vector, c), squares[k]), k)

                every(run // 4, add)
            read = sum_groups(thread, [squares[k] for k in range(len(runs))], _THREADS)
            for k, (run, weight) in enumerate(zip(runs, weights, strict=True)):
                mean = fma(bind(read(k, 0)), f32(1.0 / run), number(eps))
                scale = bind(f32(1.0) / T.sqrt(mean))

                def write(
                    at: Expr, k: int = k, scale: Expr = scale, weight: Buffer = weight
                ) -> None:
                    store(y, x[row, starts[k] + at] * scale * weight[at], row, starts[k] + at)

                every(run // 4, write)
            every(
                H // 4 - starts[-1],
                lambda at: store(y, x[row, starts[-1] + at], row, starts[-1] + at),
            )

    flags = ("s",) if subgroups else ()
    return kernel(
        symbol("norm_runs", N, H, *runs, f"e{eps}", *flags),
        arguments,
        body,
        threads=_THREADS,
        grid=("n", 1),
        bounds={"n": N},
        subgroups=subgroups,
    )
