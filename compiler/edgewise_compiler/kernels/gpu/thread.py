"""Building GPU kernels in plain Python: what a thread sees, and what a workgroup's threads share.

A kernel is a TIR function whose body one thread runs. It is written for no language: it computes in
TIR and in the neutral operations of `operations.py`, which a target spells
(`targets/webgpu/spelling.py`) before TVM's code generator for its language prints them. What that
module says of vectors is what lets a language have them lane by lane.

What keeps results equal in a program:
  * A product that is added to anything goes through :func:`fma`, never through ``*`` and ``+``:
    a driver may or may not fuse those, and may decide anew in each kernel.
  * Every sum has one order, whatever rows or workgroups stand beside it.
  * A value used twice is bound (:func:`bind`) or kept in a register (:func:`local`); nothing
    simplifies floats as if they were real numbers.

What every target asks: buffers, threads, shared memory and workgroups within its limits
(`limits.py`), which are checked when its code is generated, and no z in a grid; barriers and every
subgroup operation only where all threads of the workgroup come along (to `mma`, of the subgroup). A
condition is the same for all threads if it follows from the workgroup's ids and from buffers that
the kernel only reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tvm.ir import Expr as TirExpr
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, PrimFunc

from edgewise_compiler.kernels.function import Arg
from edgewise_compiler.kernels.gpu.operations import PREFIX, call, dtype_of, number, u32
from edgewise_compiler.kernels.indices import beyond, refusal
from edgewise_compiler.kernels.ranges import Range
from edgewise_runtime.format import expr
from edgewise_runtime.format.expr import Expr

_CALLS = {f"{PREFIX}subgroup_size": Range(4, 128)}
"""What operations give that indices follow from."""


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


def kernel(
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
        arguments: buffers in binding order. A dtype may be a vector (``float32x4``);
            the last extent then counts vectors. No two overlap in memory.
        threads: threads of a workgroup.
        grid: workgroups in x and y over the step symbols, see `Launch`.
        bounds: the most each symbol of the grid can be.
        subgroups: whether it uses subgroup operations; the name must say so too.

    Raises:
        UnsupportedError: ``unsupported.index`` where an index may be more than 32 bits hold.
    """
    ranges = {symbol: (1, most) for symbol, most in bounds.items()}
    most = tuple(expr.bounds(extent, ranges)[1] for extent in grid)
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
    function = builder.get()
    symbols = {f"blockIdx.{axis}": expr.symbols(e) for axis, e in zip("xy", grid, strict=True)}
    held = [argument.holds for argument in arguments]
    for where, found in beyond(function, held, symbols, _CALLS):
        # No GPU language counts elements in 64 bits.
        raise refusal(name, where, found)
    return Launch(function, grid)


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
    T.evaluate(call("barrier", "int32"))


def buffer_barrier() -> None:
    """Waits for all threads of the workgroup; what they stored in buffers is seen by them then."""
    T.evaluate(call("buffer_barrier", "int32"))


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


def subgroup_size() -> TirExpr:
    """Threads of this thread's subgroup, uint32: a power of two from 4 to 128.

    Subgroups are consecutive threads of the workgroup (a device without that does not offer
    programs that need subgroups), so ``t % subgroup_size()`` is the place in the subgroup.
    """
    return T.bind(call("subgroup_size", "uint32"))


def shuffle_xor(value: TirExpr, mask: int) -> TirExpr:
    """``value`` of the thread whose place in the subgroup differs by ``mask``.

    Where the subgroup is not larger than ``mask`` the result is anything.
    """
    return T.bind(call("shuffle_xor", dtype_of(value), value, u32(mask)))
