"""The keys below which top-k and top-p drop every token, found on the GPU without sorting.

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
from edgewise_compiler.kernels.gpu.sampling.keys import BANNED, key_of, score_of, weight_of
from edgewise_compiler.kernels.gpu.sampling.row import (
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
    THREADS,
    TIE_WEIGHT,
    TIES,
    TOTAL,
    Row,
    State,
    note_token,
)
from edgewise_compiler.kernels.gpu.sampling.wide import (
    SHIFT,
    Wide,
    add,
    halves,
    less,
    multiply,
    scale,
    select,
    subtract,
    wide,
    wide_of,
)
from edgewise_compiler.kernels.gpu.thread import barrier, keep, local, store, when
from edgewise_compiler.kernels.sampling import LEVELS
from edgewise_runtime.format.abi import TOP_K, TOP_P

NEAR = 1024  # tokens that are cheaper to rank in shared memory than to count again
# The first pass tries octaves of probability below the best token, two cut the bracket in equal
# parts of score, and 11 are what 2**32 keys cut in eight parts need at most.
EVEN_PASSES = 2
PASSES = 1 + EVEN_PASSES + 11
_FIRST_OCTAVE_BITS = 127 + 4  # the exponent field of 16.0


def weigh_all(w: Row, state: State, lowest: Expr, top: Expr, factor: Expr) -> None:
    """Counts and weighs all there is to draw, which is what nothing filtered keeps."""
    count, mass = w.measure(lambda key: key >= lowest, u32(1), top, factor, state.counted)
    with when(w.leader()):
        state.put(ALL, count)
        state.put_wide(TOTAL, mass)
        store(state.ends, BANNED, CUT)
        for field in (TIES, TIE_WEIGHT):
            state.put(field, u32(0))
        state.put(FLOOR, u32(1))
    barrier()


def search(w: Row, state: State, by_mass: Expr, lowest: Expr, top: Expr, factor: Expr) -> None:
    """Finds the threshold of top-k (by count) or top-p (by mass), and keeps what it says."""
    with when(w.leader()):
        _open(w, state, by_mass, lowest)
    barrier()
    with T.serial(0, PASSES) as turn:
        with when(w.thread.t < LEVELS):
            _set_level(w, state, turn, top, factor)
        barrier()
        _count_levels(w, state, top, factor)
        with when(T.And(w.leader(), T.NE(state.sums[SEARCHING], u32(0)))):
            _narrow(w, state, by_mass)
        barrier()
    cut = _rank_near(w, state, by_mass, top, factor)
    needed = keep(state.sums[ACTIVE])
    above_count, above_mass = w.measure(lambda key: key > cut, needed, top, factor, state.counted)
    with when(T.And(w.leader(), T.NE(state.sums[ACTIVE], u32(0)))):
        _settle(w, state, by_mass, cut, above_count, above_mass, top, factor)
    barrier()


def _open(w: Row, state: State, by_mass: Expr, lowest: Expr) -> None:
    """Sets the bracket and what is to be reached, if there is anything to filter."""
    store(state.ends, lowest, LO)
    store(state.ends, w.peak + 1, HI)
    state.put(HI_COUNT, u32(0))
    state.put_wide(HI_MASS, Wide(u32(0), u32(0)))
    state.put(LO_COUNT, state.sums[ALL])
    total = state.wide(TOTAL)
    k = keep(w.sampling_i[w.row, TOP_K])
    by_count = T.And(k > 0, u32(k) < state.sums[ALL])
    # The whole row again: the mass above any level is at least that of what top-k has left.
    top_p = keep(w.sampling_f[w.row, TOP_P])
    some = T.Or(total.hi > u32(0), total.lo > u32(0))
    whole = _share(total, keep(T.max(top_p, f32(0.0))))
    nothing = T.And(T.EQ(whole.hi, u32(0)), T.EQ(whole.lo, u32(0)))
    mass = select(nothing, wide_of(u32(1)), whole)
    state.put_wide(TARGET, select(by_mass, mass, wide_of(u32(T.max(k, 0)))))
    active = T.Select(by_mass, T.And(top_p < f32(1.0), some), by_count)
    state.put(ACTIVE, keep(T.Select(active, u32(1), u32(0))))
    many = state.sums[ALL] > u32(NEAR)
    state.put(SEARCHING, keep(T.Select(many, state.sums[ACTIVE], u32(0))))


def _set_level(w: Row, state: State, turn: Expr, top: Expr, factor: Expr) -> None:
    """Sets this thread's threshold of a pass: they rise, inside the bracket."""
    i = w.thread.t
    low, high = keep(state.ends[LO]), keep(state.ends[HI])
    bottom = score_of(low)
    height = keep(score_of(high - 1) - bottom)
    octaves_below = bits((i32(_FIRST_OCTAVE_BITS) - i) << i32(23), "float32")
    below = key_of(keep(top - octaves_below / factor))
    even = key_of(keep(fma(height, f32(i + 1) * f32(1 / (LEVELS + 1)), bottom)))
    span, rank = keep(u32(high) - u32(low)), keep(u32(i + 1))
    part = (span >> u32(3)) * rank + (((span & u32(7)) * rank) >> u32(3))
    by_key = keep(low + i32(part))
    level = T.Select(turn <= EVEN_PASSES, T.Select(T.EQ(turn, 0), below, even), by_key)
    store(state.levels, T.max(low + 1, T.min(keep(level), high - 1)), i)


