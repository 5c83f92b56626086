"""Vectors inside CPU kernels: one spelling per operation, bit-equal on every instruction set.

Functions here build TIR. Those that need intermediate values keep them in registers (``let``) of
the innermost sblock under construction, so they work in plain IR-builder code and inside TVMScript
alike, but only inside an sblock. ``isa`` is the name of an instruction set (kernels/cpu/isa.py).

What keeps results equal everywhere:
  * LLVM fuses ``a*b+c`` on targets that can and not on others. A product that is added to anything
    goes through :func:`fma`, never through ``*`` and ``+``.
  * TVM simplifies floats as if they were real numbers (``x+y-x`` becomes ``y``) and substitutes
    pure ``T.let`` bindings into their uses, without limit. Intermediate values therefore go through
    :func:`let`, which neither looks through.
  * A float sum over lanes is :func:`lane_sum`, whose tree is fixed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np
from tvm import DataType, tirx
from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer

from edgewise_compiler.kernels.cpu.isa import isa_named
from edgewise_compiler.kernels.numbers import (
    CLAMP,
    CLAMPED_ALPHA,
    EXP2,
    GELU_CUBE,
    GELU_EXPONENT,
    INFINITY_BITS,
    LN2,
    LOG2E,
    SQRT_HALF_BITS,
)

LANES = 16

# 1.5 * 2**23: adding it to |x| < 2**22 leaves rint(x), ties to even, in the low mantissa bits.
_ROUND = 12582912.0
_ROUND_BITS = 0x4B400000


def register(value: Expr) -> Buffer:
    """A register that holds ``value`` for now: read it with ``load(r, 0)``, ``store(r, new, 0)``.

    It is a local buffer of the innermost sblock, which LLVM promotes.
    """
    lanes = lanes_of(value)
    buffer = T.sblock_alloc_buffer((lanes,), str(DataType(_dtype(value)).with_lanes(1)))
    store(buffer, value, 0)
    return buffer


def let(value: Expr) -> Expr:
    """Keeps ``value`` in a register: computed here, once, and opaque to TVM's simplifier.

    Indices belong in ``T.let`` instead, where TVM can see their bounds and alignment.
    """
    return load(register(value), 0, lanes=lanes_of(value))


def splat(value: Any, lanes: int = LANES, dtype: str = "float32") -> Expr:
    """A vector whose lanes all hold ``value`` (a Python number of ``dtype``, or a scalar).

    Numbers are rounded to ``dtype`` here: TVM keeps a float32 constant in double precision and
    would fold the unrounded one into a conversion to float64, as the emulated :func:`fma` makes.
    """
    scalar = value
    if isinstance(value, int | float):
        scalar = tirx.const(np.dtype(dtype).type(value).item(), dtype)
    return scalar if lanes == 1 else T.broadcast(scalar, lanes)


def load(buffer: Buffer, *index: Any, lanes: int = LANES) -> Expr:
    """``lanes`` consecutive elements of ``buffer`` from ``index`` on, along the last axis."""
    *outer, last = index
    return tirx.BufferLoad(buffer, [*outer, _run(last, lanes)])


def store(buffer: Buffer, value: Expr, *index: Any) -> None:
    """Stores all lanes of ``value`` from ``index`` on, along the last axis."""
    *outer, last = index
    T.buffer_store(buffer, value, [*outer, _run(last, lanes_of(value))])


def lanes_of(value: Expr) -> int:
    """How many lanes ``value`` has; 1 for a scalar."""
    return int(DataType(_dtype(value)).lanes)


def bits(value: Expr, dtype: str) -> Expr:
    """The bits of ``value`` as ``dtype`` (an element type; the lanes follow from the width)."""
    have, want = DataType(_dtype(value)), DataType(dtype)
    lanes = have.bits * have.lanes // want.bits
    return T.reinterpret(dtype if lanes == 1 else f"{dtype}x{lanes}", value)


def cast(value: Expr, dtype: str) -> Expr:
    """``value`` converted lane by lane. Not between float16 and float32: see :func:`widen`."""
    lanes = lanes_of(value)
    return T.Cast(dtype if lanes == 1 else f"{dtype}x{lanes}", value)


def llvm(dtype: str, name: str, *arguments: Expr) -> Expr:
    """Calls the LLVM intrinsic ``name``, which must be free of side effects."""
    return T.call_llvm_pure_intrin(dtype, name, *arguments)


def fma(a: Expr, b: Expr, c: Expr, isa: str) -> Expr:
    """``a*b + c`` in float32 with one rounding.

    Where no instruction does it: the product of two floats is exact in double precision; the sum is
    rounded to odd there (its error is known from Knuth's TwoSum), which makes the final rounding to
    float32 the only one that shows (S. Boldo, G. Melquiond, "Emulation of FMA and correctly rounded
    sums: proved algorithms using rounding to odd", IEEE Trans. Computers 57(4), 2008).
    """
    if isa_named(isa).fused:
        return llvm(_dtype(a), "llvm.fma", a, b, c)
    lanes = lanes_of(a)
    one, none = splat(1, lanes, "uint64"), splat(0, lanes, "uint64")
    zero = splat(0.0, lanes, "float64")
    product = let(cast(a, "float64") * cast(b, "float64"))
    addend = let(cast(c, "float64"))
    total = let(product + addend)
    part = let(total - product)
    error = let((product - (total - part)) + (addend - part))
    word = let(bits(total, "uint64"))
    # Ordered comparisons: beside an infinity the error is NaN, and the sum must stay as it is.
    inexact = T.Select(error > zero, one, none) | T.Select(error < zero, one, none)
    moves = let(inexact & (word ^ one))
    down = (bits(error, "uint64") ^ word) >> splat(63, lanes, "uint64")
    odd = word + moves - ((moves & down) << one)
    return cast(bits(odd, "float64"), "float32")


def lane_sum(value: Expr) -> Expr:
    """Sum of the lanes: halves are added until one lane is left (16 lanes: 8, 4, 2, 1)."""
    while (half := lanes_of(value) // 2) > 0:
        value = let(value)
        value = _lanes(value, 0, half) + _lanes(value, half, half)
    return value


def lane_max(value: Expr) -> Expr:
    """Largest lane, by the same tree as :func:`lane_sum`."""
    while (half := lanes_of(value) // 2) > 0:
        value = let(value)
        value = T.max(_lanes(value, 0, half), _lanes(value, half, half))
    return value


def size_bits(value: Expr) -> Expr:
    """Bits of ``|value|``, float32, as int32: in the order of the sizes, and NaN above them all."""
    return bits(T.abs(value), "int32")


def exp2(x: Expr, isa: str) -> Expr:
    """2**x in float32, relative error below 1e-7; exp2(0) is exactly 1.

    The argument is clamped to [-126, 127], so results are never subnormal, zero or infinite. Of NaN
    it is NaN.
    """
    lanes = lanes_of(x)
    # In this order: a comparison with NaN does not hold, and its second operand is what remains.
    x = let(T.min(splat(127.0, lanes), T.max(splat(-126.0, lanes), x)))
    shifted = let(x + splat(_ROUND, lanes))
    part = let(x - (shifted - splat(_ROUND, lanes)))
    power = reduce(
        lambda sum_, term: let(fma(sum_, part, splat(term, lanes), isa)),
        EXP2[1:],
        splat(EXP2[0], lanes),
    )
    # The shift drops all of `shifted` but its integer, which lands on the exponent.
    exponent = bits(shifted, "int32") << splat(23, lanes, "int32")
    return bits(bits(power, "int32") + exponent, "float32")


def ln(x: Expr, isa: str) -> Expr:
    """The natural logarithm of a positive, normal float32, relative error below 2e-7.

    x is 2**e * m with m from sqrt(1/2) to sqrt(2), and ln(m) is 2*atanh((m-1)/(m+1)), of whose
    series five terms are summed: the sixth is below 1e-9.
    """
    lanes = lanes_of(x)
    one = splat(1.0, lanes)
    word = let(bits(x, "int32"))
    shift = splat(23, lanes, "int32")
    exponent = let((word - splat(SQRT_HALF_BITS, lanes, "int32")) >> shift)
    mantissa = let(bits(word - (exponent << shift), "float32"))
    part = let((mantissa - one) / (mantissa + one))
    square, twice = let(part * part), let(part + part)
    series = splat(1 / 9, lanes)
    for divisor in (7, 5, 3):
        series = let(fma(series, square, splat(1 / divisor, lanes), isa))
    rest = let(twice * square)
    inside = let(fma(rest, series, twice, isa))
    return fma(cast(exponent, "float32"), splat(LN2, lanes), inside, isa)


def silu(x: Expr, isa: str) -> Expr:
    """x / (1 + exp(-x)) in float32."""
    lanes = lanes_of(x)
    x = let(x)
    return x / (splat(1.0, lanes) + exp2(x * splat(-LOG2E, lanes), isa))


def gelu_tanh(x: Expr, isa: str) -> Expr:
    """``x * (1 + tanh(u)) / 2`` of ``u = sqrt(2/pi) * (x + 0.044715*x**3)`` in float32, which is
    ``x / (1 + exp(-2*u))``."""
    lanes = lanes_of(x)
    x = let(x)
    cubic = let(fma(x * x, splat(GELU_CUBE, lanes), splat(1.0, lanes), isa))
    power = exp2(x * cubic * splat(-GELU_EXPONENT, lanes), isa)
    return x / (splat(1.0, lanes) + power)


def clamped_silu(gate: Expr, up: Expr, isa: str) -> Expr:
    """``g / (1 + exp(-1.702 * g)) * (1 + u)`` of ``g = min(gate, 7)`` and ``u`` of ``up`` within
    -7 and 7; NaN stays NaN."""
    lanes = lanes_of(gate)
    high, low = splat(CLAMP, lanes), splat(-CLAMP, lanes)
    # In this order: a comparison with NaN does not hold, and its second operand is what remains.
    gate = let(T.min(high, gate))
    up = let(T.min(high, T.max(low, up)))
    power = exp2(gate * splat(-CLAMPED_ALPHA * LOG2E, lanes), isa)
    return let(gate / (splat(1.0, lanes) + power)) * let(up + splat(1.0, lanes))


GATED: Mapping[str, Callable[[Expr, Expr, str], Expr]] = {
    "silu": lambda gate, up, isa: silu(gate, isa) * up,
    "gelu_tanh": lambda gate, up, isa: gelu_tanh(gate, isa) * up,
    "clamped_silu": clamped_silu,
}
"""What becomes of a gate and what it gates, by the activation."""


def softcapped(x: Expr, cap: float, isa: str) -> Expr:
    """``cap * tanh(y)`` in float32 of ``x = 2*y*log2(e)``, off by 1e-7 of ``cap``; what is not
    finite stays so."""
    lanes = lanes_of(x)
    x = let(x)
    rest = splat(2 * cap, lanes) / (splat(1.0, lanes) + exp2(x, isa))
    finite = size_bits(x) < splat(INFINITY_BITS, lanes, "int32")
    return T.Select(finite, splat(cap, lanes) - rest, x)


def shuffle_for(lanes: int, isa: str) -> tuple[str, int] | None:
    """The instruction that `lookup` has for so many words (`Isa.shuffle`); None where it takes a
    step for each code."""
    shuffle = isa_named(isa).shuffle
    return None if shuffle is None or lanes * 4 % shuffle[1] else shuffle


def lookup(codes: Expr, table: Sequence[int], isa: str) -> Expr:
    """Every byte of ``codes``, uint32 words of codes 0 to 15, replaced by a byte of ``table``.

    Args:
        table: 16 numbers from 0 to 255. Without an instruction that looks up as many bytes as there
            are, its steps are added up, each where a code has come to it.
    """
    lanes = lanes_of(codes)
    shuffle = shuffle_for(lanes, isa)
    if shuffle is None:
        each = let(bits(codes, "uint8"))
        count, found = lanes * 4, splat(table[0], lanes * 4, "uint8")
        for code, (below, value) in enumerate(pairwise(table), 1):
            step = splat((value - below) % 256, count, "uint8")
            there = each >= splat(code, count, "uint8")
            found = let(found + T.Select(there, step, splat(0, count, "uint8")))
        return bits(found, "uint32")
    name, width = shuffle
    copies = width // 16
    words = np.array(table, "uint8").view("uint64").tolist()
    halves = [splat(word, copies, "uint64") for word in words]
    order = [half * copies + copy for copy in range(copies) for half in range(2)]
    values = bits(tirx.Shuffle(halves, order), "int8")
    parts = [
        let(llvm(f"int8x{width}", name, values, bits(_lanes(codes, first, width // 4), "int8")))
        for first in range(0, lanes, width // 4)
    ]
    found = [bits(part, "uint32") for part in parts]
    return found[0] if len(found) == 1 else let(tirx.Shuffle(found, list(range(lanes))))


def bent(codes: Expr, bend: int) -> Expr:
    """Every byte of ``codes``, uint32 words of codes below ``4 bend``, as the integer that it names
    (`quantize.codes.Levels`), plus its scheme's zero point."""
    count = lanes_of(codes) * 4

    def bytes_of(value: int) -> Expr:
        return splat(value, count, "uint8")

    each = let(bits(codes, "uint8"))
    # Instruction sets have one that takes off a number and stops at zero: the inner difference.
    inner = T.min(T.max(each, bytes_of(bend)) - bytes_of(bend), bytes_of(2 * bend))
    return bits(let(each + each - inner), "uint32")


def bent_bytes(bend: int) -> tuple[int, ...]:
    """What :func:`bent` makes of each code."""
    return tuple(2 * code - min(max(code - bend, 0), 2 * bend) for code in range(4 * bend))


def rint_bits(x: Expr, scale: Expr, isa: str) -> Expr:
    """``x*scale`` (|product| < 2**22) rounded once, to the nearest integer, ties to even: int32."""
    lanes = lanes_of(x)
    rounded = fma(x, scale, splat(_ROUND, lanes), isa)
    return bits(rounded, "int32") - splat(_ROUND_BITS, lanes, "int32")


def widen(half: Expr, isa: str) -> Expr:
    """float16 to float32, exact; subnormals, infinities and NaN included."""
    if isa_named(isa).half:
        return cast(half, "float32")
    lanes = lanes_of(half)

    def word(value: int) -> Expr:
        return splat(value, lanes, "uint32")

    raw = let(cast(bits(half, "uint16"), "uint32"))
    magnitude = let(raw & word(0x7FFF))
    # float16 has exponent bias 15, float32 127; infinity and NaN need the offset twice.
    offset = T.Select(magnitude >= word(0x7C00), word(0x70000000), word(0x38000000))
    normal = (magnitude << word(13)) + offset
    tiny = cast(cast(magnitude, "int32"), "float32") * splat(2.0**-24, lanes)
    value = T.Select(magnitude < word(0x0400), bits(tiny, "uint32"), normal)
    return bits(value | ((raw & word(0x8000)) << word(16)), "float32")


def narrow(value: Expr, isa: str) -> Expr:
    """float32 to float16, to nearest, ties to even; too large becomes infinite, NaN stays NaN."""
    if isa_named(isa).half:
        return cast(value, "float16")
    lanes = lanes_of(value)

    def word(value: int) -> Expr:
        return splat(value, lanes, "uint32")

    raw = let(bits(value, "uint32"))
    magnitude = let(raw & word(0x7FFFFFFF))
    odd = (magnitude >> word(13)) & word(1)
    normal = (magnitude - word(0x38000000) + word(0xFFF) + odd) >> word(13)
    # Adding 0.5 lets the FPU round at the last place of a float16 subnormal, 2**-24.
    tiny = bits(bits(magnitude, "float32") + splat(0.5, lanes), "uint32") - word(0x3F000000)
    special = T.Select(magnitude > word(0x7F800000), word(0x7E00), word(0x7C00))
    finite = T.Select(magnitude < word(0x38800000), tiny, normal)
    result = T.Select(magnitude >= word(0x47800000), special, finite)
    return bits(cast(result | ((raw >> word(16)) & word(0x8000)), "uint16"), "float16")


def _dtype(value: Expr) -> str:
    return str(value.ty)


def _run(first: Any, lanes: int) -> Any:
    return first if lanes == 1 else T.ramp(first, 1, lanes)


def _lanes(value: Expr, first: int, count: int) -> Expr:
    return tirx.Shuffle([value], list(range(first, first + count)))
