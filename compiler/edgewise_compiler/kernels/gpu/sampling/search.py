"""The keys below which top-k and top-p drop every token of a whole row, found without sorting.

As on the CPU (`threshold.py`), passes over the vocabulary count and weigh the tokens at or above
seven levels inside a bracket of keys; once few are left in it, they are copied to shared memory,
where each finds its own rank. Loops around barriers have fixed counts, because threads may only
wait for each other where all surely come along; a pass that is not needed costs its barriers only.
"""

from __future__ import annotations

from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T

from edgewise_compiler.kernels.gpu.operations import bits, f32, fma, i32, u32
from edgewise_compiler.kernels.gpu.reduce import combine_group
from edgewise_compiler.kernels.gpu.sampling.keys import BANNED, key_of, score_of
from edgewise_compiler.kernels.gpu.sampling.row import Heat, Row
from edgewise_compiler.kernels.gpu.sampling.state import (
    ACTIVE,
    ALL,
    CUT,
    FLOOR,
    HI,
    HI_COUNT,
    HI_MASS,
    LO,
    LO_COUNT,
    SEARCHING,
    TARGET,
    TIE_WEIGHT,
    TIES,
    TOTAL,
    State,
    each,
    measure,
)
from edgewise_compiler.kernels.gpu.sampling.sums import mass_of, note_token, sum_columns, tally
from edgewise_compiler.kernels.gpu.sampling.wide import (
    Wide,
    add,
    less,
    multiply,
    select,
    share_of,
    subtract,
    wide,
    wide_of,
)
from edgewise_compiler.kernels.gpu.thread import barrier, keep, local, store, when
from edgewise_compiler.kernels.sampling import LEVELS
from edgewise_runtime.format.abi import TOP_K, TOP_P

# The first pass tries octaves of probability below the best token, two cut the bracket in equal
# parts of score, and 11 are what 2**32 keys cut in eight parts need at most.
EVEN_PASSES = 2
PASSES = 1 + EVEN_PASSES + 11
_FIRST_OCTAVE_BITS = 127 + 4  # the exponent field of 16.0


def weigh_all(w: Row, state: State, heat: Heat) -> None:
    """Counts and weighs all there is to draw, which is what nothing filtered keeps."""
    count, mass = measure(w, state, heat, lambda key: key >= heat.lowest, u32(1))
    with when(w.leader()):
        state.put(ALL, count)
        state.put_wide(TOTAL, mass)
        store(state.ends, BANNED, CUT)
        for field in (TIES, TIE_WEIGHT):
            state.put(field, u32(0))
        state.put(FLOOR, w.least_weight())
    barrier()


def search(w: Row, state: State, heat: Heat, peak: Expr, by_mass: Expr) -> None:
    """Finds the threshold of top-k (by count) or top-p (by mass), and keeps what it says."""
    with when(w.leader()):
        _open(w, state, heat, peak, by_mass)
    barrier()
    with T.serial(0, PASSES) as turn:
        with when(w.thread.t < LEVELS):
            _set_level(w, state, heat, turn)
        barrier()
        _count_levels(w, state, heat)
        with when(T.And(w.leader(), T.NE(state.sums[SEARCHING], u32(0)))):
            _narrow(w, state, by_mass)
        barrier()
    cut = _rank_near(w, state, heat, by_mass)
    needed = keep(state.sums[ACTIVE])
    above_count, above_mass = measure(w, state, heat, lambda key: key > cut, needed)
    with when(T.And(w.leader(), T.NE(state.sums[ACTIVE], u32(0)))):
        _settle(state, heat, by_mass, cut, above_count, above_mass)
    barrier()


