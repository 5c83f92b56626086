"""The results of a row's experts, times their weights, in one."""

from __future__ import annotations

from functools import cache

from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, PrimFunc

from edgewise_compiler.kernels.cpu.vector import fma, let, load, register, splat, store
from edgewise_compiler.kernels.function import STEP, Arg, block, for_rows, kernel, live_rows
from edgewise_runtime.format.abi import PANEL, ROWS


@cache
def combine(N: int, H: int, chosen: int, isa: str, *, shared: bool, added: bool) -> PrimFunc:
    """out[N,H] = sum over i of weights[:,i] * y[:,i], float32, for step[0] rows.

    Arguments in order: y float32[N,chosen*H], ``shared`` the shared expert's float32[N,H], weights
    float32[N,chosen (+ 1)], out, step. ``added`` puts the sum onto out. H is a multiple of 16.

    A sum is acc = fma(weight, y, acc) from zero, in the order of the weights.
    """
    count = chosen + shared

    def body(y: Buffer, *rest: Buffer) -> None:
        *others, weights, out, step = rest

        def row(i: Expr) -> None:
            shares = [let(splat(weights[i, s])) for s in range(count)]
            with T.serial(H // PANEL) as p, block("panel"):
                total = register(splat(0.0))
                for s, share in enumerate(shares):
                    source = y if s < chosen else others[0]
                    first = s * H if s < chosen else 0
                    value = fma(share, load(source, i, first + p * PANEL), load(total, 0), isa)
                    store(total, value, 0)
                found = load(total, 0)
                store(out, load(out, i, p * PANEL) + found if added else found, i, p * PANEL)

        with block("rows"):
            for_rows(live_rows(step, ROWS, N), N, row)

    arguments = (
        Arg("y", "float32", (N, chosen * H)),
        *((Arg("shared", "float32", (N, H)),) if shared else ()),
        Arg("weights", "float32", (N, count)),
        Arg("out", "float32", (N, H)),
        STEP,
    )
    flags = ("_shared" if shared else "") + ("_add" if added else "")
    return kernel(f"combine_{H}_k{chosen}_n{N}{flags}", arguments, body)
