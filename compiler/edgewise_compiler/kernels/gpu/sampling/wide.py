"""Sums of probabilities on the GPU, which has no 64-bit integers: two words of 24 bits and more.

A number is ``hi * 2**24 + lo`` with ``lo`` below 2**24. 256 of them can be added word by word
without carrying, which is what lets threads be joined in any order with the same result.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T

from edgewise_compiler.kernels.gpu.operations import bits, f32, i32, u32
from edgewise_compiler.kernels.gpu.thread import keep, local, store

SHIFT = 24
MASK = (1 << SHIFT) - 1


@dataclass(frozen=True)
class Wide:
    """A number of up to 56 bits, as two uint32."""

    hi: Expr
    lo: Expr


def wide(hi: Expr, lo: Expr) -> Wide:
    """The number with these words, of which ``lo`` may still have a carry."""
    return Wide(keep(hi + (lo >> u32(SHIFT))), keep(lo & u32(MASK)))


def wide_of(value: Expr) -> Wide:
    """A uint32 as a wide number."""
    return wide(u32(0), value)


def halves(high: Expr, low: Expr) -> Wide:
    """``high * 2**16 + low`` of two sums of 16-bit halves."""
    # 2**16 * high = 2**24 * (high >> 8) + 2**16 * (high & 255), and low may have any of its bits.
    carry = keep(((high & u32(255)) << u32(16)) + (low & u32(MASK)))
    return wide((high >> u32(8)) + (low >> u32(SHIFT)), carry)


def add(a: Wide, b: Wide) -> Wide:
    """``a + b``."""
    return wide(a.hi + b.hi, a.lo + b.lo)


def subtract(a: Wide, b: Wide) -> Wide:
    """``a - b`` where a is the larger."""
    low = keep(a.lo + u32(1 << SHIFT) - b.lo)
    return wide(a.hi - b.hi - u32(1), low)


def less(a: Wide, b: Wide) -> Expr:
    """Whether ``a < b``."""
    return T.Or(a.hi < b.hi, T.And(T.EQ(a.hi, b.hi), a.lo < b.lo))


def select(condition: Expr, a: Wide, b: Wide) -> Wide:
    """``a`` where the condition holds, else ``b``."""
    return Wide(keep(T.Select(condition, a.hi, b.hi)), keep(T.Select(condition, a.lo, b.lo)))


def full_product(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """The high and the low 32 bits of a product of two uint32."""
    low, shift = u32(0xFFFF), u32(16)
    al, ah, bl, bh = keep(a & low), keep(a >> shift), keep(b & low), keep(b >> shift)
    ll, lh, hl, hh = keep(al * bl), keep(al * bh), keep(ah * bl), keep(ah * bh)
    middle = keep((ll >> shift) + (lh & low) + (hl & low))
    high = keep(hh + (lh >> shift) + (hl >> shift) + (middle >> shift))
    return high, keep((middle << shift) | (ll & low))


def multiply(a: Expr, b: Expr) -> Wide:
    """A product of two uint32 below 2**56."""
    high, low = full_product(a, b)
    return Wide(keep((low >> u32(SHIFT)) | (high << u32(8))), keep(low & u32(MASK)))


def scale(total: Wide, part: Expr) -> tuple[Wide, Expr]:
    """``floor(total * part / 2**32)``, and whether anything was cut off."""
    high0, low0 = full_product(total.lo, part)
    high1, low1 = full_product(total.hi, part)
    first = keep(low0 + (low1 << u32(24)))
    carry = keep(T.Select(first < low0, u32(1), u32(0)))
    middle = keep((low1 >> u32(8)) | (high1 << u32(24)))
    second = keep(high0 + middle + carry)
    # high0 is below 2**24, so adding the carry to it cannot wrap around.
    over = keep(T.Select(second < middle, u32(1), u32(0)))
    third = keep((high1 >> u32(8)) + over)
    result = Wide(keep((second >> u32(SHIFT)) | (third << u32(8))), keep(second & u32(MASK)))
    return result, T.NE(first, u32(0))


def share_of(total: Wide, part: Expr) -> Wide:
    """``ceil(total * part)`` of a float32, exactly, and 1 at least.

    Multiplied with its mantissa, then shifted by its exponent; what is shifted out rounds up. Not
    for parts of 1 and more, which make it anything.
    """
    word = keep(bits(T.max(part, f32(0.0)), "uint32"))
    mantissa = keep((word & u32(0x7FFFFF)) | u32(0x800000))
    whole, more = scale(total, mantissa << u32(8))
    left = local((3,), "uint32")
    for i, value in enumerate((whole.hi, whole.lo, T.Select(more, u32(1), u32(0)))):
        store(left, value, i)
    with T.serial(0, keep(T.max(0, T.min(126 - i32(word >> u32(23)), 2 * SHIFT + 8)))):
        store(left, left[2] | (left[1] & u32(1)), 2)
        store(left, (left[1] >> u32(1)) | ((left[0] & u32(1)) << u32(SHIFT - 1)), 1)
        store(left, left[0] >> u32(1), 0)
    share = add(Wide(keep(left[0]), keep(left[1])), wide_of(keep(left[2])))
    nothing = T.And(T.EQ(share.hi, u32(0)), T.EQ(share.lo, u32(0)))
    return select(nothing, wide_of(u32(1)), share)
