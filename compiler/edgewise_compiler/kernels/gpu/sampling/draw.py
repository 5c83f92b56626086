"""From keys to a token on the GPU: one workgroup a row, exact in any order of its threads."""

from __future__ import annotations

from functools import cache

from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer

from edgewise_compiler.kernels.function import STEP, Arg
from edgewise_compiler.kernels.gpu.operations import f32, i32, u32
from edgewise_compiler.kernels.gpu.reduce import combine_group
from edgewise_compiler.kernels.gpu.sampling.keys import BANNED, key_of, octaves, score_of, weight_of
from edgewise_compiler.kernels.gpu.sampling.row import (
    CUT,
    FLOOR,
    LEFT,
    PLACE,
    RANK,
    SUMS,
    THREADS,
    TIE_WEIGHT,
    TIES,
    Row,
    State,
)
from edgewise_compiler.kernels.gpu.sampling.scores import BLOCK, blocks_of
from edgewise_compiler.kernels.gpu.sampling.search import NEAR, search, weigh_all
from edgewise_compiler.kernels.gpu.sampling.wide import (
    Wide,
    add,
    full_product,
    halves,
    less,
    multiply,
    scale,
    subtract,
)
from edgewise_compiler.kernels.gpu.thread import (
    Launch,
    Thread,
    barrier,
    keep,
    kernel,
    local,
    shared,
    store,
    when,
)
from edgewise_compiler.kernels.numbers import WEIGHT_BITS
from edgewise_compiler.kernels.sampling import LEVELS, SamplingSpec
from edgewise_runtime.format.abi import (
    KV_LEN,
    MIN_P,
    SAMPLING_WIDTH,
    SEED_HIGH,
    SEED_LOW,
    SEQUENCE,
    SEQUENCES,
    STOP,
    TABLE_HEADER,
    TEMPERATURE,
)

OCTAVES = 32.0  # a token so many octaves below the best one has probability 0
LOWEST_KEY = BANNED + 1

_PHILOX_ROUNDS, _PHILOX_MULTIPLIERS = 10, (0xD2511F53, 0xCD9E8D57)
_PHILOX_STEPS = (0x9E3779B9, 0xBB67AE85)