def _count_levels(w: Row, state: State, top: Expr, factor: Expr) -> None:
    """Counts and weighs the tokens at or above each threshold, while one is searched for."""
    tally = local((3 * LEVELS,), "uint32")
    for i in range(3 * LEVELS):
        store(tally, 0, i)
    with when(T.NE(state.sums[SEARCHING], u32(0))):
        levels = [keep(state.levels[i]) for i in range(LEVELS)]

        def use(at: Expr, key: Expr) -> None:
            with when(key >= levels[0]):
                weight = weight_of(key, top, factor)
                for i, level in enumerate(levels):
                    with when(key >= level):
                        note_token(tally, i, weight)

        w.each(use)
    for i in range(LEVELS):
        mass = halves(tally[3 * i + 1], tally[3 * i + 2])
        store(tally, mass.hi, 3 * i + 1)
        store(tally, mass.lo, 3 * i + 2)
    with T.serial(0, 3) as which:
        values = [keep(tally[3 * i + which]) for i in range(LEVELS)]
        w.sum_columns(values, state.counted, which * LEVELS)


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
    few = state.sums[LO_COUNT] - state.sums[HI_COUNT] <= u32(NEAR)
    one = T.EQ(state.ends[HI] - state.ends[LO], 1)
    done = T.Or(few, one)
    state.put(SEARCHING, keep(T.Select(done, u32(0), u32(1))))


