"""What every matmul shares: cutting rows into tiles, and what happens to finished sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, call_llvm_intrin

from edgewise_compiler.kernels.elementwise.quantize import a8_args, store_group
from edgewise_compiler.kernels.function import Arg, block
from edgewise_compiler.kernels.matmul.layout import PANEL
from edgewise_compiler.kernels.vector import let, load, silu, store

# Weights are asked for this far ahead of their use where a panel is read from memory once. Measured:
# with it one core reads as fast as the memory delivers, without it 60 % of that.
PREFETCH_BYTES = 8192


class Tile(NamedTuple):
    """A unit of work: ``rows`` rows times ``panels`` panels are summed at the same time."""

    rows: int
    panels: int


class Epilogue(NamedTuple):
    """What a kernel does with sums: outputs, panels it needs at once, code for one row.

    ``apply(out, row, block, sums, isa)`` gets ``panels`` vectors of one row.
    """

    panels: int
    outputs: Callable[[int, int], tuple[Arg, ...]]
    apply: Callable[[tuple[Buffer, ...], Expr, Expr, list[Expr], str], None]


def _store(out: tuple[Buffer, ...], row: Expr, item: Expr, sums: list[Expr], isa: str) -> None:
    for j, value in enumerate(sums):
        store(out[0], value, row, (item * len(sums) + j) * PANEL)


def _add(out: tuple[Buffer, ...], row: Expr, item: Expr, sums: list[Expr], isa: str) -> None:
    for j, value in enumerate(sums):
        column = (item * len(sums) + j) * PANEL
        store(out[0], load(out[0], row, column) + value, row, column)


def _swiglu(out: tuple[Buffer, ...], row: Expr, item: Expr, sums: list[Expr], isa: str) -> None:
    gate, up = sums
    store(out[0], silu(gate, isa) * up, row, item * PANEL)


def _swiglu_a8(offset: int) -> Callable[..., None]:
    def apply(out: tuple[Buffer, ...], row: Expr, item: Expr, sums: list[Expr], isa: str) -> None:
        gates, ups = sums[::2], sums[1::2]
        low, high = (let(silu(gate, isa) * up) for gate, up in zip(gates, ups, strict=True))
        store_group((out[0], out[1], out[2]), row, item, (low, high), offset, isa)

    return apply


def _float_out(share: int) -> Callable[[int, int], tuple[Arg, ...]]:
    return lambda N, NP: (Arg("out", "float32", (N, NP // share)),)


# Gate and up panels alternate, so one swiglu needs two panels and a quantized group of 32 four.
EPILOGUES = {
    "store": Epilogue(2, _float_out(1), _store),
    "add": Epilogue(2, _float_out(1), _add),
    "swiglu": Epilogue(2, _float_out(2), _swiglu),
}


def quantized_swiglu(offset: int) -> Epilogue:
    """swiglu whose result is quantized for the next linear (``offset`` as in ``quantize``)."""
    return Epilogue(4, lambda N, NP: a8_args(N, NP // 2, "h"), _swiglu_a8(offset))


def prefetch(buffer: Buffer, *index: Expr) -> None:
    """Asks for the cache line at ``index``, which may lie behind the end of ``buffer``."""
    # read, keep in all cache levels, data
    hints = (T.int32(0), T.int32(3), T.int32(1))
    T.evaluate(call_llvm_intrin("void", "llvm.prefetch", T.address_of(buffer[index]), *hints))


def for_tiles(n: Expr, bound: int, bulk: Tile, body: Callable[[Tile, Expr], None]) -> None:
    """Covers ``n`` rows (at most ``bound``) with tiles; ``body(tile, first row)`` emits one.

    Whole runs of eight rows go to ``bulk``; the rest, where weights arrive from memory and not from
    a cache, to tiles that read a single panel after the other.
    """
    runs = T.bind(n // 8) if bound >= 8 else T.int32(0)
    if bound >= 8:
        with T.serial(runs * (8 // bulk.rows)) as t, block("bulk"):
            body(bulk, t * bulk.rows)
    if bound >= 4:
        with T.If(n % 8 >= 4), T.Then(), block("four"):
            body(Tile(4, 1), runs * 8)
    with T.serial(n % 4) as t, block("one"):
        body(Tile(1, 1), n // 4 * 4 + t)


def finish(
    epilogue: Epilogue,
    out: tuple[Buffer, ...],
    bias: Buffer | None,
    sums: Buffer,
    rows: int,
    first: Expr,
    item: Expr,
    isa: str,
) -> None:
    """Applies ``epilogue`` to ``sums`` [rows, panels, 16] of the rows from ``first`` on."""
    with T.serial(rows) as r, block("finish"):
        values = []
        for j in range(epilogue.panels):
            value = let(load(sums, r, j, 0))
            if bias is not None:
                value = let(value + load(bias, (item * epilogue.panels + j) * PANEL))
            values.append(value)
        epilogue.apply(out, first + r, item, values, isa)
