"""Looking up embeddings in packed weights."""

from __future__ import annotations

from functools import cache

from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, PrimFunc

from edgewise_compiler.kernels.cpu.matmul.layout import weight_args
from edgewise_compiler.kernels.cpu.vector import cast, let, splat, store, widen
from edgewise_compiler.kernels.function import STEP, Arg, block, for_rows, kernel, live_rows
from edgewise_compiler.quantize import ZERO_POINT
from edgewise_runtime.format.abi import ROWS


def _codes(scheme: str, word: Expr) -> list[Expr]:
    """The weights in one packed word minus their zero point, four at a time: int32x4 each."""
    zero = ZERO_POINT[scheme]
    # (first shift, mask): byte b of a q4 word holds weight b below weight b+4.
    parts = {"q4": ((0, 15), (4, 15)), "q8": ((0, 255),)}[scheme]
    return [
        cast(
            (splat(word, 4) >> cast(T.ramp(first, 8, 4), "uint32")) & splat(mask, 4, "uint32"),
            "int32",
        )
        - splat(zero, 4, "int32")
        for first, mask in parts
    ]


@cache
def embed(scheme: str, N: int, H: int, V: int, isa: str) -> PrimFunc:
    """tokens int32[N], packed weight of V rows [, scale] -> x[N,H] float32, for step[0] rows.

    Arguments in order: tokens, weight, scale (q4 and q8), x, step. Ids outside 0..V-1 read the
    nearest row rather than memory that is not theirs.
    """
    weights = weight_args(scheme, -(-V // 32) * 32, H)

    def body(tokens: Buffer, weight: Buffer, *rest: Buffer) -> None:
        scale, x, step = rest if len(rest) == 3 else (None, *rest)

        def row(i: Expr) -> None:
            token = T.bind(T.max(0, T.min(tokens[i], V - 1)))
            panel, lane = T.bind(token // 16), T.bind(token % 16)
            if scale is None:
                with T.serial(H) as k, block("value"):
                    value = weight[panel, k, lane]
                    T.buffer_store(x, value if scheme == "f32" else widen(value, isa), [i, k])
                return
            words = int(weight.shape[1])
            each = H // words
            with T.serial(words) as w, block("word"):
                unit = let(widen(scale[panel, w * each // 32, lane], isa))
                word = let(weight[panel, w, lane])
                for part, codes in enumerate(_codes(scheme, word)):
                    store(x, cast(codes, "float32") * splat(unit, 4), i, w * each + part * 4)

        with block("rows"):
            for_rows(live_rows(step, ROWS, N), N, row)

    arguments = (Arg("tokens", "int32", (N,)), *weights, Arg("x", "float32", (N, H)), STEP)
    return kernel(f"embed_{scheme}_{V}x{H}_n{N}", arguments, body)
