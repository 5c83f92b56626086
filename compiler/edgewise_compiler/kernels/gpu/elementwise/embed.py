"""The embedding table's rows for the tokens of a step, on the GPU."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer

from edgewise_compiler.kernels.function import STEP, Arg, symbol, tokens_arg
from edgewise_compiler.kernels.gpu.matmul.weights import VECTORS, GpuWeights
from edgewise_compiler.kernels.gpu.operations import number
from edgewise_compiler.kernels.gpu.thread import Launch, Thread, bind, kernel, store, when
from edgewise_runtime.format.abi import ROWS

_THREADS = 64


@dataclass(frozen=True)
class TablePart:
    """Rows of a table that lie in buffers of their own: their scheme, how many, the first."""

    scheme: str
    rows: int
    first: int = 0


@cache
def embed(parts: tuple[TablePart, ...], N: int, H: int, factor: float = 1.0) -> Launch:
    """``x[i] = table[tokens[i]] * factor`` for live rows whose token one of the parts has.

    Arguments: tokens int32 [N], of each part weight [rows, H] and scale of an integer scheme, x
    float32 [N, H], step. A workgroup takes one row, a thread groups of 32 columns. Ids that no part
    has leave their row as it is; the engine refuses them.
    """
    weights = [GpuWeights(part.scheme, part.rows, H) for part in parts]
    arguments = (
        tokens_arg(N),
        *(
            arg._replace(name=f"{arg.name}{nth or ''}")
            for nth, own in enumerate(weights)
            for arg in own.arguments()
        ),
        Arg("x", "float32x4", (N, H // 4)),
        STEP,
    )

    def body(thread: Thread, tokens: Buffer, *rest: Buffer) -> None:
        *packed, x, step = rest
        row = thread.x
        token = bind(tokens[T.min(row, N - 1)])
        for part, own in zip(parts, weights, strict=True):
            buffers = [packed.pop(0) for _ in own.arguments()]
            place = bind(token - part.first) if part.first else token
            there = T.And(T.And(place >= 0, place < part.rows), row < T.min(step[ROWS], N))
            with when(there):
                look_up(thread, own, buffers, place, x)

    def look_up(
        thread: Thread, own: GpuWeights, buffers: list[Buffer], place: Expr, x: Buffer
    ) -> None:
        ready = own.begun()
        with T.serial(0, -(-own.groups // _THREADS)) as i:
            g = bind(i * _THREADS + thread.t)
            with when(g < own.groups):
                for j, value in enumerate(ready.group(buffers, place, g)):
                    scaled = value if factor == 1.0 else value * number(factor, "float32x4")
                    store(x, scaled, thread.x, g * VECTORS + j)

    tables = "_".join(f"{part.scheme}_{part.rows}x{H}_from{part.first}" for part in parts)
    name = f"embed_{tables}_n{N}"
    if factor != 1.0:
        name = symbol(name, f"f{factor}")
    return kernel(name, arguments, body, threads=_THREADS, grid=("n", 1), bounds={"n": N})
