"""What GPU kernels compute with: TIR, and neutral operations for what TIR has no word for.

A neutral operation is a call of ``ew.NAME`` in TIR. Its element type and lanes are its dtype and
those of its arguments, so that every language can spell it; `OPERATIONS` says what each means, and
the table of a target (`targets/webgpu/spelling.py`) how its language writes it.

Vectors have two or four lanes of float32, float16 or uint32. They are loaded, stored, bound and
built by `splat`, `vector_of`, `join` and `unpack_halves`; TIR's own arithmetic, which also takes a
scalar for all lanes, and the operations that work lane by lane combine them; `lane` and
`pack_halves` take them apart. There is no vector condition and no ``T.Select`` of vectors
(`select` is one operation). So a language without vectors, or whose printer writes a call once per
lane, can be given each vector as its lanes before anything is spelled: what works lane by lane
becomes one operation a lane, and the rest only says which lanes are which.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import DataType, tirx
from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T

from edgewise_compiler.kernels.numbers import (
    CLAMP,
    CLAMPED_ALPHA,
    GELU_CUBE,
    GELU_EXPONENT,
    INFINITY_BITS,
    LOG2E,
)

PREFIX = "ew."
"""What the names of neutral operations begin with in TIR."""

_LARGEST_EXPONENT = 126.0


@dataclass(frozen=True)
class Operation:
    """A neutral operation.

    Attributes:
        meaning: what it gives.
        lanewise: each lane of the result follows from the same lane of the arguments, and from
            arguments without lanes.
        pure: it may be written anywhere, or nowhere where its result is not used. The others stay
            where they are, and all threads of a workgroup must come to them.
    """

    meaning: str
    lanewise: bool = False
    pure: bool = True


OPERATIONS: Mapping[str, Operation] = {
    "fma": Operation("a*b + c of floats, rounded once", lanewise=True),
    "exp2": Operation("2**x of a float from -126 on", lanewise=True),
    "round": Operation("the nearest whole float, of two the even one", lanewise=True),
    "abs": Operation("|x| of a float", lanewise=True),
    "inverse_sqrt": Operation("1/sqrt(x) of a float", lanewise=True),
    "bits": Operation("the bits of 32-bit elements as another 32-bit type", lanewise=True),
    "select": Operation("of (condition, a, b) a where the scalar condition holds", lanewise=True),
    "splat": Operation("a vector that has a scalar in every lane"),
    "vector": Operation("a vector of as many scalars as it has lanes"),
    "join": Operation("the lanes of one vector, then those of another"),
    "unpack_halves": Operation("the two float16 in a uint32 as float32x2, the low half first"),
    "pack_halves": Operation("a float32x2, each within float16's range, as they are unpacked"),
    "dot_int8": Operation("the products of the four int8 in each of two uint32, added up in int32"),
    "subgroup_size": Operation("how many threads this thread's subgroup has, uint32", pure=False),
    "shuffle_xor": Operation("of (value, mask) the value of the thread t ^ mask", pure=False),
    "barrier": Operation("waits for the workgroup and its shared memory; int32", pure=False),
    "buffer_barrier": Operation(
        "waits for the workgroup and its stores to buffers; int32", pure=False
    ),
}
"""Every neutral operation that every language spells, by its name without `PREFIX`."""

MATRIX_OPERATIONS: Mapping[str, Operation] = {
    "mma": Operation("a matrix times another, by a subgroup's threads together: `mma`", pure=False),
}
"""Those of languages with instructions for matrices. Kernels that have them are made for these."""


def call(name: str, dtype: str, *arguments: Expr) -> Expr:
    """A call of the neutral operation ``name`` that returns ``dtype``."""
    operation = OPERATIONS.get(name) or MATRIX_OPERATIONS[name]
    make = tirx.call_pure_extern if operation.pure else tirx.call_extern
    return make(dtype, PREFIX + name, *arguments)


def number(value: float, dtype: str = "float32") -> Expr:
    """A constant, rounded to ``dtype``; vectors splat. Every float in a kernel comes through here.

    TVM keeps floats in double precision and prints seven digits of them, and a float32 can take
    nine: where seven do not say which one is meant, its bits do.
    """
    kind = DataType(dtype)
    if kind.lanes > 1:
        return splat(number(value, str(kind.with_lanes(1))), kind.lanes)
    rounded = np.dtype(dtype).type(value)
    if dtype == "float32" and np.float32(f"{rounded:.6e}") != rounded:
        return bits(tirx.const(int(rounded.view(np.uint32)), "uint32"), "float32")
    return tirx.const(rounded.item(), dtype)


def i32(value: Any) -> Expr:
    """An int32: a constant, or a conversion."""
    return _converted(value, "int32")


def u32(value: Any) -> Expr:
    """A uint32: a constant, or a conversion."""
    return _converted(value, "uint32")


def f32(value: Any) -> Expr:
    """A float32: a constant, or a conversion."""
    return _converted(value, "float32")


def cast(value: Expr, dtype: str) -> Expr:
    """``value`` converted lane by lane to the element type ``dtype``."""
    return T.Cast(_with_lanes(dtype, lanes_of(value)), value)


def bits(value: Expr, dtype: str) -> Expr:
    """The bits of ``value`` as the 32-bit element type ``dtype``."""
    return call("bits", _with_lanes(dtype, lanes_of(value)), value)


def fma(a: Expr, b: Expr, c: Expr) -> Expr:
    """``a * b + c``, by the same instruction wherever it is written."""
    return call("fma", dtype_of(c), a, b, c)


def select(condition: Expr, a: Expr, b: Expr) -> Expr:
    """The vector ``a`` where the scalar ``condition`` holds, else ``b``. Both are computed."""
    return call("select", dtype_of(a), condition, a, b)


def nearest(x: Expr) -> Expr:
    """``x`` rounded to the nearest whole number, of two to the even one."""
    return call("round", dtype_of(x), x)


def magnitude(x: Expr) -> Expr:
    """``|x|``."""
    return call("abs", dtype_of(x), x)


def larger(a: Expr, b: Expr) -> Expr:
    """The larger of two float32 that are not negative, NaN above all: `T.max` may drop it."""
    return bits(T.max(bits(a, "uint32"), bits(b, "uint32")), "float32")


def inverse_sqrt(x: Expr) -> Expr:
    """``1 / sqrt(x)``, as exact as the device's own."""
    return call("inverse_sqrt", dtype_of(x), x)


