"""What every matmul shares: cutting rows into tiles, and what happens to finished sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, call_llvm_intrin

from edgewise_compiler.kernels.cpu.elementwise.quantize import a8_args, store_group
from edgewise_compiler.kernels.cpu.isa import isa_named
from edgewise_compiler.kernels.cpu.vector import GATED, let, load, store
from edgewise_compiler.kernels.function import Arg, block
from edgewise_compiler.kernels.matmul import MatmulSpec
from edgewise_runtime.format.abi import PANEL

# Weights are asked for this far ahead of their use where a panel is read from memory once. With it
# one core reads as fast as the memory delivers, without it at 60 % of that (measured on Zen 5).
PREFETCH_BYTES = 8192


class Tile(NamedTuple):
    """A unit of work: ``rows`` rows times ``panels`` panels (1 or 2) are summed side by side."""

    rows: int
    panels: int


class Shapes(NamedTuple):
    """Tiles for runs of eight rows: ``many`` from 32 rows on, ``few`` before.

    With few rows weights still come from memory: one panel after the other, which prefetching can
    follow. With many the activations are what moves: two panels share every load of them.
    """

    few: Tile
    many: Tile


MANY_ROWS = 32

# Panels whose sums an epilogue gets together: gate and up of a swiglu alternate.
PAIR = 2

# Row of a tile -> row of the buffers.
Row = Callable[[Any], Expr]

# Rows of a scratch buffer. TVM takes local buffers of 1 KiB and more from a heap at every use.
CHUNK = 4
Chunks = list[Buffer]


def chunks_of(rows: int, vectors: int, dtype: str = "float32") -> Chunks:
    """Local memory for ``vectors`` vectors in each of ``rows`` rows."""
    shape = (min(rows, CHUNK), vectors, PANEL)
    return [T.sblock_alloc_buffer(shape, dtype) for _ in range(0, rows, CHUNK)]


def load_row(chunks: Chunks, r: Any, vector: Any) -> Expr:
    """One vector of row ``r``: a Python number, or an expression where there is one chunk."""
    chunk, row = (chunks[r // CHUNK], r % CHUNK) if isinstance(r, int) else (chunks[0], r)
    return load(chunk, row, vector, 0)


def store_row(chunks: Chunks, value: Expr, r: Any, vector: Any) -> None:
    """Stores what :func:`load_row` reads."""
    chunk, row = (chunks[r // CHUNK], r % CHUNK) if isinstance(r, int) else (chunks[0], r)
    store(chunk, value, row, vector, 0)


Sums = Callable[[Tile, Row, Expr, Chunks, Expr], None]


class Epilogue(NamedTuple):
    """What becomes of finished sums.

    Attributes:
        pairs: panel pairs one work item computes.
        outputs: (N, NP) -> the output arguments.
        pair: (out, row, pair, two vectors of sums, isa): consumes the sums of a row and a pair.
        group: (out, row, item, two vectors, isa): where not None, ``pair`` returns a vector instead
            and this consumes those of an item's two pairs.
    """

    pairs: int
    outputs: Callable[[int, int], tuple[Arg, ...]]
    pair: Callable[..., Expr | None]
    group: Callable[..., None] | None = None


def _store(out: list[Buffer], row: Expr, pair: Expr, sums: list[Expr], isa: str) -> None:
    for j, value in enumerate(sums):
        store(out[0], value, row, (pair * PAIR + j) * PANEL)


def _add(out: list[Buffer], row: Expr, pair: Expr, sums: list[Expr], isa: str) -> None:
    for j, value in enumerate(sums):
        column = (pair * PAIR + j) * PANEL
        store(out[0], load(out[0], row, column) + value, row, column)


def _gated(activation: str) -> Callable[..., Expr]:
    def gated(out: list[Buffer], row: Expr, pair: Expr, sums: list[Expr], isa: str) -> Expr:
        gate, up = sums
        return GATED[activation](gate, up, isa)

    return gated


def _store_gated(activation: str) -> Callable[..., None]:
    gated = _gated(activation)

    def stored(out: list[Buffer], row: Expr, pair: Expr, sums: list[Expr], isa: str) -> None:
        store(out[0], gated(out, row, pair, sums, isa), row, pair * PANEL)

    return stored


def _float_out(share: int) -> Callable[[int, int], tuple[Arg, ...]]:
    return lambda N, NP: (Arg("out", "float32", (N, NP // share)),)


def _codes_out(N: int, NP: int) -> tuple[Arg, ...]:
    return a8_args(N, NP // 2, "h")


def _quantize(out: list[Buffer], row: Expr, item: Expr, values: list[Expr], isa: str) -> None:
    store_group((out[0], out[1], out[2]), row, item, (values[0], values[1]), isa)


EPILOGUES = {
    "store": Epilogue(1, _float_out(1), _store),
    "add": Epilogue(1, _float_out(1), _add),
    "swiglu": Epilogue(1, _float_out(2), _store_gated("silu")),
    "swiglu_a8": Epilogue(2, _codes_out, _gated("silu"), _quantize),
    "geglu": Epilogue(1, _float_out(2), _store_gated("gelu_tanh")),
    "geglu_a8": Epilogue(2, _codes_out, _gated("gelu_tanh"), _quantize),
    "clamped": Epilogue(1, _float_out(2), _store_gated("clamped_silu")),
    "clamped_a8": Epilogue(2, _codes_out, _gated("clamped_silu"), _quantize),
}


def matmul_name(spec: MatmulSpec) -> str:
    """The symbol of a linear layer's kernel."""
    shape = f"{spec.outputs}x{spec.inputs}_n{spec.rows}_s{spec.count}"
    part = "" if spec.total is None else f"_from{spec.first}of{spec.total}"
    return f"matmul_{spec.scheme}_{spec.epilogue}_{shape}{part}" + ("_bias" if spec.bias else "")


