"""The score below which top-k and top-p drop every token, found without sorting.

Both keep a prefix of the tokens ordered by (score down, token id up): the shortest whose count, or
mass, reaches a target. So both look for the largest threshold t such that the tokens with a score
of t or more reach it. Each pass over the vocabulary counts and weighs the tokens at or above seven
thresholds inside the bracket; once few tokens are left inside it, they are copied out and the
search ends among them. Which thresholds are tried decides how long that takes, never the result.
"""

from __future__ import annotations

from tvm import tirx
from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T

from edgewise_compiler.kernels.cpu.sampling.scratch import (
    BEST,
    BLOCK,
    CUT,
    FILTERED,
    FIRST_LEVEL,
    FOUND,
    HI,
    HI_COUNT,
    HI_MASS,
    LO,
    LO_COUNT,
    LO_MASS,
    PEAK,
    PHASE,
    SCALE,
    SEARCHING,
    SETTLED,
    SHORTLIST,
    TARGET,
    TIE_WEIGHT,
    TIES,
    TOTAL,
    Work,
    count_of,
    float32,
    int64,
    key,
    mass_of,
    score_at,
    weighed,
    when,
)
from edgewise_compiler.kernels.cpu.vector import (
    LANES,
    bits,
    cast,
    fma,
    lane_max,
    lane_sum,
    let,
    load,
    splat,
    store,
)
from edgewise_compiler.kernels.sampling import LEVELS
from edgewise_runtime.format.abi import TOP_K, TOP_P

# The first pass tries 16, 8, 4 .. 1/4 octaves of probability below the best token, two more cut the
# bracket in equal parts of score, and 11 are what 2**32 keys cut in eight parts need at most.
_FIRST_OCTAVE_BITS = 127 + 4  # the exponent field of 16.0
_EVEN_PASSES = 2
PASSES = 1 + _EVEN_PASSES + 11


def open_top_k(w: Work, row: Expr) -> None:
    """Starts the search for the row's k-th best token, if there are more than k."""
    k = let(w.sampling_i[row, TOP_K])
    with when(tirx.all(k > 0, int64(k) < w.state[row, LO_COUNT])):
        w.put(row, PHASE, SEARCHING)
        w.put(row, TARGET, k)


def open_top_p(w: Work, row: Expr) -> None:
    """Starts the search for the row's top_p of what top-k has left (TOTAL)."""
    top_p = let(w.sampling_f[row, TOP_P])
    with when(top_p < float32(1.0)):
        share = cast(T.max(top_p, float32(0.0)), "float64") * cast(w.state[row, TOTAL], "float64")
        share = let(share)
        whole = let(int64(share))
        target = whole + int64(cast(whole, "float64") < share)
        w.put(row, TARGET, T.min(T.max(target, int64(1)), w.state[row, TOTAL]))
        w.put(row, PHASE, SEARCHING)
        w.put(row, HI, key(w.levels[row, PEAK]) + 1)
        w.put(row, HI_COUNT, 0)
        w.put(row, HI_MASS, 0)


def settle(w: Work, row: Expr) -> None:
    """Ends the passes of a row whose bracket has one key, or few tokens, left."""
    state = w.state
    near = state[row, LO_COUNT] - state[row, HI_COUNT] <= int64(SHORTLIST)
    one = T.EQ(state[row, HI] - state[row, LO], int64(1))
    with when(tirx.any(near, one)):
        w.put(row, PHASE, FOUND)


def set_levels(w: Work, row: Expr, turn: Expr) -> None:
    """Sets the thresholds of pass ``turn`` of a row: rising, inside the bracket."""
    low, high = let(w.state[row, LO]), let(w.state[row, HI])
    bottom = let(score_at(low))
    height = let(score_at(high) - bottom)
    with T.serial(0, LEVELS) as i:
        octaves = let(bits((_FIRST_OCTAVE_BITS - i) << 23, "float32"))
        part = cast(i + 1, "float32") * float32(1.0 / (LEVELS + 1))
        below_peak = w.levels[row, PEAK] - octaves / w.levels[row, SCALE]
        even = fma(height, part, bottom, w.isa)
        by_score = key(let(T.Select(T.EQ(turn, 0), below_peak, even)))
        by_key = low + (((high - low) * int64(i + 1)) >> int64(3))
        level = T.Select(turn <= _EVEN_PASSES, by_score, by_key)
        store(w.levels, score_at(T.max(low + 1, T.min(level, high - 1))), row, i)


def measure_block(w: Work, row: Expr, block: Expr) -> None:
    """Counts and weighs the tokens of a block at or above each threshold."""
    levels = [let(splat(w.levels[row, i])) for i in range(LEVELS)]
    sums = T.sblock_alloc_buffer((LEVELS, LANES), "int64")
    for i in range(LEVELS):
        store(sums, splat(0, LANES, "int64"), i, 0)
    with T.serial(0, T.floordiv(w.width(block), LANES)) as i:
        at = T.bind(block * BLOCK + i * LANES)
        score, weight = let(load(w.scores, row, at)), let(load(w.weights, row, at))
        for j, level in enumerate(levels):
            store(sums, load(sums, j, 0) + weighed(score >= level, weight), j, 0)
    for i in range(LEVELS):
        store(w.partial, lane_sum(load(sums, i, 0)), row, block, FIRST_LEVEL + i)