def _open(w: Row, state: State, heat: Heat, peak: Expr, by_mass: Expr) -> None:
    """Sets the bracket and what is to be reached, if there is anything to filter."""
    store(state.ends, heat.lowest, LO)
    store(state.ends, peak + 1, HI)
    state.put(HI_COUNT, u32(0))
    state.put_wide(HI_MASS, Wide(u32(0), u32(0)))
    state.put(LO_COUNT, state.sums[ALL])
    total = state.wide(TOTAL)
    k = keep(w.sampling_i[w.row, TOP_K])
    by_count = T.And(k > 0, u32(k) < state.sums[ALL])
    # The whole row again: the mass above any level is at least that of what top-k has left.
    top_p = keep(w.sampling_f[w.row, TOP_P])
    some = T.Or(total.hi > u32(0), total.lo > u32(0))
    mass = share_of(total, top_p)
    state.put_wide(TARGET, select(by_mass, mass, wide_of(u32(T.max(k, 0)))))
    active = T.Select(by_mass, T.And(top_p < f32(1.0), some), by_count)
    state.put(ACTIVE, keep(T.Select(active, u32(1), u32(0))))
    many = state.sums[ALL] > u32(state.room)
    state.put(SEARCHING, keep(T.Select(many, state.sums[ACTIVE], u32(0))))


def _set_level(w: Row, state: State, heat: Heat, turn: Expr) -> None:
    """Sets this thread's threshold of a pass: they rise, inside the bracket."""
    i = w.thread.t
    low, high = keep(state.ends[LO]), keep(state.ends[HI])
    bottom = score_of(low)
    height = keep(score_of(high - 1) - bottom)
    octaves_below = bits((i32(_FIRST_OCTAVE_BITS) - i) << i32(23), "float32")
    below = key_of(keep(heat.top - octaves_below / heat.factor))
    even = key_of(keep(fma(height, f32(i + 1) * f32(1 / (LEVELS + 1)), bottom)))
    span, rank = keep(u32(high) - u32(low)), keep(u32(i + 1))
    part = (span >> u32(3)) * rank + (((span & u32(7)) * rank) >> u32(3))
    by_key = keep(low + i32(part))
    level = T.Select(turn <= EVEN_PASSES, T.Select(T.EQ(turn, 0), below, even), by_key)
    store(state.levels, T.max(low + 1, T.min(keep(level), high - 1)), i)


def _count_levels(w: Row, state: State, heat: Heat) -> None:
    """Counts and weighs the tokens at or above each threshold, while one is searched for."""
    sums = tally(3 * LEVELS)
    with when(T.NE(state.sums[SEARCHING], u32(0))):
        levels = [keep(state.levels[i]) for i in range(LEVELS)]

        def use(key: Expr) -> None:
            with when(key >= levels[0]):
                weight = heat.weight(key)
                for i, level in enumerate(levels):
                    with when(key >= level):
                        note_token(sums, i, weight)

        each(w, use)
    for i in range(LEVELS):
        mass = mass_of(sums, 3 * i + 1)
        store(sums, mass.hi, 3 * i + 1)
        store(sums, mass.lo, 3 * i + 2)
    with T.serial(0, 3) as which:
        values = [keep(sums[3 * i + which]) for i in range(LEVELS)]
        sum_columns(w.thread, state.scratch, values, state.counted, which * LEVELS)


def _narrow(w: Row, state: State, by_mass: Expr) -> None:
    """Moves the ends of the bracket to the thresholds next to the target."""
    target = state.wide(TARGET)
    with T.serial(0, 2 * LEVELS) as turn:
        # First upwards, for the last level that reaches the target; then downwards.
        up = keep(i32(turn < LEVELS))
        i = keep(T.Select(T.EQ(up, 1), turn, 2 * LEVELS - 1 - turn))
        count = keep(state.counted[i])
        mass = wide(state.counted[LEVELS + i], state.counted[2 * LEVELS + i])
        reached = T.Not(less(select(by_mass, mass, wide_of(count)), target))
        reaches = keep(i32(reached))
        with when(T.And(T.EQ(up, 1), T.EQ(reaches, 1))):
            store(state.ends, state.levels[i], LO)
            state.put(LO_COUNT, count)
        with when(T.And(T.EQ(up, 0), T.EQ(reaches, 0))):
            store(state.ends, state.levels[i], HI)
            state.put(HI_COUNT, count)
            state.put_wide(HI_MASS, mass)
    few = state.sums[LO_COUNT] - state.sums[HI_COUNT] <= u32(state.room)
    one = T.EQ(state.ends[HI] - state.ends[LO], 1)
    done = T.Or(few, one)
    state.put(SEARCHING, keep(T.Select(done, u32(0), u32(1))))


