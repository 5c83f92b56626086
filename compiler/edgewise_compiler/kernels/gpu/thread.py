"""Building GPU kernels in plain Python: what a thread sees, and one spelling per operation.

A kernel is a TIR function whose body one thread runs. It becomes WGSL through
`targets/webgpu/codegen.py`, so operations without a TIR spelling are named as in the WGSL
specification (https://www.w3.org/TR/WGSL/).

What keeps results equal in a program:
  * A product that is added to anything goes through :func:`fma`, never through ``*`` and ``+``:
    a driver may or may not fuse those, and may decide anew in each kernel.
  * Every sum has one order, whatever rows or workgroups stand beside it.
  * A value used twice is bound (:func:`bind`) or kept in a register (:func:`local`); nothing
    simplifies floats as if they were real numbers.

What WebGPU asks: at most 8 buffers, 16 KiB of shared memory and 256 threads a kernel, at most
65,535 workgroups in x and in y (there is no z); :func:`barrier` and every subgroup operation only
where all threads of the workgroup come along. A condition is the same for all threads if it follows
from the workgroup's ids and from buffers that the kernel only reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import DataType, tirx
from tvm.ir import Expr as TirExpr
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, PrimFunc

from edgewise_compiler.kernels.function import Arg
from edgewise_runtime.errors import CompileError
from edgewise_runtime.format import expr
from edgewise_runtime.format.expr import Expr

MAX_ARGUMENTS = 8
MAX_THREADS = 256
MAX_SHARED = 16 << 10  # bytes
MAX_WORKGROUPS = 65535

LOG2E = 1.4426950408889634
_LARGEST_EXPONENT = 126.0

_WGSL = {"float32": "f32", "float16": "f16", "int32": "i32", "uint32": "u32"}


@dataclass(frozen=True)
class Thread:
    """Where this thread is: workgroup ``x``, ``y`` of the grid, thread ``t`` of the workgroup.

    All int32. ``subgroups`` says whether the kernel may use subgroup operations.
    """

    x: TirExpr
    y: TirExpr
    t: TirExpr
    threads: int
    subgroups: bool


@dataclass(frozen=True)
class Launch:
    """A kernel and how many workgroups it is launched with: x and y, over the step symbols.

    Symbols: ``n`` token rows, ``b`` sequences, ``r`` logit rows, ``t`` the most tokens in KV that
    any sequence of the call can reach.
    """

    function: PrimFunc
    grid: tuple[Expr, Expr]

    @property
    def name(self) -> str:
        """The kernel's symbol."""
        return str(self.function.attrs["global_symbol"])

    def workgroups(self, **symbols: int) -> tuple[int, int]:
        """The grid at these values of the symbols."""
        x, y = (expr.evaluate(extent, symbols) for extent in self.grid)
        return x, y


def gpu_kernel(
    name: str,
    arguments: Sequence[Arg],
    body: Callable[..., None],
    *,
    threads: int,
    grid: tuple[Expr, Expr],
    bounds: Mapping[str, int],
    subgroups: bool = False,
) -> Launch:
    """The kernel ``name``, whose ``body(thread, *buffers)`` is what one thread does.

    Args:
        arguments: buffers in binding order, at most 8. A dtype may be a vector (``float32x4``);
            the last extent then counts vectors. No two overlap in memory.
        threads: threads of a workgroup.
        grid: workgroups in x and y over the step symbols, see `Launch`.
        bounds: the most each symbol of the grid can be.
        subgroups: whether it needs the WebGPU feature ``subgroups``; the name must say so too.

    Raises:
        CompileError: it is beyond WebGPU's default limits.
    """
    ranges = {symbol: (1, most) for symbol, most in bounds.items()}
    most = tuple(expr.bounds(extent, ranges)[1] for extent in grid)
    if len(arguments) > MAX_ARGUMENTS or threads > MAX_THREADS or max(most) > MAX_WORKGROUPS:
        raise CompileError(
            f"Kernel {name!r} has {len(arguments)} buffers, {threads} threads and up to "
            f"{most[0]} x {most[1]} workgroups; WebGPU allows {MAX_ARGUMENTS}, {MAX_THREADS} and "
            f"{MAX_WORKGROUPS} each way.",
            code="compile.limits",
        )
    with IRBuilder() as builder:
        with T.prim_func(s_tir=True):
            T.func_name(name)
            attributes = {"global_symbol": name, "tirx.noalias": True, "tirx.is_scheduled": True}
            T.func_attr({**attributes, "edgewise.subgroups": subgroups})
            buffers = [
                # TVM hands a kernel its buffers in the order of their names.
                T.arg(f"b{i}_{arg.name}", T.buffer(arg.shape, arg.dtype))
                for i, arg in enumerate(arguments)
            ]
            with (
                T.launch_thread("blockIdx.x", most[0]) as x,
                T.launch_thread("blockIdx.y", most[1]) as y,
                T.launch_thread("threadIdx.x", threads) as t,
                T.sblock("body"),
            ):
                T.reads()
                T.writes()
                body(Thread(x, y, t, threads, subgroups), *buffers)
    return Launch(builder.get(), grid)


def shared(shape: Sequence[int], dtype: str = "float32") -> Buffer:
    """Memory that the threads of a workgroup share; its contents are undefined at first."""
    return T.sblock_alloc_buffer(tuple(shape), dtype, scope="shared")


def local(shape: Sequence[int], dtype: str = "float32") -> Buffer:
    """Registers of this thread. Read with ``r[i]``, write with :func:`store`."""
    return T.sblock_alloc_buffer(tuple(shape), dtype, scope="local")


def store(buffer: Buffer, value: Any, *index: Any) -> None:
    """``buffer[index] = value``; a Python number takes the buffer's type."""
    if isinstance(value, int | float):
        value = number(value, str(buffer.dtype))
    T.buffer_store(buffer, value, list(index))