def prefetch(buffer: Buffer, *index: Expr | int) -> None:
    """Asks for the cache line at ``index``, which may lie behind the end of ``buffer``."""
    # read, keep in all cache levels, data
    hints = (T.int32(0), T.int32(3), T.int32(1))
    T.evaluate(call_llvm_intrin("void", "llvm.prefetch", T.address_of(buffer[index]), *hints))


def for_tile_rows(tile: Tile, isa: str, body: Callable[[Any], None]) -> None:
    """Runs ``body(row of the tile)`` for all of them: unrolled where a row's fma is small."""
    if isa_named(isa).fused:
        for r in range(tile.rows):
            body(r)
    else:
        with T.serial(tile.rows) as r, block("tile_row"):
            body(r)


def matmul(
    n: Expr,
    bound: int,
    *,
    shapes: Shapes,
    sums: Sums,
    epilogue: Epilogue,
    out: list[Buffer],
    bias: Buffer | None,
    item: Expr,
    isa: str,
    first_bias: Expr | None = None,
    first_pair: int = 0,
) -> None:
    """Computes all ``n`` rows (at most ``bound``) of one work item: ``epilogue.pairs`` panel pairs.

    ``sums(tile, row of the tile -> row, first panel, chunks, p)`` puts finished sums of the tile
    into ``chunks`` ([4, 2, 16] for four rows each) from panel ``p`` on.

    ``first_bias`` is where the biases begin, ``first_pair`` the pair of panels that the outputs
    begin with, if not 0.

    Runs of eight rows go to tiles of ``shapes``. The rest waits for memory, so a tile of four also
    takes two or three rows, the last of them several times.
    """

    def pair_of(tile: Tile, row: Row, live: Expr | int, pair: Expr, gated: Chunks, q: Expr) -> None:
        finished = chunks_of(tile.rows, PAIR)
        if tile.panels == PAIR:
            sums(tile, row, pair * PAIR, finished, T.int32(0))
        else:
            with T.serial(PAIR) as p, block("panel"):
                sums(tile, row, pair * PAIR + p, finished, p)
        for c, chunk in enumerate(finished):
            with T.serial(T.min(live, CHUNK)) as r, block("finish"):
                values = [let(load(chunk, r, j, 0)) for j in range(PAIR)]
                if bias is not None:
                    at = [(pair * PAIR + j) * PANEL for j in range(PAIR)]
                    if first_bias is not None:
                        at = [first_bias + column for column in at]
                    biases = [load(bias, column) for column in at]
                    values = [let(v + b) for v, b in zip(values, biases, strict=True)]
                value = epilogue.pair(out, row(c * CHUNK + r), first_pair + pair, values, isa)
                if gated:
                    store(gated[c], value, r, q, 0)

    def rows_of(tile: Tile, row: Row, live: Expr | int) -> None:
        if epilogue.group is None:
            pair_of(tile, row, live, item, [], T.int32(0))
            return
        gated = chunks_of(tile.rows, epilogue.pairs)
        with T.serial(epilogue.pairs) as q, block("pair"):
            pair_of(tile, row, live, item * epilogue.pairs + q, gated, q)
        for c, chunk in enumerate(gated):
            with T.serial(T.min(live, CHUNK)) as r, block("group"):
                values = [let(load(chunk, r, q, 0)) for q in range(epilogue.pairs)]
                at = first_pair // epilogue.pairs + item
                epilogue.group(out, row(c * CHUNK + r), at, values, isa)

    runs, rest = n // 8, n % 8

    def runs_of(tile: Tile) -> None:
        with T.serial(runs * (8 // tile.rows)) as t, block("runs"):
            rows_of(tile, lambda r: t * tile.rows + r, tile.rows)

    if bound >= MANY_ROWS and shapes.few != shapes.many:
        with T.If(n >= MANY_ROWS):
            with T.Then():
                runs_of(shapes.many)
            with T.Else():
                runs_of(shapes.few)
    elif bound >= 8:
        runs_of(shapes.few)
    if bound >= 2:
        with T.serial((rest + 2) // 4) as t, block("four"):
            first = T.bind(runs * 8 + t * 4)
            rows_of(Tile(4, 1), lambda r: T.min(first + r, n - 1), T.min(n - first, 4))
    with T.If(n % 4 == 1), T.Then(), block("one"):
        rows_of(Tile(1, 1), lambda r: n - 1 + r, 1)
