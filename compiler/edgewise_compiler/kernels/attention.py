"""What attention kernels of every machine are made for, check and compute the same way."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T

from edgewise_compiler.kernels.function import Arg
from edgewise_compiler.kernels.numbers import HEAD_STEP, KV_DTYPES, MAX_HEAD_DIM, SEGMENT
from edgewise_runtime.errors import CompileError, UnsupportedError
from edgewise_runtime.format.abi import PAGE_TOKENS


@dataclass(frozen=True)
class PagedHeads:
    """The heads of one layer, and the steps and pages they are computed for.

    Attributes:
        rows, batch: the most token rows and sequences of a step.
        context: the most tokens of a sequence.
        heads, kv_heads, head_dim: query heads, KV heads, elements of a head.
        kv_dtype: what pages hold, one of `KV_DTYPES`.
    """

    rows: int
    batch: int
    context: int
    heads: int
    kv_heads: int
    head_dim: int
    kv_dtype: str

    @property
    def pages(self) -> int:
        """The most pages of a sequence."""
        return -(-self.context // PAGE_TOKENS)


@dataclass(frozen=True)
class RopeSpec(PagedHeads):
    """Rotating queries and keys, and appending keys and values to the pages.

    Attributes:
        norm_eps: of the RMSNorm of every head before the rotation; None without one.
        turns: whether there is a rotation at all; without one no kernel has its table.
        apart: queries turn by a table of their own: rows 2 and 3 of a position, behind the keys'.
    """

    norm_eps: float | None = None
    turns: bool = True
    apart: bool = False

    @property
    def rope_rows(self) -> int:
        """Rows of the rotation's table for a position."""
        return 4 if self.apart else 2

    @property
    def rope_names(self) -> tuple[str, ...]:
        """What tells kernels with another rotation from others in their names."""
        return ("apart",) if self.apart else () if self.turns else ("still",)


@dataclass(frozen=True)
class AttentionSpec(PagedHeads):
    """Attention over paged keys and values.

    Attributes:
        scale: factor on q.k before the softmax.
        window: tokens a row sees, itself included; None for all before it.
        softcap: scores become ``softcap * tanh(score / softcap)``; None leaves them.
        sinks: every head has a learned score that takes part in the softmax without a value.
        segment: tokens whose attention a GPU computes before partial results are joined, in decode:
            `SEGMENT` or one of `LONG_SEGMENTS`.
    """

    scale: float
    window: int | None = None
    softcap: float | None = None
    sinks: bool = False
    segment: int = SEGMENT


def check_attention(spec: AttentionSpec, implements: tuple[str, ...] = ()) -> int:
    """Query heads per KV head, for a kernel that knows the traits in ``implements``.

    Raises:
        CompileError: a shape or dtype the attention kernels are not written for.
        UnsupportedError: a trait (window, softcap, sinks) that this kernel does not have.
    """
    for trait in ("window", "softcap", "sinks"):
        value = getattr(spec, trait)
        if value not in (None, False) and trait not in implements:
            raise UnsupportedError(
                f"Attention with {trait} {value!r} is not implemented by this kernel.",
                remedy="Compile for a target whose kernels have it, or use another model.",
                code="unsupported.attention",
            )
    return check_heads(spec.heads, spec.kv_heads, spec.head_dim, spec.kv_dtype)


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


KNOWN = ("window", "softcap", "sinks")
"""The traits of attention that every kernel has."""


def log2_scale(sm_scale: float) -> float:
    """The factor that turns q.k into the exponent of two."""
    return sm_scale * math.log2(math.e)


def score_scale(spec: AttentionSpec) -> float:
    """What q.k is multiplied with: it is the exponent of two then, or, to be capped, twice that
    over the cap (:func:`log2_cap`)."""
    scale = log2_scale(spec.scale)
    return scale if spec.softcap is None else 2 * scale / spec.softcap


def log2_cap(spec: AttentionSpec) -> float | None:
    """The most an exponent of two can be, or the least, without its sign; None for any."""
    return None if spec.softcap is None else log2_scale(spec.softcap)


def first_seen(spec: AttentionSpec, keys: Expr) -> Expr:
    """The first position of the last ``keys`` that a row sees, itself the last of them."""
    return T.max(0, keys - spec.window)


def trait_names(spec: AttentionSpec) -> tuple[str, ...]:
    """What tells kernels with these traits from others in their names."""
    window = () if spec.window is None else (f"w{spec.window}",)
    capped = window if spec.softcap is None else (*window, f"c{spec.softcap}")
    return (*capped, "sinks") if spec.sinks else capped


def sinks_arg(spec: AttentionSpec) -> tuple[Arg, ...]:
    """The learned scores, float32 [HQ], if there are any: attention begins with them, as if with a
    key whose value is zero."""
    return (Arg("sinks", "float32", (spec.heads,)),) if spec.sinks else ()


def segment_names(spec: AttentionSpec) -> tuple[str, ...]:
    """What tells kernels of decode with such segments from others in their names."""
    return () if spec.segment == SEGMENT else (f"s{spec.segment}",)


def segments_of(tokens: Expr, segment: int = SEGMENT) -> Expr:
    """How many segments hold ``tokens`` positions."""
    return T.floordiv(tokens + (segment - 1), segment)


def spread(count: int, most: int) -> list[tuple[int, int, int]]:
    """``count`` things in as few blocks of at most ``most`` as possible, of at most two sizes.

    Each entry is (first, size, times): ``times`` blocks of ``size`` things, from ``first`` on.
    """
    blocks = -(-count // most)
    small, larger = divmod(count, blocks)
    runs = [(0, small + 1, larger), (larger * (small + 1), small, blocks - larger)]
    return [run for run in runs if run[2]]
