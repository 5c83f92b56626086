"""min-p, and the draw: the token at a random point of the mass that is left, in token order.

The inverse of the distribution function takes one random number a token, whatever the vocabulary;
the Gumbel trick would take one for each of its tokens, and logarithms. With integer weights it is
exact: the same number gives the same token in any batch.
"""

from __future__ import annotations

from tvm import tirx
from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T

from edgewise_compiler.kernels.cpu.sampling.philox import philox4x32
from edgewise_compiler.kernels.cpu.sampling.scratch import (
    BLOCK,
    CUT,
    FILTERED,
    FLOOR,
    KEPT,
    ONE,
    TIE_WEIGHT,
    TIES,
    Work,
    count_of,
    float32,
    int64,
    mass_of,
    when,
)
from edgewise_compiler.kernels.cpu.vector import (
    LANES,
    bits,
    cast,
    lane_sum,
    let,
    load,
    splat,
    store,
)
from edgewise_compiler.kernels.numbers import WEIGHT_BITS
from edgewise_runtime.format.abi import KV_LEN, MIN_P, SEED_HIGH, SEED_LOW, SEQUENCE


def apply_min_p(w: Work, row: Expr) -> None:
    """Drops tokens less than min_p times as likely as the best one."""
    min_p = w.sampling_f[row, MIN_P]
    with when(min_p > float32(0.0)):
        # Exact: a power of two times a float32.
        least = let(T.min(min_p, float32(1.0)) * float32(2.0**WEIGHT_BITS))
        whole = let(int64(least))
        w.put(row, FLOOR, T.max(whole + int64(cast(whole, "float32") < least), int64(1)))
        w.put(row, FILTERED, 1)
    with when(w.state[row, TIE_WEIGHT] < w.state[row, FLOOR]):
        w.put(row, TIES, 0)


def _kept(w: Work, row: Expr, at: Expr, lanes: int) -> Expr:
    """Pairs for the tokens from ``at`` on: ties and the mass of what is kept above them."""
    score = let(load(w.scores, row, at, lanes=lanes))
    weight = let(load(w.weights, row, at, lanes=lanes))
    cut = splat(w.levels[row, CUT], lanes)
    none = splat(0, lanes, "int32")
    enough = T.Select(weight >= splat(cast(w.state[row, FLOOR], "int32"), lanes), weight, none)
    above = T.Select(score > cut, enough, none)
    tied = T.Select(T.EQ(score, cut), splat(ONE, lanes, "int64"), splat(0, lanes, "int64"))
    return cast(above, "int64") + tied


def keep_block(w: Work, row: Expr, block: Expr) -> None:
    """Counts the ties and weighs what is kept above them in a block."""
    sums = T.sblock_alloc_buffer((LANES,), "int64")
    store(sums, splat(0, LANES, "int64"), 0)
    with T.serial(0, T.floordiv(w.width(block), LANES)) as i:
        store(sums, load(sums, 0) + _kept(w, row, T.bind(block * BLOCK + i * LANES), LANES), 0)
    store(w.partial, lane_sum(load(sums, 0)), row, block, KEPT)


def draw(w: Work, row: Expr, *, advance: bool) -> None:
    """Draws the token of a row."""
    # What is left to go, ties still to be taken, whether it is known where the token is; the block,
    # the vector and the token itself.
    rank, ties, done, in_block, in_vector, itself = range(6)
    walk = T.sblock_alloc_buffer((6,), "int64")
    tie_weight = let(w.state[row, TIE_WEIGHT])

    def taken(kept: Expr) -> Expr:
        return let(T.min(count_of(kept), walk[ties]))

    store(walk, w.state[row, TIES], ties)
    store(walk, int64(0), rank)
    with T.serial(0, w.blocks) as block:
        kept = let(w.partial[row, block, KEPT])
        tied = taken(kept)
        store(walk, walk[rank] + mass_of(kept) + tied * tie_weight, rank)
        store(walk, walk[ties] - tied, ties)
    store(walk, _point(let(walk[rank]), _random_word(w, row, advance=advance)), rank)
    store(walk, w.state[row, TIES], ties)

    def step(where: int, place: Expr, kept: Expr) -> None:
        tied = taken(kept)
        mass = let(mass_of(kept) + tied * tie_weight)
        with T.If(walk[rank] < mass):
            with T.Then():
                store(walk, int64(place), where)
                store(walk, int64(1), done)
            with T.Else():
                store(walk, walk[rank] - mass, rank)
                store(walk, walk[ties] - tied, ties)

    def still() -> Expr:
        return T.EQ(walk[done], int64(0))

    for where in (in_block, in_vector, itself):
        store(walk, int64(0), where)
    store(walk, int64(0), done)
    with T.serial(0, w.blocks) as block, when(still()):
        step(in_block, block, let(w.partial[row, block, KEPT]))
    block = let(cast(walk[in_block], "int32"))
    store(walk, int64(0), done)
    with T.serial(0, T.floordiv(w.width(block), LANES)) as i, when(still()):
        at = T.bind(block * BLOCK + i * LANES)
        step(in_vector, at, let(lane_sum(_kept(w, row, at, LANES))))
    first = let(cast(walk[in_vector], "int32"))
    store(walk, int64(0), done)
    with T.serial(0, LANES) as lane, when(still()):
        at = T.bind(first + lane)
        step(itself, at, let(_kept(w, row, at, 1)))
    store(w.sampled, cast(walk[itself], "int32"), row)


def _random_word(w: Work, row: Expr, *, advance: bool) -> Expr:
    """32 random bits for the token at this position of this sequence."""

    def word(value: Expr) -> Expr:
        return bits(value, "uint32")

    zero = tirx.const(0, "uint32")
    position = w.table[row, KV_LEN] + int(advance)
    counter = (word(position), word(w.sampling_i[row, SEQUENCE]), zero, zero)
    seed = (word(w.sampling_i[row, SEED_LOW]), word(w.sampling_i[row, SEED_HIGH]))
    return philox4x32(counter, [let(part) for part in seed])[0]


def _point(total: Expr, random: Expr) -> Expr:
    """floor(total * random / 2**32), exactly."""
    wide, half = let(cast(random, "uint64")), tirx.const(32, "uint64")
    mass = let(cast(total, "uint64"))
    high, low = mass >> half, mass & tirx.const(0xFFFFFFFF, "uint64")
    return cast(wide * high + ((wide * low) >> half), "int64")
