"""The results of a row's experts, times their weights, in one: a row a workgroup."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from tvm.ir import Expr
from tvm.tirx import Buffer

from edgewise_compiler.kernels.function import STEP, Arg
from edgewise_compiler.kernels.gpu.elementwise.unfused import for_vectors
from edgewise_compiler.kernels.gpu.operations import fma, splat
from edgewise_compiler.kernels.gpu.thread import Launch, bind, local, store
from edgewise_runtime.format.abi import ROWS


@cache
def combine(N: int, H: int, chosen: int, *, shared: bool, added: bool) -> Launch:
    """``out[N, H]`` = sum over i of ``weights[:, i] * y[:, i]``, for step[0] rows.

    Arguments: y float32 [N, chosen * H], with ``shared`` the shared expert's [N, H], weights
    float32 [N, chosen (+ 1)], out, step. ``added`` puts the sum onto out. The order is that of the
    weights, from zero.
    """
    count, vectors = chosen + shared, H // 4
    arguments = (
        Arg("y", "float32x4", (N, chosen * vectors)),
        *((Arg("shared", "float32x4", (N, vectors)),) if shared else ()),
        Arg("weights", "float32", (N, count)),
        Arg("out", "float32x4", (N, vectors)),
        STEP,
    )

    def vector(buffers: Sequence[Buffer], row: Expr, i: Expr) -> None:
        y, *others, weights, out = buffers
        total = local((1,), "float32x4")
        store(total, 0.0, 0)
        for s in range(count):
            part = y[row, s * vectors + i] if s < chosen else others[0][row, i]
            share = bind(splat(bind(weights[row, s])))
            store(total, fma(share, bind(part), total[0]), 0)
        store(out, out[row, i] + total[0] if added else total[0], row, i)

    flags = ("_shared" if shared else "") + ("_add" if added else "")
    name = f"combine_{H}_k{chosen}_n{N}{flags}"
    return for_vectors(name, arguments, vector, N, vectors, ROWS)
