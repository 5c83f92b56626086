"""Drawing from a whole row on the GPU, where its best tokens did not do: one workgroup a row."""

from __future__ import annotations

from functools import cache

from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer

from edgewise_compiler.kernels.function import STEP, Arg, sampled_arg, table_arg
from edgewise_compiler.kernels.gpu.operations import i32, u32
from edgewise_compiler.kernels.gpu.sampling.layout import LANES, THREADS, Layout
from edgewise_compiler.kernels.gpu.sampling.row import Heat, Row, each_key, is_running
from edgewise_compiler.kernels.gpu.sampling.search import search, weigh_all
from edgewise_compiler.kernels.gpu.sampling.state import (
    CUT,
    FLOOR,
    LEFT,
    PLACE,
    RANK,
    TIE_WEIGHT,
    TIES,
    State,
)
from edgewise_compiler.kernels.gpu.sampling.sums import mass_of, note_weight, tally
from edgewise_compiler.kernels.gpu.sampling.wide import (
    Wide,
    add,
    less,
    multiply,
    scale,
    subtract,
    wide_of,
)
from edgewise_compiler.kernels.gpu.thread import (
    Launch,
    Thread,
    barrier,
    bind,
    keep,
    kernel,
    local,
    store,
    when,
)
from edgewise_compiler.kernels.sampling import SamplingSpec, penalized
from edgewise_runtime.format.abi import SAMPLING_WIDTH, SLOT