def narrow(w: Work, row: Expr, by_mass: Expr) -> None:
    """Moves the ends of the bracket to the thresholds next to the target."""
    counts = T.sblock_alloc_buffer((LANES,), "int64")
    masses = T.sblock_alloc_buffer((LANES,), "int64")
    for sums in (counts, masses):
        store(sums, splat(0, LANES, "int64"), 0)
    with T.serial(0, w.blocks) as block:
        # A whole row of `partial`: fields that are no pairs give sums that nothing reads.
        parts = let(load(w.partial, row, block, 0))
        store(counts, load(counts, 0) + count_of(parts), 0)
        store(masses, load(masses, 0) + mass_of(parts), 0)

    def reaches(i: Expr) -> Expr:
        return T.Select(by_mass, masses[i], counts[i]) >= w.state[row, TARGET]

    def move(i: Expr, end: int, count: int, mass: int) -> None:
        w.put(row, end, key(w.levels[row, i - FIRST_LEVEL]))
        w.put(row, count, counts[i])
        w.put(row, mass, masses[i])

    with T.serial(FIRST_LEVEL, FIRST_LEVEL + LEVELS) as i:
        with when(reaches(i)):
            move(i, LO, LO_COUNT, LO_MASS)
    with T.serial(FIRST_LEVEL, FIRST_LEVEL + LEVELS) as i:
        down = T.bind(2 * FIRST_LEVEL + LEVELS - 1 - i)
        with when(tirx.Not(reaches(down))):
            move(down, HI, HI_COUNT, HI_MASS)


def finish(w: Work, row: Expr, by_mass: Expr) -> None:
    """Finds the threshold inside the bracket and how many tokens exactly at it are kept."""
    with when(w.state[row, HI] - w.state[row, LO] > int64(1)):
        _search_near(w, row, _copy_near(w, row), by_mass)
    state = w.state
    tied = let(state[row, LO_COUNT] - state[row, HI_COUNT])
    weight = let(T.floordiv(state[row, LO_MASS] - state[row, HI_MASS], tied))
    missing = let(state[row, TARGET] - T.Select(by_mass, state[row, HI_MASS], state[row, HI_COUNT]))
    each = let(T.Select(by_mass, T.max(weight, int64(1)), int64(1)))
    w.put(row, TIES, T.floordiv(missing + each - 1, each))
    w.put(row, TIE_WEIGHT, weight)
    w.put(row, TOTAL, state[row, HI_MASS] + state[row, TIES] * weight)
    w.put(row, FILTERED, 1)
    w.put(row, PHASE, SETTLED)
    store(w.levels, score_at(state[row, LO]), row, CUT)


def _copy_near(w: Work, row: Expr) -> Expr:
    """Copies scores and weights of the tokens inside the bracket; returns how many."""
    low, high = let(score_at(w.state[row, LO])), let(score_at(w.state[row, HI]))
    found = T.sblock_alloc_buffer((1,), "int32")
    store(found, tirx.const(0, "int32"), 0)

    def inside(score: Expr, lanes: int) -> Expr:
        yes, no = splat(1, lanes, "int32"), splat(0, lanes, "int32")
        below = T.Select(score < splat(high, lanes), yes, no)
        return T.Select(score >= splat(low, lanes), below, no)

    with T.serial(0, w.blocks) as block:
        best = bits(cast(w.partial[row, block, BEST], "int32"), "float32")
        with when(best >= low), T.serial(0, T.floordiv(w.width(block), LANES)) as i:
            at = T.bind(block * BLOCK + i * LANES)
            with when(lane_max(inside(let(load(w.scores, row, at)), LANES)) > 0):
                with T.serial(0, LANES) as lane:
                    score = let(w.scores[row, at + lane])
                    with when(inside(score, 1) > 0):
                        store(w.near_scores, score, row, found[0])
                        store(w.near_weights, w.weights[row, at + lane], row, found[0])
                        store(found, found[0] + 1, 0)
    count = let(found[0])
    # The last vector is filled with scores that reach no threshold.
    store(w.near_scores, splat(float("-inf")), row, count)
    store(w.near_weights, splat(0, LANES, "int32"), row, count)
    return count


def _search_near(w: Work, row: Expr, count: Expr, by_mass: Expr) -> None:
    above_count, above_mass = let(w.state[row, HI_COUNT]), let(w.state[row, HI_MASS])
    target = let(w.state[row, TARGET])
    sums = T.sblock_alloc_buffer((LANES,), "int64")
    with T.serial(0, 32), when(w.state[row, HI] - w.state[row, LO] > int64(1)):
        middle = let(w.state[row, LO] + ((w.state[row, HI] - w.state[row, LO]) >> int64(1)))
        level = let(splat(score_at(middle)))
        store(sums, splat(0, LANES, "int64"), 0)
        with T.serial(0, T.floordiv(count + (LANES - 1), LANES)) as i:
            score = let(load(w.near_scores, row, i * LANES))
            weight = let(load(w.near_weights, row, i * LANES))
            store(sums, load(sums, 0) + weighed(score >= level, weight), 0)
        total = let(lane_sum(load(sums, 0)))
        counted, mass = let(above_count + count_of(total)), let(above_mass + mass_of(total))
        ends = ((LO, LO_COUNT, LO_MASS), (HI, HI_COUNT, HI_MASS))
        with T.If(T.Select(by_mass, mass, counted) >= target):
            for frame, fields in zip((T.Then, T.Else), ends, strict=True):
                with frame():
                    for field, value in zip(fields, (middle, counted, mass), strict=True):
                        w.put(row, field, value)
