"""What attention kernels of every machine check and compute the same way."""

from __future__ import annotations

import math

from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T

from edgewise_compiler.kernels.numbers import HEAD_STEP, KV_DTYPES, MAX_HEAD_DIM, SEGMENT
from edgewise_runtime.errors import CompileError


def check_heads(HQ: int, HK: int, D: int, kv_dtype: str) -> int:
    """Query heads per KV head.

    Raises:
        CompileError: a shape or dtype the attention kernels are not written for.
    """
    if HK < 1 or HQ % HK or HQ < HK:
        raise CompileError(
            f"{HQ} query heads cannot share {HK} KV heads evenly.", code="compile.kernel"
        )
    if D % HEAD_STEP or not HEAD_STEP <= D <= MAX_HEAD_DIM:
        raise CompileError(
            f"Head dimension {D} is not a multiple of {HEAD_STEP} up to {MAX_HEAD_DIM}.",
            code="compile.kernel",
        )
    if kv_dtype not in KV_DTYPES:
        raise CompileError(
            f"KV dtype {kv_dtype!r} is not one of {KV_DTYPES}.", code="compile.kernel"
        )
    return HQ // HK


def log2_scale(sm_scale: float) -> float:
    """The factor that turns q.k into the exponent of two."""
    return sm_scale * math.log2(math.e)


def segments_of(tokens: Expr) -> Expr:
    """How many segments hold ``tokens`` positions."""
    return T.floordiv(tokens + (SEGMENT - 1), SEGMENT)


def spread(count: int, most: int) -> list[tuple[int, int, int]]:
    """``count`` things in as few blocks of at most ``most`` as possible, of at most two sizes.

    Each entry is (first, size, times): ``times`` blocks of ``size`` things, from ``first`` on.
    """
    blocks = -(-count // most)
    small, larger = divmod(count, blocks)
    runs = [(0, small + 1, larger), (larger * (small + 1), small, blocks - larger)]
    return [run for run in runs if run[2]]
