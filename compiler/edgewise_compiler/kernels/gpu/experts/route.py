"""Which experts each row goes through, a row a workgroup; and the pairs of many rows in tiles."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from tvm.ir import Expr as TirExpr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer

from edgewise_compiler.kernels.experts import RouteSpec, order_arg
from edgewise_compiler.kernels.function import STEP, Arg
from edgewise_compiler.kernels.gpu.operations import bits, exp2, fma, number, u32
from edgewise_compiler.kernels.gpu.thread import (
    Launch,
    Thread,
    barrier,
    bind,
    kernel,
    local,
    shared,
    store,
    when,
)
from edgewise_compiler.kernels.numbers import LOG2E
from edgewise_compiler.kernels.ranges import Range
from edgewise_runtime.format.abi import ROWS
from edgewise_runtime.format.expr import Expr

THREADS = 256


def ids_arg(rows: int, chosen: int, experts: int) -> Arg:
    """The experts of each pair."""
    return Arg("ids", "int32", (rows * chosen,), (Range(0, experts - 1),))


def tiles_arg(tiles: int, experts: int, pairs: int) -> Arg:
    """Of each tile its expert, its first place in ``order``, and its pairs, 0 where it is none."""
    holds = Range(0, experts - 1), Range(0, pairs - 1), Range(0, pairs), Range(0, 0)
    return Arg("tiles", "int32", (tiles, 4), holds)


@cache
def route(spec: RouteSpec) -> Launch:
    """The experts of the largest logits ``x @ weight (+ bias)``, and their softmax.

    Arguments: x float32 [N, K], weight float32 [K, columns], bias float32 [columns] with ``bias``,
    ids int32 [N * chosen], weights float32 [N, chosen (+ 1)], step. Experts come by the size of
    their logits, of equal ones the first first; NaN counts as larger than all numbers or smaller,
    by its sign.

    Threads share a logit where experts are few: each adds up every P-th column in order, and their
    sums are added up in order.
    """
    N, K, E, k = spec.rows, spec.inputs, spec.experts, spec.chosen
    wide = min(spec.columns, THREADS)
    parts = THREADS // wide
    turns = -(-spec.columns // wide)

    def body(thread: Thread, x: Buffer, weight: Buffer, *rest: Buffer) -> None:
        *biases, ids, weights, step = rest
        row = thread.x
        with when(row < T.min(step[ROWS], N)):
            sums = shared((parts * wide,))
            logits = shared((spec.columns,))
            chosen = shared((k,), "int32")
            part, column = bind(thread.t // wide), bind(thread.t % wide)
            for turn in range(turns):
                at = bind(T.min(column + turn * wide, spec.columns - 1))
                total = local((1,))
                store(total, 0.0, 0)
                with T.serial(0, -(-K // parts)) as i:
                    c = bind(i * parts + part)
                    with when(c < K):
                        store(total, fma(x[row, c], weight[c, at], total[0]), 0)
                store(sums, total[0], thread.t)
                barrier()
                with when(T.And(part == 0, column + turn * wide < spec.columns)):
                    found = local((1,))
                    store(found, sums[column], 0)
                    with T.serial(1, parts) as p:
                        store(found, found[0] + sums[p * wide + column], 0)
                    shift = biases[0][at] if biases else None
                    store(logits, found[0] if shift is None else found[0] + shift, at)
                barrier()
            for turn in range(turns):
                mine = bind(column + turn * wide)
                with when(T.And(part == 0, mine < E)):
                    _place(logits, chosen, mine, E, k)
            barrier()
            with when(thread.t < spec.weights):
                _weigh(spec, logits, chosen, (ids, weights), row, thread.t)

    arguments = (
        Arg("x", "float32", (N, K)),
        *spec.router,
        ids_arg(N, k, E),
        Arg("weights", "float32", (N, spec.weights)),
        STEP,
    )
    return kernel(
        f"route_{spec.name}",
        arguments,
        body,
        threads=parts * wide,
        grid=("n", 1),
        bounds={"n": N},
    )


def _key(logit: TirExpr) -> TirExpr:
    """An unsigned integer in the order of the floats."""
    word = bind(bits(logit, "uint32"))
    return bind(word ^ T.Select(word >= u32(1 << 31), u32(0xFFFFFFFF), u32(1 << 31)))


def _place(logits: Buffer, chosen: Buffer, mine: TirExpr, E: int, k: int) -> None:
    """Puts an expert where its logit stands among all: so many are larger, or as large before."""
    key, rank = _key(logits[mine]), local((1,), "int32")
    store(rank, 0, 0)
    with T.serial(0, E) as other:
        theirs = _key(logits[other])
        before = T.Or(theirs > key, T.And(theirs == key, other < mine))
        store(rank, rank[0] + T.Select(before, T.int32(1), T.int32(0)), 0)
    with when(rank[0] < k):
        store(chosen, mine, bind(T.min(rank[0], k - 1)))


def _weigh(
    spec: RouteSpec,
    logits: Buffer,
    chosen: Buffer,
    out: tuple[Buffer, Buffer],
    row: TirExpr,
    slot: TirExpr,
) -> None:
    """One weight of a row: of the softmax, less the largest logit, or of the gate."""
    E, k = spec.experts, spec.chosen
    ids, weights = out

    def expert(at: TirExpr | int) -> TirExpr:
        return bind(T.max(T.min(chosen[at], E - 1), 0))

    top = bind(logits[expert(0)])

    def power(logit: TirExpr) -> TirExpr:
        return bind(exp2((logit - top) * number(LOG2E)))

    total = local((1,))
    with when(slot < k):
        mine = expert(bind(T.min(slot, k - 1)))
        store(total, 0.0, 0)
        if spec.normalize:
            with T.serial(0, k) as s:
                store(total, total[0] + power(logits[expert(s)]), 0)
        else:
            with T.serial(0, E) as e:
                store(total, total[0] + power(logits[e]), 0)
        store(ids, mine, row * k + slot)
        store(weights, power(logits[mine]) / total[0], row, slot)
    if spec.shared:
        with when(slot == k):
            gate = exp2(T.min(logits[E] * number(-LOG2E), number(126.0)))
            store(weights, number(1.0) / (number(1.0) + bind(gate)), row, slot)


def tile_bound(pairs: int, experts: int, rows: int) -> int:
    """The most tiles of ``rows`` pairs each."""
    return pairs // rows + min(experts, pairs)


def tile_count(chosen: int, experts: int, rows: int) -> Expr:
    """The same over the step's rows."""
    pairs: Expr = ("mul", "n", chosen)
    return ("add", ("floordiv", pairs, rows), ("min", pairs, experts))


