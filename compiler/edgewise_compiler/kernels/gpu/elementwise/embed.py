"""The embedding table's rows for the tokens of a step, on the GPU."""

from __future__ import annotations

from functools import cache

from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer

from edgewise_compiler.kernels.function import STEP, Arg, symbol, tokens_arg
from edgewise_compiler.kernels.gpu.matmul.weights import VECTORS, GpuWeights
from edgewise_compiler.kernels.gpu.operations import number
from edgewise_compiler.kernels.gpu.thread import Launch, Thread, bind, kernel, store, when
from edgewise_runtime.format.abi import ROWS

_THREADS = 64


@cache
def embed(scheme: str, N: int, H: int, rows: int, first: int, factor: float = 1.0) -> Launch:
    """``x[i] = table[tokens[i]] * factor`` for live rows whose token this part of the table has.

    Arguments: tokens int32 [N], weight [rows, H], scale of an integer scheme, x float32 [N, H],
    step. A workgroup takes one row, a thread groups of 32 columns. Ids that no part has leave their
    row as it is; the engine refuses them.

    Args:
        rows, first: the part holds the table's rows from ``first`` on.
    """
    weights = GpuWeights(scheme, rows, H)
    arguments = (
        tokens_arg(N),
        *weights.arguments(),
        Arg("x", "float32x4", (N, H // 4)),
        STEP,
    )

    def body(thread: Thread, tokens: Buffer, *rest: Buffer) -> None:
        *packed, x, step = rest
        row = thread.x
        token = bind(tokens[T.min(row, N - 1)] - first)
        there = T.And(T.And(token >= 0, token < rows), row < T.min(step[ROWS], N))
        with when(there):
            ready = weights.begun()
            with T.serial(0, -(-weights.groups // _THREADS)) as i:
                g = bind(i * _THREADS + thread.t)
                with when(g < weights.groups):
                    for j, value in enumerate(ready.group(packed, token, g)):
                        scaled = value if factor == 1.0 else value * number(factor, "float32x4")
                        store(x, scaled, row, g * VECTORS + j)

    name = f"embed_{scheme}_{rows}x{H}_from{first}_n{N}"
    if factor != 1.0:
        name = symbol(name, f"f{factor}")
    return kernel(name, arguments, body, threads=_THREADS, grid=("n", 1), bounds={"n": N})
