"""From keys to a token on the GPU: one workgroup a row, exact in any order of its threads.

The thresholds of top-k and top-p are searched for as on the CPU (`threshold.py`): passes over the
vocabulary count and weigh the tokens at or above seven levels inside a bracket of keys; once few
are left in it, they are copied to shared memory, where each finds its own rank. Loops around
barriers have fixed counts, because threads may only wait for each other where all surely come
along; a pass that is not needed costs its barriers only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer

from edgewise_compiler.kernels.function import STEP, Arg
from edgewise_compiler.kernels.gpu import (
    Launch,
    Thread,
    barrier,
    bits,
    f32,
    fma,
    gpu_kernel,
    i32,
    keep,
    local,
    shared,
    store,
    u32,
    when,
)
from edgewise_compiler.kernels.gpu_reduce import combine_group
from edgewise_compiler.kernels.sampling.gpu_keys import (
    BANNED,
    key_of,
    octaves,
    score_of,
    weight_of,
)
from edgewise_compiler.kernels.sampling.gpu_scores import BLOCK, blocks_of
from edgewise_compiler.kernels.sampling.gpu_wide import (
    SHIFT,
    Wide,
    add,
    full_product,
    halves,
    less,
    multiply,
    scale,
    select,
    subtract,
    wide,
    wide_of,
)
from edgewise_compiler.kernels.sampling.scratch import (
    HEADER,
    KV_LEN,
    LEVELS,
    MIN_P,
    SEED_HIGH,
    SEED_LOW,
    SEQUENCE,
    STOP,
    TEMPERATURE,
    TOP_K,
    TOP_P,
    WEIGHT_BITS,
)

THREADS = 256
NEAR = 1024  # tokens that are cheaper to rank in shared memory than to count again
# The first pass tries octaves of probability below the best token, two cut the bracket in equal
# parts of score, and 11 are what 2**32 keys cut in eight parts need at most.
EVEN_PASSES = 2
PASSES = 1 + EVEN_PASSES + 11
_FIRST_OCTAVE_BITS = 127 + 4  # the exponent field of 16.0
OCTAVES = 32.0  # a token so many octaves below the best one has probability 0
LOWEST_KEY = BANNED + 1

_PHILOX_ROUNDS, _PHILOX_MULTIPLIERS = 10, (0xD2511F53, 0xCD9E8D57)
_PHILOX_STEPS = (0x9E3779B9, 0xBB67AE85)

# Fields of `keys` (int32) and of `sums` (uint32) in shared memory.
LO, HI, CUT = range(3)
(
    LO_COUNT,
    HI_COUNT,
    HI_MASS,
    _,
    TARGET,
    _,
    TOTAL,
    _,
    TIES,
    TIE_WEIGHT,
    FLOOR,
    SEARCHING,
    ACTIVE,
    PLACE,
    RANK,
    _,
    LEFT,
    ALL,
    SUMS,
) = range(19)
"""A wide number takes two fields, the high word first."""


@cache
def gpu_draw(B: int, V: int, VP: int, MP: int, *, advance: bool, subgroups: bool) -> Launch:
    """The token of every running row from its keys and parameters; see `sample` for the rules.

    Arguments: keys int32 [B, VP], best int32 [B, blocks], table int32 [B, 8+MP], sampling_f
    float32 and sampling_i int32 [B, 8], sampled int32 [B], step. Greedy rows do nothing but look
    the best key up.
    """
    arguments = (
        Arg("keys", "int32", (B, VP)),
        Arg("best", "int32", (B, blocks_of(VP))),
        Arg("table", "int32", (B, HEADER + MP)),
        Arg("sampling_f", "float32", (B, 8)),
        Arg("sampling_i", "int32", (B, 8)),
        Arg("sampled", "int32", (B,)),
        STEP,
    )

    def body(thread: Thread, *buffers: Buffer) -> None:
        keys, best, table, sampling_f, sampling_i, sampled, step = buffers
        row = thread.x
        with when(T.And(row < T.min(step[1], B), T.EQ(table[row, STOP], 0))):
            scratch = shared((LEVELS * THREADS,), "uint32")
            scratch_i = shared((THREADS,), "int32")
            peak = _peak(thread, best, row, blocks_of(VP), scratch_i)
            with T.If(sampling_f[row, TEMPERATURE] > f32(0.0)):
                with T.Then():
                    position = table[row, KV_LEN] + int(advance)
                    draw = _Draw(
                        thread, row, VP, keys, sampling_f, sampling_i, peak, scratch, scratch_i
                    )
                    draw.run(sampled, position)
                with T.Else():
                    token = _first_best(thread, keys, best, row, VP, peak, scratch_i)
                    with when(T.EQ(thread.t, 0)):
                        store(sampled, token, row)

    name = f"draw_{B}_{V}_{VP}_{MP}{'_advance' if advance else ''}{'_s' if subgroups else ''}"
    return gpu_kernel(
        name,
        arguments,
        body,
        threads=THREADS,
        grid=("b", 1),
        bounds={"b": B},
        subgroups=subgroups,
    )


def _peak(thread: Thread, best: Buffer, row: Expr, blocks: int, scratch: Buffer) -> Expr:
    """The largest key of the row."""
    largest = local((1,), "int32")
    store(largest, BANNED, 0)
    with T.serial(0, -(-blocks // THREADS)) as i:
        at = keep(i * THREADS + thread.t)
        with when(at < blocks):
            store(largest, T.max(largest[0], best[row, at]), 0)
    return combine_group(thread, largest[0], THREADS, T.max, scratch)


def _first_best(
    thread: Thread, keys: Buffer, best: Buffer, row: Expr, VP: int, peak: Expr, scratch: Buffer
) -> Expr:
    """The lowest token that has the largest key."""
    nearest = local((1,), "int32")
    blocks = blocks_of(VP)
    store(nearest, blocks - 1, 0)
    with T.serial(0, -(-blocks // THREADS)) as i:
        at = keep(i * THREADS + thread.t)
        with when(at < blocks):
            found = T.Select(T.EQ(best[row, at], peak), at, blocks - 1)
            store(nearest, T.min(nearest[0], found), 0)
    block = combine_group(thread, nearest[0], THREADS, T.min, scratch)
    store(nearest, VP - 1, 0)
    with T.serial(0, BLOCK // THREADS) as i:
        at = keep(block * BLOCK + i * THREADS + thread.t)
        with when(at < VP):
            found = T.Select(T.EQ(keys[row, at], peak), at, VP - 1)
            store(nearest, T.min(nearest[0], found), 0)
    return combine_group(thread, nearest[0], THREADS, T.min, scratch)


@dataclass(frozen=True)
class _Draw:
    """The draw of one row: what its steps share."""

    thread: Thread
    row: Expr
    VP: int
    keys: Buffer
    sampling_f: Buffer
    sampling_i: Buffer
    peak: Expr
    scratch: Buffer
    scratch_i: Buffer

    def run(self, sampled: Buffer, position: Expr) -> None:
        ends, sums = shared((4,), "int32"), shared((SUMS,), "uint32")
        near, levels = shared((NEAR,), "int32"), shared((LEVELS,), "int32")
        counted = shared((3 * LEVELS,), "uint32")
        state = _State(ends, sums, near, levels, counted)
        factor = octaves(self.sampling_f[self.row, TEMPERATURE])
        top = score_of(self.peak)
        lowest = T.max(key_of(keep(top - f32(OCTAVES) / factor)), i32(LOWEST_KEY))
        lowest = keep(T.min(lowest, self.peak))
        self._weigh_all(state, lowest, top, factor)
        # Two searches by the same code: top-k by count, then top-p by mass.
        with T.serial(0, 2) as stage:
            self._search(state, T.EQ(stage, 1), lowest, top, factor)
        self._min_p(state)
        self._pick(state, top, factor, sampled, position)

    def _each(self, use: Callable[[Expr, Expr], None]) -> None:
        """Calls ``use(token, key)`` for every 256th token of the row."""
        with T.serial(0, -(-self.VP // THREADS)) as i:
            at = keep(i * THREADS + self.thread.t)
            with when(at < self.VP):
                use(at, keep(self.keys[self.row, at]))

    def _leader(self) -> Expr:
        return T.EQ(self.thread.t, 0)

    def _weigh_all(self, state: _State, lowest: Expr, top: Expr, factor: Expr) -> None:
        """Counts and weighs all there is to draw, which is what nothing filtered keeps."""
        count, mass = self._measure(lambda key: key >= lowest, u32(1), top, factor)
        with when(self._leader()):
            state.put(ALL, count)
            state.put_wide(TOTAL, mass)
            store(state.ends, BANNED, CUT)
            for field in (TIES, TIE_WEIGHT):
                state.put(field, u32(0))
            state.put(FLOOR, u32(1))
        barrier()

    def _measure(
        self, wanted: Callable[[Expr], Expr], needed: Expr, top: Expr, factor: Expr
    ) -> tuple[Expr, Wide]:
        """Number and mass of the tokens whose key is ``wanted``; every thread gets them.

        Zeros where they are not ``needed``.
        """
        local_sums = local((3,), "uint32")
        for i in range(3):
            store(local_sums, 0, i)

        def use(at: Expr, key: Expr) -> None:
            with when(wanted(key)):
                _tally(local_sums, 0, weight_of(key, top, factor))

        with when(T.NE(needed, u32(0))):
            self._each(use)
        part = halves(local_sums[1], local_sums[2])
        count = self._total(local_sums[0])
        return count, wide(self._total(part.hi), self._total(part.lo))

    def _total(self, value: Expr) -> Expr:
        return combine_group(self.thread, value, THREADS, lambda a, b: a + b, self.scratch)

    def _search(self, state: _State, by_mass: Expr, lowest: Expr, top: Expr, factor: Expr) -> None:
        """Finds the threshold of top-k (by count) or top-p (by mass), and keeps what it says."""
        with when(self._leader()):
            self._open(state, by_mass, lowest)
        barrier()
        with T.serial(0, PASSES) as turn:
            with when(self.thread.t < LEVELS):
                self._set_level(state, turn, top, factor)
            barrier()
            self._count_levels(state, top, factor)
            with when(T.And(self._leader(), T.NE(state.sums[SEARCHING], u32(0)))):
                self._narrow(state, by_mass)
            barrier()
        cut = self._rank_near(state, by_mass, top, factor)
        needed = keep(state.sums[ACTIVE])
        above_count, above_mass = self._measure(lambda key: key > cut, needed, top, factor)
        with when(T.And(self._leader(), T.NE(state.sums[ACTIVE], u32(0)))):
            self._settle(state, by_mass, cut, above_count, above_mass, top, factor)
        barrier()

    def _open(self, state: _State, by_mass: Expr, lowest: Expr) -> None:
        """Sets the bracket and what is to be reached, if there is anything to filter."""
        store(state.ends, lowest, LO)
        store(state.ends, self.peak + 1, HI)
        state.put(HI_COUNT, u32(0))
        state.put_wide(HI_MASS, Wide(u32(0), u32(0)))
        state.put(LO_COUNT, state.sums[ALL])
        total = state.wide(TOTAL)
        k = keep(self.sampling_i[self.row, TOP_K])
        by_count = T.And(k > 0, u32(k) < state.sums[ALL])
        # The whole row again: the mass above any level is at least that of what top-k has left.
        top_p = keep(self.sampling_f[self.row, TOP_P])
        some = T.Or(total.hi > u32(0), total.lo > u32(0))
        whole = _share(total, keep(T.max(top_p, f32(0.0))))
        nothing = T.And(T.EQ(whole.hi, u32(0)), T.EQ(whole.lo, u32(0)))
        mass = select(nothing, wide_of(u32(1)), whole)
        state.put_wide(TARGET, select(by_mass, mass, wide_of(u32(T.max(k, 0)))))
        active = T.Select(by_mass, T.And(top_p < f32(1.0), some), by_count)
        state.put(ACTIVE, keep(T.Select(active, u32(1), u32(0))))
        many = state.sums[ALL] > u32(NEAR)
        state.put(SEARCHING, keep(T.Select(many, state.sums[ACTIVE], u32(0))))

    def _set_level(self, state: _State, turn: Expr, top: Expr, factor: Expr) -> None:
        """Sets this thread's threshold of a pass: they rise, inside the bracket."""
        i = self.thread.t
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

    def _count_levels(self, state: _State, top: Expr, factor: Expr) -> None:
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
                            _tally(tally, i, weight)

            self._each(use)
        parts = [halves(tally[3 * i + 1], tally[3 * i + 2]) for i in range(LEVELS)]
        rounds = (
            [tally[3 * i] for i in range(LEVELS)],
            [part.hi for part in parts],
            [part.lo for part in parts],
        )
        for which, values in enumerate(rounds):
            self._sum_columns(values, state.counted, which * LEVELS)

    def _sum_columns(self, values: list[Expr], out: Buffer, first: int) -> None:
        """``out[first + i]`` becomes the sum of ``values[i]`` over the threads."""
        t, scratch = self.thread.t, self.scratch
        for i, value in enumerate(values):
            store(scratch, value, i * THREADS + t)
        barrier()
        run = 8
        total = local((1,), "uint32")
        columns = len(values) * (THREADS // run)
        store(total, 0, 0)
        with when(t < columns), T.serial(0, run) as i:
            store(total, total[0] + scratch[t * run + i], 0)
        barrier()
        with when(t < columns):
            store(scratch, total[0], t)
        barrier()
        with when(t < len(values)):
            store(total, 0, 0)
            with T.serial(0, THREADS // run) as i:
                store(total, total[0] + scratch[t * (THREADS // run) + i], 0)
            store(out, total[0], first + t)
        barrier()

    def _narrow(self, state: _State, by_mass: Expr) -> None:
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

    def _rank_near(self, state: _State, by_mass: Expr, top: Expr, factor: Expr) -> Expr:
        """The largest key whose tokens and those above reach the target; every thread gets it."""
        t = self.thread.t
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
            self._each(count)
        store(self.scratch, mine[0], t)
        barrier()
        place = local((2,), "uint32")
        for i in range(2):
            store(place, 0, i)
        with T.serial(0, THREADS) as i:
            with when(i < t):
                store(place, place[0] + self.scratch[i], 0)
            store(place, place[1] + self.scratch[i], 1)
        size = keep(i32(T.min(place[1], u32(NEAR))))

        def copy(at: Expr, key: Expr) -> None:
            with when(T.And(inside(key), place[0] < u32(NEAR))):
                store(state.near, key, i32(place[0]))
                store(place, place[0] + u32(1), 0)

        with when(several):
            self._each(copy)
        barrier()
        best = local((1,), "int32")
        store(best, low, 0)
        with when(several), T.serial(0, NEAR // THREADS) as i:
            at = keep(i * THREADS + t)
            with when(at < size):
                key = keep(state.near[at])
                with when(self._reaches(state, by_mass, key, size, top, factor)):
                    store(best, T.max(best[0], key), 0)
        return combine_group(self.thread, best[0], THREADS, T.max, self.scratch_i)

    def _reaches(
        self, state: _State, by_mass: Expr, key: Expr, size: Expr, top: Expr, factor: Expr
    ) -> Expr:
        """Whether the near tokens from this key up, and all above the bracket, reach the target."""
        tally = local((3,), "uint32")
        for i in range(3):
            store(tally, 0, i)
        with T.serial(0, size) as j:
            other = keep(state.near[j])
            with when(other >= key):
                _tally(tally, 0, weight_of(other, top, factor))
        mass = add(state.wide(HI_MASS), halves(tally[1], tally[2]))
        count = wide_of(keep(state.sums[HI_COUNT] + tally[0]))
        return T.Not(less(select(by_mass, mass, count), state.wide(TARGET)))

    def _settle(
        self,
        state: _State,
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

    def _min_p(self, state: _State) -> None:
        """Drops tokens less than min_p times as likely as the best one."""
        min_p = keep(self.sampling_f[self.row, MIN_P])
        with when(self._leader()):
            with when(min_p > f32(0.0)):
                least = keep(T.min(min_p, f32(1.0)) * f32(2.0**WEIGHT_BITS))
                whole = keep(u32(least))
                rounded = keep(whole + T.Select(f32(whole) < least, u32(1), u32(0)))
                state.put(FLOOR, keep(T.max(rounded, u32(1))))
            with when(state.sums[TIE_WEIGHT] < state.sums[FLOOR]):
                state.put(TIES, u32(0))
        barrier()

    def _pick(
        self, state: _State, top: Expr, factor: Expr, sampled: Buffer, position: Expr
    ) -> None:
        """Walks to the token at a random point of the mass that is left, in token order.

        Every thread weighs a run of neighbouring tokens; one thread finds the run, all weigh parts
        of that run, and so on down to the token.
        """
        run, depth = -(-self.VP // THREADS), 1
        while THREADS**depth < self.VP:
            depth += 1
        first, end, span = (local((1,), "int32") for _ in range(3))
        store(first, 0, 0)
        store(end, self.VP, 0)
        store(span, run, 0)
        with T.serial(0, depth) as level:
            self._weigh_runs(state, first[0], end[0], span[0], top, factor)
            with when(self._leader()):
                with when(T.EQ(level, 0)):
                    self._aim(state, position)
                self._walk(state)
            barrier()
            store(first, first[0] + i32(state.sums[PLACE]) * span[0], 0)
            # Beyond the run that was found lie other runs' tokens.
            store(end, T.min(first[0] + span[0], self.VP), 0)
            store(span, T.floordiv(span[0] + (THREADS - 1), THREADS), 0)
            barrier()
        with when(self._leader()):
            store(sampled, T.max(0, T.min(first[0], self.VP - 1)), self.row)

    def _weigh_runs(
        self, state: _State, first: Expr, end: Expr, span: Expr, top: Expr, factor: Expr
    ) -> None:
        """Ties and mass above the cut of a run of tokens a thread, into shared memory."""
        t = self.thread.t
        cut, floor = keep(state.ends[CUT]), keep(state.sums[FLOOR])
        tally = local((3,), "uint32")
        for i in range(3):
            store(tally, 0, i)
        with T.serial(0, span) as i:
            at = keep(first + t * span + i)
            with when(at < end):
                key = keep(self.keys[self.row, at])
                with when(key > cut):
                    weight = weight_of(key, top, factor)
                    kept = keep(T.Select(weight >= floor, weight, u32(0)))
                    store(tally, tally[1] + (kept >> u32(16)), 1)
                    store(tally, tally[2] + (kept & u32(0xFFFF)), 2)
                with when(T.EQ(key, cut)):
                    store(tally, tally[0] + u32(1), 0)
        mass = halves(tally[1], tally[2])
        for i, value in enumerate((tally[0], mass.hi, mass.lo)):
            store(self.scratch, value, i * THREADS + t)
        barrier()

    def _run(self, i: Expr) -> tuple[Expr, Wide]:
        """Ties and mass of the i-th run."""
        words = Wide(keep(self.scratch[THREADS + i]), keep(self.scratch[2 * THREADS + i]))
        return keep(self.scratch[i]), words

    def _aim(self, state: _State, position: Expr) -> None:
        """Sets the point to walk to: a random part of all that is left."""
        left, total = local((1,), "uint32"), local((2,), "uint32")
        store(left, state.sums[TIES], 0)
        for i in range(2):
            store(total, 0, i)
        weight = keep(state.sums[TIE_WEIGHT])
        with T.serial(0, THREADS) as i:
            ties, mass = self._run(i)
            taken = keep(T.min(ties, left[0]))
            so_far = add(add(Wide(total[0], total[1]), mass), multiply(taken, weight))
            store(total, so_far.hi, 0)
            store(total, so_far.lo, 1)
            store(left, left[0] - taken, 0)
        random = self._random(position)
        state.put_wide(RANK, scale(Wide(total[0], total[1]), random)[0])
        state.put(LEFT, state.sums[TIES])

    def _walk(self, state: _State) -> None:
        """Finds the run that the point lies in, and where in it."""
        done = local((1,), "int32")
        store(done, 0, 0)
        state.put(PLACE, u32(0))
        weight = keep(state.sums[TIE_WEIGHT])
        with T.serial(0, THREADS) as i, when(T.EQ(done[0], 0)):
            ties, mass = self._run(i)
            taken = keep(T.min(ties, state.sums[LEFT]))
            whole = add(mass, multiply(taken, weight))
            rank = state.wide(RANK)
            inside = keep(less(rank, whole))
            with T.If(inside):
                with T.Then():
                    state.put(PLACE, u32(i))
                    store(done, 1, 0)
                with T.Else():
                    state.put_wide(RANK, subtract(rank, whole))
                    state.put(LEFT, keep(state.sums[LEFT] - taken))

    def _random(self, position: Expr) -> Expr:
        """32 random bits for this position of this sequence: the first word of Philox4x32-10."""
        integers, row = self.sampling_i, self.row
        words, keys = local((4,), "uint32"), local((2,), "uint32")
        for i, word in enumerate((u32(position), u32(integers[row, SEQUENCE]), u32(0), u32(0))):
            store(words, word, i)
        for i, field in enumerate((SEED_LOW, SEED_HIGH)):
            store(keys, u32(integers[row, field]), i)
        with T.serial(0, _PHILOX_ROUNDS):
            high0, low0 = full_product(words[0], u32(_PHILOX_MULTIPLIERS[0]))
            high1, low1 = full_product(words[2], u32(_PHILOX_MULTIPLIERS[1]))
            first, third = keep(high1 ^ words[1] ^ keys[0]), keep(high0 ^ words[3] ^ keys[1])
            for i, word in enumerate((first, low1, third, low0)):
                store(words, word, i)
            for i, step in enumerate(_PHILOX_STEPS):
                store(keys, keys[i] + u32(step), i)
        return words[0]


@dataclass(frozen=True)
class _State:
    """What the threads of a row share: the ends of the bracket, sums, near keys, levels."""

    ends: Buffer
    sums: Buffer
    near: Buffer
    levels: Buffer
    counted: Buffer

    def put(self, field: int, value: Expr) -> None:
        store(self.sums, value, field)

    def put_wide(self, field: int, value: Wide) -> None:
        store(self.sums, value.hi, field)
        store(self.sums, value.lo, field + 1)

    def wide(self, field: int) -> Wide:
        return Wide(keep(self.sums[field]), keep(self.sums[field + 1]))


def _tally(sums: Buffer, which: int, weight: Expr) -> None:
    """Adds one token to a count and to the sums of its weight's halves."""
    store(sums, sums[3 * which] + u32(1), 3 * which)
    store(sums, sums[3 * which + 1] + (weight >> u32(16)), 3 * which + 1)
    store(sums, sums[3 * which + 2] + (weight & u32(0xFFFF)), 3 * which + 2)


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
