"""Building TIR functions in plain Python, where a helper is an ordinary function."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from tvm.ir import Expr
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, PrimFunc

from edgewise_runtime.format.abi import ROWS, STEP_WIDTH

# Live rows from which a parallel launch (about a microsecond) is worth its price.
PARALLEL_ROWS = 8


class Arg(NamedTuple):
    """A buffer argument of a kernel: its name, element type and static shape."""

    name: str
    dtype: str
    shape: tuple[int, ...]


STEP = Arg("step", "int32", (STEP_WIDTH,))


def kernel(name: str, arguments: Sequence[Arg], body: Callable[..., None]) -> PrimFunc:
    """The PrimFunc ``name``, whose ``body`` gets the buffers of ``arguments`` in that order.

    No two arguments overlap in memory, and TVM schedules nothing: the body is what runs.
    """
    with IRBuilder() as builder:
        with T.prim_func(s_tir=True):
            T.func_name(name)
            T.func_attr({"global_symbol": name, "tirx.noalias": True, "tirx.is_scheduled": True})
            body(*(T.arg(arg.name, T.buffer(arg.shape, arg.dtype)) for arg in arguments))
    return builder.get()


@contextmanager
def block(name: str) -> Iterator[None]:
    """An sblock that declares no regions: the home of registers and of hand-written code."""
    with T.sblock(name):
        T.reads()
        T.writes()
        yield


def live_rows(step: Buffer, index: int, bound: int) -> Expr:
    """``step[index]``, kept within 0 and the rows the buffers have."""
    return T.bind(T.max(0, T.min(step[index], bound)))


def for_rows(n: Expr, bound: int, body: Callable[[Any], None]) -> None:
    """Runs ``body(row)`` for ``n`` independent rows (at most ``bound``), on all threads if many."""

    def loop(frame: Callable[[Any], Any]) -> None:
        with frame(n) as row, block("row"):
            body(row)

    if bound < PARALLEL_ROWS:
        loop(T.serial)
        return
    with T.If(n < PARALLEL_ROWS):
        with T.Then():
            loop(T.serial)
        with T.Else():
            loop(T.parallel)


def count_suffix(count: int) -> str:
    """The part of a kernel's name that tells which field of ``step`` counts its rows."""
    return "" if count == ROWS else f"_s{count}"


def symbol(kind: str, *parts: object) -> str:
    """A symbol for a kernel and its constants, with characters every linker takes."""
    text = "_".join((kind, *(str(part) for part in parts)))
    return text.replace(".", "p").replace("-", "m").replace("+", "")