def splat(scalar: Expr, lanes: int = 4) -> Expr:
    """A vector that has ``scalar`` in every lane."""
    return call("splat", f"{dtype_of(scalar)}x{lanes}", scalar)


def vector_of(*scalars: Expr) -> Expr:
    """A vector of these lanes."""
    return call("vector", f"{dtype_of(scalars[0])}x{len(scalars)}", *scalars)


def join(low: Expr, high: Expr) -> Expr:
    """The lanes of ``low``, then those of ``high``."""
    scalar = str(DataType(dtype_of(low)).with_lanes(1))
    return call("join", f"{scalar}x{lanes_of(low) + lanes_of(high)}", low, high)


def lane(vector: Expr, index: int) -> Expr:
    """One element of a vector."""
    return tirx.Shuffle([vector], [index])


def exp2(x: Expr) -> Expr:
    """2**x with the argument held at -126 and above. Not exactly 1 at 0 on every device."""
    return call("exp2", dtype_of(x), T.max(x, number(-126.0, dtype_of(x))))


def silu(x: Expr) -> Expr:
    """``x / (1 + exp(-x))`` in float32, without an infinity on the way."""
    x = T.bind(x)
    power = exp2(T.min(x * number(-LOG2E), number(_LARGEST_EXPONENT)))
    return T.bind(x / (number(1.0) + power))


def gelu_tanh(x: Expr) -> Expr:
    """``x / (1 + exp(-2*u))`` of ``u = sqrt(2/pi) * (x + 0.044715*x**3)``, likewise."""
    x = T.bind(x)
    cubic = T.bind(fma(x * x, number(GELU_CUBE), number(1.0)))
    power = exp2(T.min(x * cubic * number(-GELU_EXPONENT), number(_LARGEST_EXPONENT)))
    return T.bind(x / (number(1.0) + power))


def given(value: Expr) -> Callable[[], Expr]:
    """What gives ``value``, for `GATED` and `GATES`."""
    return lambda: value


