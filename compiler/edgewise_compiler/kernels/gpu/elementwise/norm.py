"""RMS normalization on the GPU, for steps of many rows."""

from __future__ import annotations

from functools import cache

from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer

from edgewise_compiler.kernels.function import STEP, Arg, count_suffix
from edgewise_compiler.kernels.gpu.operations import f32, fma, lane, number
from edgewise_compiler.kernels.gpu.reduce import sum_groups
from edgewise_compiler.kernels.gpu.thread import Launch, Thread, bind, kernel, local, store, when
from edgewise_runtime.format.abi import LOGIT_ROWS, ROWS, STEP_SYMBOLS

_THREADS = 64


@cache
def rms_norm(
    N: int, H: int, eps: float, *, subgroups: bool, gather: int = 0, count: int = ROWS
) -> Launch:
    """``y = x / sqrt(mean(x**2) + eps) * weight`` for the live rows (Zhang and Sennrich 2019).

    Arguments: x float32 [N, H], weight float32 [H], logit_rows int32 [gather] with ``gather``,
    y float32 [N or gather, H], step. A workgroup takes one row; a thread adds up every 64th vector
    of four, and threads are joined in pairs: the same bits with subgroups of any width and without.

    Args:
        gather: y's row i is of ``x[logit_rows[i]]``, for at most so many rows; 0: of ``x[i]``.
        count: the field of step with the number of live rows, without ``gather``.
    """
    vectors = H // 4
    bound, count = (gather, LOGIT_ROWS) if gather else (N, count)
    symbol = STEP_SYMBOLS[count]
    arguments = (
        Arg("x", "float32x4", (N, vectors)),
        Arg("weight", "float32x4", (vectors,)),
        *((Arg("logit_rows", "int32", (gather,)),) if gather else ()),
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
            mean = fma(total, f32(1.0 / H), number(eps))
            scale = bind(f32(1.0) / T.sqrt(mean))
            with T.serial(0, -(-vectors // _THREADS)) as i:
                at = bind(i * _THREADS + thread.t)
                with when(at < vectors):
                    store(y, x[row, at] * scale * weight[at], target, at)

    live = f"_g{gather}" if gather else count_suffix(count)
    flags = ("_s" if subgroups else "") + live
    name = f"rms_norm_{N}x{H}_e{eps:.3e}{flags}"
    return kernel(
        name.replace(".", "p").replace("-", "m"),
        arguments,
        body,
        threads=_THREADS,
        grid=(symbol, 1),
        bounds={symbol: bound},
        subgroups=subgroups,
    )
