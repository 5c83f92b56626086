"""Rotary position embedding of queries and keys, and the keys' and values' way into the pages."""

from __future__ import annotations

import functools

from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, PrimFunc

from edgewise_compiler.kernels.attention import RopeSpec, check_heads
from edgewise_compiler.kernels.cpu.attention.pages import kv_arguments
from edgewise_compiler.kernels.cpu.vector import (
    LANES,
    bits,
    cast,
    fma,
    lane_max,
    lane_sum,
    lanes_of,
    let,
    load,
    narrow,
    rint_bits,
    size_bits,
    splat,
    store,
    widen,
)
from edgewise_compiler.kernels.function import (
    STEP,
    Arg,
    for_rows,
    kernel,
    live_rows,
    positions_arg,
    row_seq_arg,
    symbol,
    table_arg,
)
from edgewise_compiler.kernels.numbers import BEYOND_HALF, NAN_BITS
from edgewise_runtime.format.abi import PAGE_TOKENS, ROWS, STOP, TABLE_HEADER

INT8_MAX = 127


def _normalize(x: Buffer, weight: Buffer, D: int, eps: float, isa: str) -> None:
    """RMSNorm of x[D] in place: squares summed in 16 lanes, then the tree."""
    total = T.sblock_alloc_buffer((LANES,), "float32")
    store(total, splat(0.0), 0)
    with T.serial(0, D // LANES) as i:
        value = let(load(x, i * LANES))
        store(total, fma(value, value, load(total, 0), isa), 0)
    mean = let(fma(lane_sum(load(total, 0)), splat(1.0 / D, 1), splat(eps, 1), isa))
    inverse = let(splat(splat(1.0, 1) / T.sqrt(mean)))
    with T.serial(0, D // LANES) as i:
        store(x, load(x, i * LANES) * inverse * load(weight, i * LANES), i * LANES)


def _scale_of(largest: Expr, isa: str) -> tuple[Expr, Expr]:
    """The scale of int8 codes for numbers up to ``largest``, as the bits of a float16, and 1/scale.

    The inverse is that of the rounded scale, and zero where there is nothing but zeros: without a
    scale every code is zero.
    """
    half = let(narrow(largest * splat(1.0 / INT8_MAX, 1), isa))
    scale = let(widen(half, isa))
    inverse = T.Select(scale > splat(0.0, 1), splat(1.0, 1) / scale, splat(0.0, 1))
    return cast(bits(half, "uint16"), "uint32"), let(inverse)


def _codes(value: Expr, inverse: Expr, isa: str) -> Expr:
    """``value * inverse`` to the nearest integer, ties to even, within int8's symmetric range."""
    most = splat(INT8_MAX, LANES, "int32")
    least = splat(-INT8_MAX, LANES, "int32")
    return cast(T.max(T.min(rint_bits(value, splat(inverse), isa), most), least), "int8")


def _stored(value: Expr, kv_dtype: str, isa: str) -> Expr:
    """Numbers as pages hold them; what float16 cannot hold is NaN, which no score hides."""
    if kv_dtype != "float16":
        return value
    fits = size_bits(value) < splat(BEYOND_HALF, lanes_of(value), "int32")
    nan = bits(splat(NAN_BITS, lanes_of(value), "int32"), "float32")
    return narrow(T.Select(fits, value, nan), isa)


def _rotate(x: Buffer, rope: Buffer, position: Expr, row: int, D: int, isa: str) -> None:
    """Rotates (x[d], x[d+D/2]) by the angle of ``position`` and d, in place; cosines are in ``row``
    of the position, sines in the next one."""
    half = D // 2
    lanes = LANES if half % LANES == 0 else LANES // 2
    with T.serial(0, half // lanes) as i:
        d = i * lanes
        cos = let(load(rope, position, row, d, lanes=lanes))
        sin = let(load(rope, position, row + 1, d, lanes=lanes))
        first = let(load(x, d, lanes=lanes))
        second = let(load(x, half + d, lanes=lanes))
        store(x, fma(first, cos, second * (sin * splat(-1.0, lanes)), isa), d)
        store(x, fma(second, cos, first * sin, isa), half + d)


@functools.cache
def rope_append(spec: RopeSpec, isa: str) -> PrimFunc:
    """Rotates queries and keys (the halves of a head form the pairs) and appends keys and values.

    Arguments of the PrimFunc: qkv float32 [N, (HQ+2*HK)*D]; rope float32 [C, 2, D/2], the cosines
    then the sines of a position, if anything turns (with ``apart`` [C, 4, D/2], those of queries
    behind them); positions int32 [N, 1]; row_seq int32 [N]; table int32 [B, 8+MP]; with norms
    q_norm, k_norm float32 [D], the weights of an RMSNorm of every head before the rotation (Qwen3);
    q float32 [N, HQ*D], written; kv ``kv_dtype`` [pages, 2, HK, 16*D], written; of int8 pages
    kv_scale uint32 [pages, HK, 16], written; step int32 [8], whose field 0 is the number of rows.
    Rows of a stopped sequence leave the pages alone.

    The scale of an int8 key or value is max|x|/127 over the head, rounded to float16 before codes
    are computed with it; attention/pages.py says where both lie.

    float16 is rounded to nearest, ties to even; what it cannot hold is NaN. N, B, MP, C are the
    most rows, sequences, pages of a sequence and positions; HQ, HK, D query heads, KV heads and
    head dimension.

    Raises:
        CompileError: heads or dtypes that attention is not written for.
    """
    N, B, MP, C = spec.rows, spec.batch, spec.pages, spec.context
    HQ, HK, D, kv_dtype = spec.heads, spec.kv_heads, spec.head_dim, spec.kv_dtype
    eps = spec.norm_eps
    check_heads(HQ, HK, D, kv_dtype)
    norms = [] if eps is None else [Arg(name, "float32", (D,)) for name in ("q_norm", "k_norm")]
    arguments = [
        Arg("qkv", "float32", (N, (HQ + 2 * HK) * D)),
        *([Arg("rope", "float32", (C, spec.rope_rows, D // 2))] if spec.turns else []),
        positions_arg(spec),
        row_seq_arg(spec),
        table_arg(spec),
        *norms,
        Arg("q", "float32", (N, HQ * D)),
        *kv_arguments(HK, D, kv_dtype),
        STEP,
    ]

    def body(qkv: Buffer, *rest: Buffer) -> None:
        rope, rest = (rest[0], rest[1:]) if spec.turns else (None, rest)
        positions, row_seq, table = rest[:3]
        rest = rest[3:]
        q_norm, k_norm = rest[:2] if norms else (None, None)
        q, kv, *kv_scale, step = rest[len(norms) :]

        def head(
            x: Buffer, row: Expr, first: Expr, position: Expr, norm: Buffer | None, turn: int = 0
        ) -> None:
            with T.serial(0, D // LANES) as i:
                store(x, load(qkv, row, first + i * LANES), i * LANES)
            if norm is not None and eps is not None:
                _normalize(x, norm, D, eps, isa)
            if rope is not None:
                _rotate(x, rope, position, turn, D, isa)

        def one_row(row: Expr) -> None:
            x = T.sblock_alloc_buffer((D,), "float32")
            position = let(positions[row, 0])
            with T.serial(0, HQ) as h:
                head(x, row, h * D, position, q_norm, 2 if spec.apart else 0)
                with T.serial(0, D // LANES) as i:
                    store(q, load(x, i * LANES), row, h * D + i * LANES)
            sequence = let(row_seq[row])
            with T.If(table[sequence, STOP] == 0), T.Then():
                page = let(
                    T.Cast(
                        "int64", table[sequence, TABLE_HEADER + T.floordiv(position, PAGE_TOKENS)]
                    )
                )
                slot = let(T.floormod(position, PAGE_TOKENS))
                with T.serial(0, HK) as h:
                    head(x, row, (HQ + h) * D, position, k_norm)
                    if kv_scale:
                        append_codes(x, row, page, slot, h)
                    else:
                        append(x, row, page, slot, h)

        def append(x: Buffer, row: Expr, page: Expr, slot: Expr, h: Expr) -> None:
            packed = T.sblock_alloc_buffer((D,), kv_dtype)
            with T.serial(0, D // LANES) as i:
                d = i * LANES
                store(packed, _stored(load(x, d), kv_dtype, isa), d)
                value = load(qkv, row, (HQ + HK + h) * D + d)
                store(kv, _stored(value, kv_dtype, isa), page, 1, h, slot * D + d)
            with T.serial(0, D) as d:
                T.buffer_store(kv, packed[d], [page, 0, h, d * PAGE_TOKENS + slot])

        def append_codes(x: Buffer, row: Expr, page: Expr, slot: Expr, h: Expr) -> None:
            key = [T.sblock_alloc_buffer((LANES,), "int32") for _ in range(2)]
            packed = T.sblock_alloc_buffer((D,), "int8")
            first = (HQ + HK + h) * D
            for register in key:
                store(register, splat(0, LANES, "int32"), 0)
            with T.serial(0, D // LANES) as i:
                values = load(x, i * LANES), load(qkv, row, first + i * LANES)
                for register, value in zip(key, values, strict=True):
                    store(register, T.max(load(register, 0), size_bits(value)), 0)
            (k_bits, k_inverse), (v_bits, v_inverse) = (
                _scale_of(let(bits(lane_max(load(register, 0)), "float32")), isa)
                for register in key
            )
            T.buffer_store(
                kv_scale[0], k_bits | (v_bits << splat(16, 1, "uint32")), [page, h, slot]
            )
            with T.serial(0, D // LANES) as i:
                d = i * LANES
                store(packed, _codes(load(x, d), k_inverse, isa), d)
                codes = _codes(load(qkv, row, first + d), v_inverse, isa)
                store(kv, codes, page, 1, h, slot * D + d)
            with T.serial(0, D // 4) as i:
                store(kv, load(packed, i * 4, lanes=4), page, 0, h, (i * PAGE_TOKENS + slot) * 4)

        for_rows(live_rows(step, ROWS, N), N, one_row)

    normed = () if eps is None else (f"norm{eps}",)
    name = symbol("rope_append", N, B, MP, HQ, HK, D, C, kv_dtype, *normed, *spec.rope_names)
    return kernel(name, arguments, body)