def _rank_near(w: Row, state: State, heat: Heat, by_mass: Expr) -> Expr:
    """The largest key whose tokens and those above reach the target; every thread gets it."""
    t = w.thread.t
    low, high = keep(state.ends[LO]), keep(state.ends[HI])
    several = keep(T.And(T.NE(state.sums[ACTIVE], u32(0)), u32(high) - u32(low) > u32(1)))
    mine = local((1,), "uint32")
    store(mine, 0, 0)

    def inside(key: Expr) -> Expr:
        return T.And(key >= low, key < high)

    def count(key: Expr) -> None:
        with when(inside(key)):
            store(mine, mine[0] + u32(1), 0)

    with when(several):
        each(w, count)
    store(state.scratch, mine[0], t)
    barrier()
    place = tally(2)
    with T.serial(0, state.threads) as i:
        near = keep(T.min(state.scratch[i], u32(w.layout.columns)))
        with when(i < t):
            store(place, place[0] + near, 0)
        store(place, place[1] + near, 1)
    size = keep(i32(T.min(place[1], u32(state.room))))

    def copy(key: Expr) -> None:
        with when(T.And(inside(key), place[0] < u32(state.room))):
            store(state.near, key, i32(place[0]))
            store(place, place[0] + u32(1), 0)

    with when(several):
        each(w, copy)
    barrier()
    best = local((1,), "int32")
    store(best, low, 0)
    with when(several), T.serial(0, state.room // state.threads) as i:
        at = keep(i * state.threads + t)
        with when(at < size):
            key = keep(state.near[at])
            with when(_reaches(state, heat, by_mass, key, size)):
                store(best, T.max(best[0], key), 0)
    return combine_group(w.thread, best[0], state.threads, T.max, state.scratch_i)


def _reaches(state: State, heat: Heat, by_mass: Expr, key: Expr, size: Expr) -> Expr:
    """Whether the near tokens from this key up, and all above the bracket, reach the target."""
    sums = tally()
    with T.serial(0, size) as j:
        other = keep(state.near[j])
        with when(other >= key):
            note_token(sums, 0, heat.weight(other))
    mass = add(state.wide(HI_MASS), mass_of(sums, 1))
    count = wide_of(keep(state.sums[HI_COUNT] + sums[0]))
    return T.Not(less(select(by_mass, mass, count), state.wide(TARGET)))


def _settle(
    state: State, heat: Heat, by_mass: Expr, cut: Expr, above_count: Expr, above_mass: Wide
) -> None:
    """Keeps what is above the cut, and as many of those at it as are missing."""
    weight = heat.weight(cut)
    target, ties = state.wide(TARGET), local((1,), "uint32")
    reached = select(by_mass, above_mass, wide_of(above_count))
    missing = subtract(target, reached)
    each_of = keep(T.Select(by_mass, weight, u32(1)))
    # The smallest number of ties that make up for what is missing, bit by bit.
    store(ties, 0, 0)
    with T.serial(0, 25) as i:
        more = keep(ties[0] + (u32(1 << 24) >> u32(i)))
        # Where one less than `more` ties do not suffice, at least `more` are needed.
        with when(less(multiply(keep(more - u32(1)), each_of), missing)):
            store(ties, more, 0)
    state.put(TIES, ties[0])
    state.put(TIE_WEIGHT, weight)
    state.put_wide(TOTAL, add(above_mass, multiply(ties[0], weight)))
    store(state.ends, cut, CUT)
