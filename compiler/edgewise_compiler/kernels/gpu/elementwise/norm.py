"""RMS normalization on the GPU, for steps of many rows."""

from __future__ import annotations

from functools import cache

from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer

from edgewise_compiler.kernels.function import STEP, Arg, count_suffix, logit_rows_arg
from edgewise_compiler.kernels.gpu.operations import f32, fma, lane, number
from edgewise_compiler.kernels.gpu.reduce import sum_groups
from edgewise_compiler.kernels.gpu.thread import Launch, Thread, bind, kernel, local, store, when
from edgewise_compiler.kernels.norm import NormSpec
from edgewise_runtime.format.abi import LOGIT_ROWS, STEP_SYMBOLS

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
