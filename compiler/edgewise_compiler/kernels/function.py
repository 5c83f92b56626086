"""Building TIR functions in plain Python, where a helper is an ordinary function."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

from tvm import tirx
from tvm.ir import Expr
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, PrimFunc

from edgewise_compiler.kernels.indices import beyond, refusal
from edgewise_compiler.kernels.ranges import Range, type_range
from edgewise_runtime.format.abi import (
    AT_FAULT,
    MAX_PAGES,
    NOT_FINITE,
    PAGE_TOKENS,
    RING,
    ROWS,
    STEP_SYMBOLS,
    STEP_WIDTH,
)
from edgewise_runtime.format.state import PAGES

# Live rows from which a parallel launch (about a microsecond) is worth its price.
PARALLEL_ROWS = 8


class Arg(NamedTuple):
    """A buffer argument of a kernel.

    Attributes:
        name, dtype, shape: its name, element type and static shape.
        holds: what integers in it may be that indices follow from: the host's promise, column by
            column and the last for all others. Empty where they may be anything.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    holds: tuple[Range, ...] = ()


class Steps(Protocol):
    """The steps that a kernel is made for: the most rows, sequences and pages of a sequence."""

    @property
    def rows(self) -> int: ...
    @property
    def batch(self) -> int: ...
    @property
    def pages(self) -> int: ...


def _held(count: int, *symbols: str) -> Range:
    """Indices of so many things, which follow from these symbols of a plan."""
    return Range(0, count - 1, frozenset(symbols))


_ANYTHING = type_range(32, signed=True)

STEP = Arg(
    "step",
    "int32",
    (STEP_WIDTH,),
    # Kernels keep what they read of it within their buffers.
    (*(Range(_ANYTHING.low, _ANYTHING.high, frozenset((s,))) for s in STEP_SYMBOLS), _ANYTHING),
)


def table_arg(steps: Steps, pool: int = MAX_PAGES) -> Arg:
    """``table``, whose page ids are those of a pool of so many pages."""
    length = _held(steps.pages * PAGE_TOKENS + 1, "t")
    rows = _held(steps.rows + 1, "n")
    fields = (length, rows, rows, _held(AT_FAULT + 1), length, _held(RING + 1))
    slot, reserved = _held(steps.batch, "b"), _held(1)
    holds = (*fields, slot, reserved, _held(pool, PAGES))
    return Arg("table", "int32", (steps.batch, len(holds) - 1 + steps.pages), holds)


def positions_arg(steps: Steps) -> Arg:
    """``positions``, of each row one."""
    places = _held(steps.pages * PAGE_TOKENS, "t")
    return Arg("positions", "int32", (steps.rows, 1), (places,))


def row_seq_arg(steps: Steps) -> Arg:
    """``row_seq``: whose each row is."""
    return Arg("row_seq", "int32", (steps.rows,), (_held(steps.batch, "b"),))


def tokens_arg(rows: int) -> Arg:
    """``tokens``, none of which is negative."""
    return Arg("tokens", "int32", (rows,), (Range(0, _ANYTHING.high),))


def logit_rows_arg(batch: int, rows: int) -> Arg:
    """``logit_rows``: of which rows logits are wanted."""
    return Arg("logit_rows", "int32", (batch,), (_held(rows, "n"),))


def sampled_arg(batch: int, vocab: int) -> Arg:
    """``sampled``: tokens, or that there is none."""
    return Arg("sampled", "int32", (batch,), (Range(NOT_FINITE, vocab - 1),))


def kernel(name: str, arguments: Sequence[Arg], body: Callable[..., None]) -> PrimFunc:
    """The PrimFunc ``name``, whose ``body`` gets the buffers of ``arguments`` in that order.

    No two arguments overlap in memory, and TVM schedules nothing: the body is what runs. Elements
    of a buffer are counted in 64 bits where 32 are not proven to be enough (`indices`).

    Raises:
        UnsupportedError: ``unsupported.index`` where an integer that the body itself computes may
            be more than its type holds.
    """
    wide: set[str] = set()
    while True:
        function = _built(name, arguments, body, wide)
        found = list(beyond(function, [argument.holds for argument in arguments]))
        more = {buffer for buffer, integer in found if integer.elements} - wide
        for buffer, integer in found:
            if buffer not in more:
                raise refusal(name, buffer, integer)
        if not more:
            return function
        wide |= more


def _built(
    name: str, arguments: Sequence[Arg], body: Callable[..., None], wide: Collection[str]
) -> PrimFunc:
    def buffer(argument: Arg) -> Buffer:
        if argument.name not in wide:
            return T.arg(argument.name, T.buffer(argument.shape, argument.dtype))
        # The number of pages is a variable, of 64 bits in any case.
        sizes = (tirx.IntImm("int64", s) if isinstance(s, int) else s for s in argument.shape)
        return T.arg(argument.name, T.buffer(tuple(sizes), argument.dtype))

    with IRBuilder() as builder:
        with T.prim_func(s_tir=True):
            T.func_name(name)
            T.func_attr({"global_symbol": name, "tirx.noalias": True, "tirx.is_scheduled": True})
            body(*map(buffer, arguments))
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