@cache
def draw(spec: SamplingSpec, *, advance: bool, subgroups: bool) -> Launch:
    """The token of every running row from its keys and parameters; see `sample` for the rules.

    Arguments: keys int32 [B, VP], best int32 [B, blocks], table int32 [B, 8+MP], sampling_f
    float32 and sampling_i int32 [B, 8], sampled int32 [B], step. Greedy rows do nothing but look
    the best key up.
    """
    B, V, VP, MP = spec.batch, spec.vocab, spec.columns, spec.pages
    arguments = (
        Arg("keys", "int32", (B, VP)),
        Arg("best", "int32", (B, blocks_of(VP))),
        Arg("table", "int32", (B, TABLE_HEADER + MP)),
        Arg("sampling_f", "float32", (B, SAMPLING_WIDTH)),
        Arg("sampling_i", "int32", (B, SAMPLING_WIDTH)),
        Arg("sampled", "int32", (B,)),
        STEP,
    )

    def body(thread: Thread, *buffers: Buffer) -> None:
        keys, best, table, sampling_f, sampling_i, sampled, step = buffers
        row = thread.x
        with when(T.And(row < T.min(step[SEQUENCES], B), T.EQ(table[row, STOP], 0))):
            scratch = shared((LEVELS * THREADS,), "uint32")
            scratch_i = shared((THREADS,), "int32")
            peak = _peak(thread, best, row, blocks_of(VP), scratch_i)
            with T.If(sampling_f[row, TEMPERATURE] > f32(0.0)):
                with T.Then():
                    position = table[row, KV_LEN] + int(advance)
                    whole = Row(
                        thread, row, VP, keys, sampling_f, sampling_i, peak, scratch, scratch_i
                    )
                    _draw(whole, sampled, position)
                with T.Else():
                    token = _first_best(thread, keys, best, row, VP, peak, scratch_i)
                    with when(T.EQ(thread.t, 0)):
                        store(sampled, token, row)

    name = f"draw_{B}_{V}_{VP}_{MP}{'_advance' if advance else ''}{'_s' if subgroups else ''}"
    return kernel(
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


def _draw(w: Row, sampled: Buffer, position: Expr) -> None:
    """Draws the token of a row by its temperature and filters."""
    ends, sums = shared((4,), "int32"), shared((SUMS,), "uint32")
    near, levels = shared((NEAR,), "int32"), shared((LEVELS,), "int32")
    counted = shared((3 * LEVELS,), "uint32")
    state = State(ends, sums, near, levels, counted)
    factor = octaves(w.sampling_f[w.row, TEMPERATURE])
    top = score_of(w.peak)
    lowest = T.max(key_of(keep(top - f32(OCTAVES) / factor)), i32(LOWEST_KEY))
    lowest = keep(T.min(lowest, w.peak))
    weigh_all(w, state, lowest, top, factor)
    # Two searches by the same code: top-k by count, then top-p by mass.
    with T.serial(0, 2) as stage:
        search(w, state, T.EQ(stage, 1), lowest, top, factor)
    _min_p(w, state)
    _pick(w, state, top, factor, sampled, position)


def _min_p(w: Row, state: State) -> None:
    """Drops tokens less than min_p times as likely as the best one."""
    min_p = keep(w.sampling_f[w.row, MIN_P])
    with when(w.leader()):
        with when(min_p > f32(0.0)):
            least = keep(T.min(min_p, f32(1.0)) * f32(2.0**WEIGHT_BITS))
            whole = keep(u32(least))
            rounded = keep(whole + T.Select(f32(whole) < least, u32(1), u32(0)))
            state.put(FLOOR, keep(T.max(rounded, u32(1))))
        with when(state.sums[TIE_WEIGHT] < state.sums[FLOOR]):
            state.put(TIES, u32(0))
    barrier()


def _pick(w: Row, state: State, top: Expr, factor: Expr, sampled: Buffer, position: Expr) -> None:
    """Walks to the token at a random point of the mass that is left, in token order.

    Every thread weighs a run of neighbouring tokens; one thread finds the run, all weigh parts
    of that run, and so on down to the token.
    """
    run, depth = -(-w.VP // THREADS), 1
    while THREADS**depth < w.VP:
        depth += 1
    first, end, span = (local((1,), "int32") for _ in range(3))
    store(first, 0, 0)
    store(end, w.VP, 0)
    store(span, run, 0)
    with T.serial(0, depth) as level:
        _weigh_runs(w, state, first[0], end[0], span[0], top, factor)
        with when(w.leader()):
            with when(T.EQ(level, 0)):
                _aim(w, state, position)
            _walk(w, state)
        barrier()
        store(first, first[0] + i32(state.sums[PLACE]) * span[0], 0)
        # Beyond the run that was found lie other runs' tokens.
        store(end, T.min(first[0] + span[0], w.VP), 0)
        store(span, T.floordiv(span[0] + (THREADS - 1), THREADS), 0)
        barrier()
    with when(w.leader()):
        store(sampled, T.max(0, T.min(first[0], w.VP - 1)), w.row)


def _weigh_runs(
    w: Row, state: State, first: Expr, end: Expr, span: Expr, top: Expr, factor: Expr
) -> None:
    """Ties and mass above the cut of a run of tokens a thread, into shared memory."""
    t = w.thread.t
    cut, floor = keep(state.ends[CUT]), keep(state.sums[FLOOR])
    tally = local((3,), "uint32")
    for i in range(3):
        store(tally, 0, i)
    with T.serial(0, span) as i:
        at = keep(first + t * span + i)
        with when(at < end):
            key = keep(w.keys[w.row, at])
            with when(key > cut):
                weight = weight_of(key, top, factor)
                kept = keep(T.Select(weight >= floor, weight, u32(0)))
                store(tally, tally[1] + (kept >> u32(16)), 1)
                store(tally, tally[2] + (kept & u32(0xFFFF)), 2)
            with when(T.EQ(key, cut)):
                store(tally, tally[0] + u32(1), 0)
    mass = halves(tally[1], tally[2])
    for i, value in enumerate((tally[0], mass.hi, mass.lo)):
        store(w.scratch, value, i * THREADS + t)
    barrier()


def _run(w: Row, i: Expr) -> tuple[Expr, Wide]:
    """Ties and mass of the i-th run."""
    words = Wide(keep(w.scratch[THREADS + i]), keep(w.scratch[2 * THREADS + i]))
    return keep(w.scratch[i]), words


def _aim(w: Row, state: State, position: Expr) -> None:
    """Sets the point to walk to: a random part of all that is left."""
    left, total = local((1,), "uint32"), local((2,), "uint32")
    store(left, state.sums[TIES], 0)
    for i in range(2):
        store(total, 0, i)
    weight = keep(state.sums[TIE_WEIGHT])
    with T.serial(0, THREADS) as i:
        ties, mass = _run(w, i)
        taken = keep(T.min(ties, left[0]))
        so_far = add(add(Wide(total[0], total[1]), mass), multiply(taken, weight))
        store(total, so_far.hi, 0)
        store(total, so_far.lo, 1)
        store(left, left[0] - taken, 0)
    random = _random(w, position)
    state.put_wide(RANK, scale(Wide(total[0], total[1]), random)[0])
    state.put(LEFT, state.sums[TIES])


def _walk(w: Row, state: State) -> None:
    """Finds the run that the point lies in, and where in it."""
    done = local((1,), "int32")
    store(done, 0, 0)
    state.put(PLACE, u32(0))
    weight = keep(state.sums[TIE_WEIGHT])
    with T.serial(0, THREADS) as i, when(T.EQ(done[0], 0)):
        ties, mass = _run(w, i)
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


def _random(w: Row, position: Expr) -> Expr:
    """32 random bits for this position of this sequence: the first word of Philox4x32-10."""
    integers, row = w.sampling_i, w.row
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