@cache
def whole(spec: SamplingSpec, *, subgroups: bool, threads: int = THREADS) -> Launch:
    """The token of every row that `draw` has left, then counts those of rows with a penalty on.

    Arguments: keys uint32 [B, `Layout.words`], left int32 [B], table int32 [B, 8+MP], sampling_f
    float32 and sampling_i int32 [B, 8], sampled int32 [B], changed, counts int32 [B, V], changed (2
    more; the last bit says whether the prompt has the token), step.
    """
    B, V, VP, MP = spec.batch, spec.vocab, spec.columns, spec.pages
    layout = Layout(VP, threads)
    arguments = (
        Arg("keys", "uint32x4", (B, layout.words // LANES)),
        Arg("left", "int32", (B,)),
        table_arg(spec),
        Arg("sampling_f", "float32", (B, SAMPLING_WIDTH)),
        Arg("sampling_i", "int32", (B, SAMPLING_WIDTH)),
        sampled_arg(B, V),
        Arg("counts", "int32", (B, V)),
        STEP,
    )

    def body(
        thread: Thread,
        keys: Buffer,
        left: Buffer,
        table: Buffer,
        sampling_f: Buffer,
        sampling_i: Buffer,
        sampled: Buffer,
        counts: Buffer,
        step: Buffer,
    ) -> None:
        row = thread.x
        with when(is_running(row, B, table, step)):
            w = Row(thread, row, layout, V, keys, sampling_f, sampling_i)
            with when(T.NE(left[row], 0)):
                _draw(w, sampled, w.position())
            with when(T.And(w.leader(), penalized(sampling_f, row))):
                slot, token = bind(table[row, SLOT]), bind(sampled[row])
                with when(token >= 0):
                    store(counts, counts[slot, token] + 2, slot, token)

    name = f"whole_{B}_{V}_{VP}_{MP}{layout.suffix}{'_s' if subgroups else ''}"
    return kernel(
        name,
        arguments,
        body,
        threads=threads,
        grid=("b", 1),
        bounds={"b": B},
        subgroups=subgroups,
    )


def _draw(w: Row, sampled: Buffer, position: Expr) -> None:
    """Draws the token of a row by its temperature and filters."""
    state = State.new(w.layout.threads)
    peak = w.peak()
    heat = w.heat(peak)
    weigh_all(w, state, heat)
    # Two searches by the same code: top-k by count, then top-p by mass.
    with T.serial(0, 2) as stage:
        search(w, state, heat, peak, T.EQ(stage, 1))
    with when(T.And(w.leader(), state.sums[TIE_WEIGHT] < state.sums[FLOOR])):
        state.put(TIES, u32(0))
    barrier()
    _pick(w, state, heat, sampled, position)


def _pick(w: Row, state: State, heat: Heat, sampled: Buffer, position: Expr) -> None:
    """Walks to the token at a random point of the mass that is left, in token order.

    Every thread weighs a run of neighbouring tokens, whole vectors; one thread finds the run, all
    weigh parts of that run, and so on down to a vector.
    """
    columns, vectors = w.layout.columns, w.layout.threads * LANES

    def part(tokens: int) -> int:
        """The tokens of a run where a workgroup divides so many: whole vectors."""
        return -(-tokens // vectors) * LANES

    span_of = [part(columns)]
    while span_of[-1] > LANES:
        span_of.append(part(span_of[-1]))
    first, end, span = (local((1,), "int32") for _ in range(3))
    store(first, 0, 0)
    store(end, columns, 0)
    store(span, span_of[0], 0)
    with T.serial(0, len(span_of)) as level:
        _weigh_runs(w, state, heat, first[0], end[0], span[0])
        with when(w.leader()):
            with when(T.EQ(level, 0)):
                _aim(w, state, position)
            _walk(state)
        barrier()
        store(first, first[0] + i32(state.sums[PLACE]) * span[0], 0)
        # Beyond the run that was found lie other runs' tokens.
        store(end, T.min(first[0] + span[0], columns), 0)
        store(span, LANES * T.floordiv(span[0] + (vectors - 1), vectors), 0)
        barrier()
    with when(w.leader()):
        _walk_vector(w, state, heat, T.min(first[0], columns - LANES), sampled)


def _weigh_runs(w: Row, state: State, heat: Heat, first: Expr, end: Expr, span: Expr) -> None:
    """Ties and mass above the cut of a run of tokens a thread, into shared memory."""
    t = w.thread.t
    sums = tally()
    with T.serial(0, T.floordiv(span, LANES)) as i:
        at = keep(first + t * span + i * LANES)
        with when(at < end):
            vector = bind(w.keys[w.row, T.floordiv(at, LANES)])
            with each_key(vector) as (_, key):
                ties, weight = _kept(state, heat, key)
                store(sums, sums[0] + ties, 0)
                note_weight(sums, 1, weight)
    mass = mass_of(sums, 1)
    for i, value in enumerate((keep(sums[0]), mass.hi, mass.lo)):
        store(state.scratch, value, i * state.threads + t)
    barrier()


def _kept(state: State, heat: Heat, key: Expr) -> tuple[Expr, Expr]:
    """Whether a key is at the cut (0 or 1), and its weight where it is above and heavy enough."""
    cut, weight = keep(state.ends[CUT]), heat.weight(key)
    drawn = T.And(key > cut, weight >= state.sums[FLOOR])
    tied = keep(T.Select(T.EQ(key, cut), u32(1), u32(0)))
    return tied, keep(T.Select(drawn, weight, u32(0)))


def _run(state: State, i: Expr) -> tuple[Expr, Wide]:
    """Ties and mass of the i-th run."""
    scratch, threads = state.scratch, state.threads
    words = Wide(keep(scratch[threads + i]), keep(scratch[2 * threads + i]))
    return keep(scratch[i]), words


def _aim(w: Row, state: State, position: Expr) -> None:
    """Sets the point to walk to: a random part of all that is left."""
    left, total = local((1,), "uint32"), tally(2)
    store(left, state.sums[TIES], 0)
    weight = keep(state.sums[TIE_WEIGHT])
    with T.serial(0, state.threads) as i:
        ties, mass = _run(state, i)
        taken = keep(T.min(ties, left[0]))
        so_far = add(add(Wide(total[0], total[1]), mass), multiply(taken, weight))
        store(total, so_far.hi, 0)
        store(total, so_far.lo, 1)
        store(left, left[0] - taken, 0)
    state.put_wide(RANK, scale(Wide(total[0], total[1]), w.random(position))[0])
    state.put(LEFT, state.sums[TIES])


def _walk(state: State) -> None:
    """Finds the run that the point lies in, and where in it."""
    done = local((1,), "int32")
    store(done, 0, 0)
    state.put(PLACE, u32(0))
    with T.serial(0, state.threads) as i, when(T.EQ(done[0], 0)):
        store(done, _reached(state, *_run(state, i)), 0)
        with when(T.EQ(done[0], 1)):
            state.put(PLACE, u32(i))


def _walk_vector(w: Row, state: State, heat: Heat, first: Expr, sampled: Buffer) -> None:
    """Finds the token of a vector that the point lies in."""
    done = local((1,), "int32")
    store(done, 0, 0)
    first = bind(first)
    store(sampled, first, w.row)
    vector = bind(w.keys[w.row, T.floordiv(first, LANES)])
    with each_key(vector) as (i, key), when(T.EQ(done[0], 0)):
        ties, weight = _kept(state, heat, key)
        store(done, _reached(state, ties, wide_of(weight)), 0)
        with when(T.EQ(done[0], 1)):
            store(sampled, first + i, w.row)


def _reached(state: State, ties: Expr, mass: Wide) -> Expr:
    """Whether the point lies in what has these ties and this mass (0 or 1); goes past it if not."""
    taken = keep(T.min(ties, state.sums[LEFT]))
    everything = add(mass, multiply(taken, keep(state.sums[TIE_WEIGHT])))
    rank = state.wide(RANK)
    inside = keep(T.Select(less(rank, everything), i32(1), i32(0)))
    with when(T.EQ(inside, 0)):
        state.put_wide(RANK, subtract(rank, everything))
        state.put(LEFT, keep(state.sums[LEFT] - taken))
    return inside
