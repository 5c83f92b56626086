"""The generated host function of a plan: every kernel in order, k times, in one call.

One call a burst releases the interpreter lock once, whatever another Python thread is doing. The
function only hands tensors on: it takes each typed view as an argument and makes none, which keeps
it small enough to compile without optimization.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T
from tvm.tirx import PrimFunc

from edgewise_runtime.format.abi import SEQUENCES, STEP_WIDTH, STOP

CALLEE = "__tvm_ffi_{}"
"""How TVM names the function a library exports for a kernel."""


@dataclass(frozen=True)
class StopTable:
    """Which arguments of the host function are ``step`` and ``table``, and the table's shape."""

    step: int
    table: int
    shape: tuple[int, int]


@dataclass(frozen=True)
class HostCall:
    """One kernel call: the kernel's symbol, and which arguments of the host function it gets."""

    symbol: str
    arguments: tuple[int, ...]


def host_function(
    symbol: str,
    count: int,
    calls: Sequence[HostCall],
    *,
    table: StopTable | None = None,
) -> PrimFunc:
    """Generate ``symbol(tensor 0, …, tensor count - 1, k)``: the calls in order, k times.

    Args:
        table: where the sequences stand. A repetition in which every live row has its stop field
            set does nothing, so a burst ends early without asking anyone.
    """
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name(symbol)
        T.func_attr({"global_symbol": symbol, "tirx.is_scheduled": True})
        tensors: list[Any] = [T.arg(f"h{i}", T.handle()) for i in range(count)]
        k = T.arg("k", T.int32())
        running = _running_rows(tensors, table) if table is not None else None
        with T.serial(0, k):
            if running is None:
                _emit(calls, tensors)
            else:
                with T.If(running() > 0), T.Then():
                    _emit(calls, tensors)
    return builder.get()


def _emit(calls: Sequence[HostCall], tensors: Sequence[Any]) -> None:
    for call in calls:
        arguments = (tensors[i] for i in call.arguments)
        T.evaluate(T.call_cpacked(relay_symbol(call.symbol), *arguments))


def _running_rows(tensors: list[Any], table: StopTable) -> Callable[[], Any]:
    """Emits the count of live rows that have not stopped; the result is an int32 expression."""
    step = T.match_buffer(tensors[table.step], (STEP_WIDTH,), "int32")
    rows = T.match_buffer(tensors[table.table], table.shape, "int32")
    # A handle that was matched with a buffer is its data from then on, no longer the tensor.
    tensors[table.step], tensors[table.table] = step, rows
    live = T.sblock_alloc_buffer((1,), "int32")

    def count() -> Any:
        T.buffer_store(live, 0, [0])
        with T.serial(0, step[SEQUENCES]) as row:
            T.buffer_store(live, live[0] + T.Cast("int32", rows[row, STOP] == 0), [0])
        return live[0]

    return count


def relay_symbol(kernel: str) -> str:
    """The symbol of the relay of ``kernel``."""
    return f"call_{kernel}"


def relay_function(kernel: str, count: int) -> PrimFunc:
    """Generate ``call_<kernel>``, which hands its arguments to a kernel of another object file.

    TVM finds a callee among the functions of the module it compiles, or else declares it anew at
    every call. So each kernel is called from one place only, this one.
    """
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name(relay_symbol(kernel))
        T.func_attr({"global_symbol": relay_symbol(kernel), "tirx.is_scheduled": True})
        handles = [T.arg(f"h{i}", T.handle()) for i in range(count)]
        T.evaluate(T.call_cpacked(CALLEE.format(kernel), *handles))
    return builder.get()
