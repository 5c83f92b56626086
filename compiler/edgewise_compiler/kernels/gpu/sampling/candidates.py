"""Drawing among the best tokens of a row, which one workgroup finds without reading the row.

The largest keys of groups are told by `scores`. Dealt out to 256 threads, the n-th of the threads'
largest is a bound that n tokens reach at least, and few more; only groups that reach it are read.
Each token that does then finds what is ahead of it by itself. Every sum is one of integers, so
neither the order of threads nor that of candidates shows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer

from edgewise_compiler.kernels.gpu.operations import f32, i32, u32
from edgewise_compiler.kernels.gpu.sampling.keys import BANNED
from edgewise_compiler.kernels.gpu.sampling.layout import LANES
from edgewise_compiler.kernels.gpu.sampling.row import Heat, Row, each_key, keys_in
from edgewise_compiler.kernels.gpu.sampling.sums import mass_of, note_weight, tally
from edgewise_compiler.kernels.gpu.sampling.wide import (
    Wide,
    add,
    less,
    scale,
    select,
    share_of,
    wide,
    wide_of,
)
from edgewise_compiler.kernels.gpu.thread import barrier, bind, keep, local, shared, store, when
from edgewise_runtime.format.abi import TOP_P

_OWN = 3
"""Candidates of a thread, at most. Of 256 threads that have tokens, seven in eight reach a bound
that some 530 tokens do, if the best do not lie together."""


@dataclass(frozen=True)
class Candidates:
    """Shared memory for the candidates of a row.

    Attributes:
        room: how many there may be, three a thread.
        keys, ids: int32 [room]. Both serve as scratch of the workgroup before.
        weights: uint32 [room].
        bound, chosen: int32 [1]: the bound, the token.
        mass: uint32 [2]: that of all candidates, or of those that top-k leaves.
    """

    room: int
    keys: Buffer
    ids: Buffer
    weights: Buffer
    bound: Buffer
    chosen: Buffer
    mass: Buffer

    @staticmethod
    def new(threads: int) -> Candidates:
        """Memory of its own."""
        room = _OWN * threads
        return Candidates(
            room,
            keys=shared((room,), "int32"),
            ids=shared((room,), "int32"),
            weights=shared((room,), "uint32"),
            bound=shared((1,), "int32"),
            chosen=shared((1,), "int32"),
            mass=shared((2,), "uint32"),
        )


def draw_among(
    w: Row, memory: Candidates, heat: Heat, masses: Buffer, position: Expr
) -> tuple[Expr, Expr]:
    """Draws by top-k, top-p and min-p, one of the first two at least.

    Args:
        masses: of blocks, uint32 [B, blocks, 2], if top-k is off.

    Returns:
        The token, and whether it is that of the row: 0 where candidates cannot tell.
    """
    k = w.top_k()
    with when(w.leader()):
        store(memory.chosen, 0, 0)
        for word in range(2):
            store(memory.mass, 0, word)
    bound = heat.lowest if w.layout.columns <= memory.room else _bound(w, memory, heat, k)
    found = _gather(w, memory, heat, bound)
    size = keep(T.Select(found <= memory.room, found, 0))
    kept, enough = _filter(w, memory, masses, k, size)
    everything = T.EQ(bound, heat.lowest)
    answered = T.And(found <= memory.room, T.Or(everything, enough))
    _choose(w, memory, kept, size, position)
    return keep(memory.chosen[0]), keep(T.Select(answered, i32(1), i32(0)))


def _bound(w: Row, memory: Candidates, heat: Heat, k: Expr) -> Expr:
    """A key that k tokens reach, or as many as there may be, or all that weigh anything."""
    most = 7 * w.layout.shares // 8
    wanted = keep(T.Select(k > 0, T.min(k, most), most))
    t, largest = w.thread.t, memory.keys
    mine = local((1,), "int32")
    store(mine, BANNED, 0)

    def look(group: Expr, vector: Expr) -> None:
        for key in keys_in(vector):
            store(mine, T.max(mine[0], key), 0)

    _each_four_groups(w, look)
    store(largest, mine[0], t)
    barrier()
    rank = local((1,), "int32")
    store(rank, 0, 0)
    with T.serial(0, w.layout.threads) as i:
        other = keep(largest[i])
        ahead = T.Or(other > mine[0], T.And(T.EQ(other, mine[0]), i < t))
        store(rank, rank[0] + T.Select(ahead, 1, 0), 0)
    with when(T.EQ(rank[0], wanted - 1)):
        store(memory.bound, mine[0], 0)
    barrier()
    return keep(T.max(memory.bound[0], heat.lowest))


def _each_four_groups(w: Row, use: Callable[[Expr, Expr], None]) -> None:
    """Calls ``use(group, vector)`` for the largest keys of this thread's share of the groups."""
    layout = w.layout
    vectors = layout.blocks * layout.threads // LANES
    with T.serial(0, -(-vectors // layout.threads)) as i:
        at = keep(i * w.layout.threads + w.thread.t)
        with when(at < vectors):
            use(at * LANES, bind(w.keys[w.row, layout.maxima // LANES + at]))


def _gather(w: Row, memory: Candidates, heat: Heat, bound: Expr) -> Expr:
    """Copies the tokens that reach the bound, as far as there is room; how many they are."""
    t = w.thread.t
    own, place = local((1,), "int32"), local((1,), "int32")
    store(own, 0, 0)

    def each_candidate(use: Callable[[Expr, Expr], None]) -> None:
        def look(group: Expr, vector: Expr) -> None:
            with each_key(vector) as (i, best), when(best >= bound):
                block, thread = (op(group, w.layout.threads) for op in (T.floordiv, T.floormod))
                with w.vectors_of(block, thread + i) as at:
                    with each_key(bind(w.keys[w.row, at])) as (j, key), when(key >= bound):
                        use(key, at * LANES + j)

        _each_four_groups(w, look)

    each_candidate(lambda key, token: store(own, own[0] + 1, 0))
    counts = memory.ids
    store(counts, own[0], t)
    barrier()
    total = local((1,), "int32")
    store(total, 0, 0)
    store(place, 0, 0)
    with T.serial(0, w.layout.threads) as i:
        count = keep(counts[i])
        store(place, place[0] + T.Select(i < t, count, 0), 0)
        store(total, total[0] + count, 0)
    barrier()

    def copy(key: Expr, token: Expr) -> None:
        with when(place[0] < memory.room):
            store(memory.keys, key, place[0])
            store(memory.ids, token, place[0])
            store(memory.weights, heat.weight(key), place[0])
            store(place, place[0] + 1, 0)

    with when(total[0] <= memory.room):
        each_candidate(copy)
    barrier()
    return keep(total[0])


def _filter(
    w: Row, memory: Candidates, masses: Buffer, k: Expr, size: Expr
) -> tuple[list[Expr], Expr]:
    """What top-k and top-p leave of this thread's candidates, and whether candidates can tell."""
    own = [_Own(memory, keep(i * w.layout.threads + w.thread.t), size) for i in range(_OWN)]
    with T.serial(0, size) as j:
        key, token, weight = (keep(b[j]) for b in (memory.keys, memory.ids, memory.weights))
        for one in own:
            with when(T.Or(key > one.key, T.And(T.EQ(key, one.key), token < one.token))):
                store(one.rank, one.rank[0] + 1, 0)
                note_weight(one.ahead, 0, weight)
    last = keep(T.Select(T.And(k > 0, k < size), k, size) - 1)
    for one in own:
        with when(T.And(one.at < size, T.EQ(one.rank[0], last))):
            mass = add(mass_of(one.ahead, 0), wide_of(one.weight))
            store(memory.mass, mass.hi, 0)
            store(memory.mass, mass.lo, 1)
    barrier()
    among = Wide(keep(memory.mass[0]), keep(memory.mass[1]))
    total = select(k > 0, among, _total(w, masses, k))
    part = keep(w.sampling_f[w.row, TOP_P])
    target = select(part < f32(1.0), share_of(total, part), total)
    enough = keep(T.Select(k > 0, i32(k <= size), i32(T.Not(less(among, target)))))
    kept = []
    for one in own:
        left = T.And(one.rank[0] <= last, less(mass_of(one.ahead, 0), target))
        kept.append(keep(T.Select(left, one.weight, u32(0))))
    return kept, T.EQ(enough, 1)


class _Own:
    """A candidate of this thread and what is ahead of it: larger keys, and of equals lower tokens.

    Beyond the last candidate it weighs nothing.
    """

    def __init__(self, memory: Candidates, at: Expr, size: Expr) -> None:
        key, token = local((1,), "int32"), local((1,), "int32")
        weight = local((1,), "uint32")
        for field in (key, token, weight):
            store(field, 0, 0)
        with when(at < size):
            store(key, memory.keys[at], 0)
            store(token, memory.ids[at], 0)
            store(weight, memory.weights[at], 0)
        self.at, self.key, self.token, self.weight = at, key[0], token[0], weight[0]
        self.rank, self.ahead = local((1,), "int32"), tally(2)
        store(self.rank, 0, 0)


def _total(w: Row, masses: Buffer, k: Expr) -> Wide:
    """The mass of the row where top-k is off."""
    sums = tally(2)
    with when(T.EQ(k, 0)), T.serial(0, w.layout.blocks) as i:
        for word in range(2):
            store(sums, sums[word] + masses[w.row, i, word], word)
    return wide(keep(sums[0]), keep(sums[1]))


def _choose(w: Row, memory: Candidates, kept: list[Expr], size: Expr, position: Expr) -> None:
    """Finds the token at a random point of the mass that is kept, in token order."""
    floor = w.least_weight()
    tokens, weights = [], []
    for i, weight in enumerate(kept):
        at = keep(i * w.layout.threads + w.thread.t)
        token = local((1,), "int32")
        store(token, 0, 0)
        final = keep(T.Select(weight >= floor, weight, u32(0)))
        with when(at < size):
            store(token, memory.ids[at], 0)
            store(memory.weights, final, at)
        tokens.append(keep(token[0]))
        weights.append(final)
    barrier()
    before, every = [tally(2) for _ in kept], tally(2)
    with T.serial(0, size) as j:
        token, weight = keep(memory.ids[j]), keep(memory.weights[j])
        note_weight(every, 0, weight)
        for mine, sums in zip(tokens, before, strict=True):
            with when(token < mine):
                note_weight(sums, 0, weight)
    point = scale(mass_of(every, 0), w.random(position))[0]
    for mine, weight, sums in zip(tokens, weights, before, strict=True):
        start = mass_of(sums, 0)
        reached = T.And(T.Not(less(point, start)), less(point, add(start, wide_of(weight))))
        with when(reached):
            store(memory.chosen, mine, 0)
    barrier()