@cache
def order(N: int, chosen: int, experts: int, rows: int) -> Launch:
    """Pairs by their experts, those of one in the order of the rows, cut into tiles of ``rows``.

    Arguments: ids int32 [N * chosen], order int32 [N * chosen], tiles int32 [tiles, 4], step. One
    workgroup, of which each thread goes through all pairs for an expert: there are a few thousand.
    """
    pairs = N * chosen
    tiles = tile_bound(pairs, experts, rows)
    wide = min(-(-experts // 32) * 32, THREADS)

    def body(thread: Thread, ids: Buffer, placed: Buffer, cut: Buffer, step: Buffer) -> None:
        live = bind(T.max(T.min(step[ROWS], N), 0) * chosen)
        counts = shared((experts,), "int32")
        place, tile, count = (local((1,), "int32") for _ in range(3))

        def every(action: Callable[[TirExpr], None]) -> None:
            with T.serial(0, -(-experts // wide)) as turn:
                e = bind(turn * wide + thread.t)
                with when(e < experts):
                    action(e)

        def counted(e: TirExpr) -> None:
            store(count, 0, 0)
            with T.serial(0, live) as i:
                store(count, count[0] + T.Select(ids[i] == e, T.int32(1), T.int32(0)), 0)
            store(counts, count[0], e)

        def before(e: TirExpr | int) -> None:
            """Pairs and tiles of the experts before ``e``."""
            store(place, 0, 0)
            store(tile, 0, 0)
            with T.serial(0, e) as other:
                theirs = bind(T.min(counts[other], N))
                store(place, place[0] + theirs, 0)
                store(tile, tile[0] + (theirs + (rows - 1)) // rows, 0)

        def put(e: TirExpr) -> None:
            before(e)
            mine = bind(T.min(counts[e], N))
            with T.serial(0, (mine + (rows - 1)) // rows) as q:
                at = bind(T.min(tile[0] + q, tiles - 1))
                for field, value in enumerate(
                    (e, place[0] + q * rows, T.min(mine - q * rows, rows), T.int32(0))
                ):
                    store(cut, value, at, field)
            with T.serial(0, live) as i, when(ids[i] == e):
                store(placed, i, bind(T.min(place[0], pairs - 1)))
                store(place, place[0] + 1, 0)

        every(counted)
        barrier()
        every(put)
        before(experts)
        with T.serial(0, -(-tiles // wide)) as turn:
            at = bind(turn * wide + thread.t)
            with when(T.And(at >= tile[0], at < tiles)):
                for field in range(4):
                    store(cut, 0, at, field)

    return kernel(
        f"order_{experts}k{chosen}_n{N}_t{rows}",
        (
            ids_arg(N, chosen, experts),
            order_arg(pairs),
            tiles_arg(tiles, experts, pairs),
            STEP,
        ),
        body,
        threads=wide,
        grid=(1, 1),
        bounds={},
    )