def clamped_silu(gate: Expr, make_up: Callable[[], Expr]) -> Expr:
    """``g / (1 + exp(-1.702 * g)) * (1 + u)`` of ``g = min(gate, 7)`` and ``u`` of ``up`` within
    -7 and 7; NaN stays NaN."""
    gate, up = T.bind(gate), T.bind(make_up())
    # Chosen by comparisons that do not hold for NaN: `T.min` may drop it.
    gate = T.bind(T.Select(gate > number(CLAMP), number(CLAMP), gate))
    up = T.bind(T.Select(up > number(CLAMP), number(CLAMP), up))
    up = T.bind(T.Select(up < number(-CLAMP), number(-CLAMP), up))
    power = exp2(T.min(gate * number(-CLAMPED_ALPHA * LOG2E), number(_LARGEST_EXPONENT)))
    return T.bind(T.bind(gate / (number(1.0) + power)) * (up + number(1.0)))


GATED: Mapping[str, Callable[[Expr, Callable[[], Expr]], Expr]] = {
    "silu": lambda gate, up: silu(gate) * up(),
    "gelu_tanh": lambda gate, up: gelu_tanh(gate) * up(),
    "clamped_silu": clamped_silu,
}
"""What becomes of a gate and what it gates, which is computed after it, by the activation."""
GATES = {
    "swiglu": GATED["silu"],
    "geglu": GATED["gelu_tanh"],
    "clamped": GATED["clamped_silu"],
}
"""The same by a linear's epilogue."""


def softcapped(x: Expr, cap: float) -> Expr:
    """``cap * tanh(y)`` of a float32 ``x = 2*y*log2(e)``; what is not finite stays so."""
    x = T.bind(x)
    most = T.max(T.min(x, number(_LARGEST_EXPONENT)), number(-_LARGEST_EXPONENT))
    rest = T.bind(number(2 * cap) / (number(1.0) + exp2(most)))
    finite = (bits(x, "uint32") & u32(0x7FFFFFFF)) < u32(INFINITY_BITS)
    return T.bind(T.Select(finite, number(cap) - rest, x))


def unpack_halves(word: Expr) -> Expr:
    """The two float16 in a uint32 as float32x2, the low half first, without float16 arithmetic."""
    return call("unpack_halves", "float32x2", word)


def pack_halves(low: Expr, high: Expr) -> Expr:
    """Two float32 as float16 in a uint32; beyond 65504 the result is anything."""
    return call("pack_halves", "uint32", vector_of(low, high))


def dot_int8(a: Expr, b: Expr) -> Expr:
    """The sum of the products of four int8 in each of two uint32, exactly, int32."""
    return call("dot_int8", "int32", a, b)


def mma(a: Expr, b: Expr, c: Expr) -> Expr:
    """``C + A @ B`` of a subgroup of 32 threads: A is 16 by 16, B 16 by 8, C as the result.

    Each thread has a part of each. ``g`` is its place in the subgroup over 4, and ``t`` the rest:

        a, uint32x4 of two float16: A[g, 2t], A[g + 8, 2t], A[g, 2t + 8], A[g + 8, 2t + 8]
        b, uint32x2 of two float16: B[2t, g], B[2t + 8, g]
        c, float32x4: C[g, 2t], C[g, 2t + 1], C[g + 8, 2t], C[g + 8, 2t + 1]

    where of two float16 the low half is the element that is named, and the high half the next one
    along A's row or B's column: PTX's m16n8k16 (PTX ISA, "Matrix Fragments for mma.m16n8k16").
    Products are exact; how the 16 of an element and C's are added up is the device's own, but the
    same for the same numbers: nothing of another row or column has a part in it. All threads of the
    subgroup must come to it, and other subgroups need not.
    """
    return call("mma", "float32x4", a, b, c)


def lanes_of(value: Expr) -> int:
    """How many elements ``value`` has; 1 for a scalar."""
    return int(DataType(dtype_of(value)).lanes)


def dtype_of(value: Expr) -> str:
    """The dtype of an expression, lanes included."""
    return str(value.ty)


def _with_lanes(dtype: str, lanes: int) -> str:
    return dtype if lanes == 1 else f"{dtype}x{lanes}"


def _converted(value: Any, dtype: str) -> Expr:
    return number(value, dtype) if isinstance(value, int | float) else T.Cast(dtype, value)