def barrier() -> None:
    """Waits for all threads of the workgroup; what they stored in shared memory is seen then."""
    T.evaluate(T.tvm_storage_sync("shared"))


def bind(value: TirExpr) -> TirExpr:
    """Computes ``value`` here, once."""
    return T.bind(value)


def keep(value: TirExpr) -> TirExpr:
    """Computes ``value`` here, once, into a register that TVM's analyzers do not look through.

    For long chains of integers: what is bound they take in again at every use, without limit.
    """
    register = T.sblock_alloc_buffer((1,), dtype_of(value), scope="local")
    T.buffer_store(register, value, [0])
    return register[0]


@contextmanager
def when(condition: TirExpr) -> Iterator[None]:
    """What is emitted inside runs only if ``condition`` holds."""
    with T.If(condition), T.Then():
        yield


def number(value: float, dtype: str = "float32") -> TirExpr:
    """A constant, rounded to ``dtype``; vectors splat. Every float in a kernel comes through here.

    TVM keeps floats in double precision and prints seven digits of them, and a float32 can take
    nine: where seven do not say which one is meant, its bits do.
    """
    kind = DataType(dtype)
    if kind.lanes > 1:
        scalar = number(value, str(kind.with_lanes(1)))
        return wgsl(dtype, type_name(dtype), scalar)
    rounded = np.dtype(dtype).type(value)
    if dtype == "float32" and np.float32(f"{rounded:.6e}") != rounded:
        return wgsl(dtype, "bitcast<f32>", tirx.const(int(rounded.view(np.uint32)), "uint32"))
    return tirx.const(rounded.item(), dtype)


def i32(value: Any) -> TirExpr:
    """An int32: a constant, or a conversion."""
    return _converted(value, "int32")


def u32(value: Any) -> TirExpr:
    """A uint32: a constant, or a conversion."""
    return _converted(value, "uint32")


def f32(value: Any) -> TirExpr:
    """A float32: a constant, or a conversion."""
    return _converted(value, "float32")


def cast(value: TirExpr, dtype: str) -> TirExpr:
    """``value`` converted lane by lane to the element type ``dtype``."""
    lanes = lanes_of(value)
    return T.Cast(dtype if lanes == 1 else f"{dtype}x{lanes}", value)


def bits(value: TirExpr, dtype: str) -> TirExpr:
    """The bits of ``value`` as the 32-bit element type ``dtype``."""
    lanes = lanes_of(value)
    full = dtype if lanes == 1 else f"{dtype}x{lanes}"
    return wgsl(full, f"bitcast<{type_name(full)}>", value)


def wgsl(dtype: str, name: str, *arguments: TirExpr) -> TirExpr:
    """A call of the WGSL builtin ``name``, which has no side effects, returning ``dtype``."""
    return tirx.call_pure_extern(dtype, name, *arguments)


def fma(a: TirExpr, b: TirExpr, c: TirExpr) -> TirExpr:
    """``a * b + c``, by the same instruction wherever it is written."""
    return wgsl(dtype_of(c), "fma", a, b, c)


def vec4(*parts: TirExpr) -> TirExpr:
    """A vector of four scalars, or of one four times."""
    dtype = f"{dtype_of(parts[0])}x4"
    return wgsl(dtype, type_name(dtype), *parts)


def lane(vector: TirExpr, index: int) -> TirExpr:
    """One element of a vector."""
    return tirx.Shuffle([vector], [index])


def exp2(x: TirExpr) -> TirExpr:
    """2**x with the argument held at -126 and above. Not exactly 1 at 0 on every device."""
    return wgsl(dtype_of(x), "exp2", T.max(x, number(-126.0, dtype_of(x))))


def silu(x: TirExpr) -> TirExpr:
    """``x / (1 + exp(-x))`` in float32, without an infinity on the way."""
    x = bind(x)
    power = exp2(T.min(x * number(-LOG2E), number(_LARGEST_EXPONENT)))
    return bind(x / (number(1.0) + power))


def half2(word: TirExpr) -> TirExpr:
    """The two float16 in a uint32 as float32x2, the low half first, without ``shader-f16``."""
    return wgsl("float32x2", "unpack2x16float", word)


def subgroup_size() -> TirExpr:
    """Threads of this thread's subgroup, uint32: a power of two from 4 to 128.

    Subgroups are consecutive threads of the workgroup (a device without that does not offer
    programs that need subgroups), so ``t % subgroup_size()`` is the place in the subgroup.
    """
    return T.bind(tirx.call_extern("uint32", "subgroupAdd", u32(1)))


def shuffle_xor(value: TirExpr, mask: int) -> TirExpr:
    """``value`` of the thread whose place in the subgroup differs by ``mask``.

    Where the subgroup is not larger than ``mask`` the result is anything.
    """
    return T.bind(tirx.call_extern(dtype_of(value), "subgroupShuffleXor", value, u32(mask)))


def lanes_of(value: TirExpr) -> int:
    """How many elements ``value`` has; 1 for a scalar."""
    return int(DataType(dtype_of(value)).lanes)


def dtype_of(value: TirExpr) -> str:
    """The dtype of an expression, lanes included."""
    return str(value.ty)


def type_name(dtype: str) -> str:
    """A dtype as WGSL spells it: ``float32x4`` is ``vec4<f32>``."""
    kind = DataType(dtype)
    scalar = _WGSL[str(kind.with_lanes(1))]
    return scalar if kind.lanes == 1 else f"vec{kind.lanes}<{scalar}>"


def _converted(value: Any, dtype: str) -> TirExpr:
    return number(value, dtype) if isinstance(value, int | float) else T.Cast(dtype, value)