def _rank_near(w: Row, state: State, by_mass: Expr, top: Expr, factor: Expr) -> Expr:
    """The largest key whose tokens and those above reach the target; every thread gets it."""
    t = w.thread.t
    low, high = keep(state.ends[LO]), keep(state.ends[HI])
    several = keep(T.And(T.NE(state.sums[ACTIVE], u32(0)), u32(high) - u32(low) > u32(1)))
    mine = local((1,), "uint32")
    store(mine, 0, 0)

    def inside(key: Expr) -> Expr:
        return T.And(key >= low, key < high)

    def count(at: Expr, key: Expr) -> None:
        with when(inside(key)):
            store(mine, mine[0] + u32(1), 0)

    with when(several):
        w.each(count)
    store(w.scratch, mine[0], t)
    barrier()
    place = local((2,), "uint32")
    for i in range(2):
        store(place, 0, i)
    with T.serial(0, THREADS) as i:
        with when(i < t):
            store(place, place[0] + w.scratch[i], 0)
        store(place, place[1] + w.scratch[i], 1)
    size = keep(i32(T.min(place[1], u32(NEAR))))

    def copy(at: Expr, key: Expr) -> None:
        with when(T.And(inside(key), place[0] < u32(NEAR))):
            store(state.near, key, i32(place[0]))
            store(place, place[0] + u32(1), 0)

    with when(several):
        w.each(copy)
    barrier()
    best = local((1,), "int32")
    store(best, low, 0)
    with when(several), T.serial(0, NEAR // THREADS) as i:
        at = keep(i * THREADS + t)
        with when(at < size):
            key = keep(state.near[at])
            with when(_reaches(w, state, by_mass, key, size, top, factor)):
                store(best, T.max(best[0], key), 0)
    return combine_group(w.thread, best[0], THREADS, T.max, w.scratch_i)


def _reaches(
    w: Row, state: State, by_mass: Expr, key: Expr, size: Expr, top: Expr, factor: Expr
) -> Expr:
    """Whether the near tokens from this key up, and all above the bracket, reach the target."""
    tally = local((3,), "uint32")
    for i in range(3):
        store(tally, 0, i)
    with T.serial(0, size) as j:
        other = keep(state.near[j])
        with when(other >= key):
            note_token(tally, 0, weight_of(other, top, factor))
    mass = add(state.wide(HI_MASS), halves(tally[1], tally[2]))
    count = wide_of(keep(state.sums[HI_COUNT] + tally[0]))
    return T.Not(less(select(by_mass, mass, count), state.wide(TARGET)))


def _settle(
    w: Row,
    state: State,
    by_mass: Expr,
    cut: Expr,
    above_count: Expr,
    above_mass: Wide,
    top: Expr,
    factor: Expr,
) -> None:
    """Keeps what is above the cut, and as many of those at it as are missing."""
    weight = weight_of(cut, top, factor)
    target, ties = state.wide(TARGET), local((1,), "uint32")
    reached = select(by_mass, above_mass, wide_of(above_count))
    missing = subtract(target, reached)
    each = keep(T.Select(by_mass, weight, u32(1)))
    # The smallest number of ties that make up for what is missing, bit by bit.
    store(ties, 0, 0)
    with T.serial(0, 25) as i:
        more = keep(ties[0] + (u32(1 << 24) >> u32(i)))
        # Where one less than `more` ties do not suffice, at least `more` are needed.
        with when(less(multiply(keep(more - u32(1)), each), missing)):
            store(ties, more, 0)
    state.put(TIES, ties[0])
    state.put(TIE_WEIGHT, weight)
    state.put_wide(TOTAL, add(above_mass, multiply(ties[0], weight)))
    store(state.ends, cut, CUT)


def _share(total: Wide, part: Expr) -> Wide:
    """``ceil(total * part)``, exactly, of a float32 from 0 to below 1.

    Multiplied with its mantissa, then shifted by its exponent; what is shifted out rounds up.
    """
    word = keep(bits(part, "uint32"))
    mantissa = keep((word & u32(0x7FFFFF)) | u32(0x800000))
    whole, more = scale(total, mantissa << u32(8))
    left = local((3,), "uint32")
    for i, value in enumerate((whole.hi, whole.lo, T.Select(more, u32(1), u32(0)))):
        store(left, value, i)
    with T.serial(0, keep(T.max(0, T.min(126 - i32(word >> u32(23)), 2 * SHIFT + 8)))):
        store(left, left[2] | (left[1] & u32(1)), 2)
        store(left, (left[1] >> u32(1)) | ((left[0] & u32(1)) << u32(SHIFT - 1)), 1)
        store(left, left[0] >> u32(1), 0)
    return add(Wide(keep(left[0]), keep(left[1])), wide_of(keep(left[2])))
