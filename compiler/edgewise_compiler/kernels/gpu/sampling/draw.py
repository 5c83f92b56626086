"""From keys to a token on the GPU: one workgroup a row, which reads as little of it as will do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer

from edgewise_compiler.kernels.function import STEP, Arg, table_arg
from edgewise_compiler.kernels.gpu.operations import f32, i32, u32
from edgewise_compiler.kernels.gpu.reduce import combine_group
from edgewise_compiler.kernels.gpu.sampling.candidates import Candidates, draw_among
from edgewise_compiler.kernels.gpu.sampling.keys import BANNED, UNSOUND
from edgewise_compiler.kernels.gpu.sampling.layout import LANES, THREADS, Layout
from edgewise_compiler.kernels.gpu.sampling.row import Heat, Row, each_key, is_running
from edgewise_compiler.kernels.gpu.sampling.sums import (
    mass_of,
    masses_before,
    note_weight,
    tally,
)
from edgewise_compiler.kernels.gpu.sampling.weigh import masses_shape
from edgewise_compiler.kernels.gpu.sampling.wide import (
    Wide,
    add,
    less,
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
    shared,
    store,
    when,
)
from edgewise_compiler.kernels.sampling import SamplingSpec
from edgewise_runtime.format.abi import (
    NOT_FINITE,
    SAMPLING_WIDTH,
    TEMPERATURE,
    TOP_P,
)


@cache
def draw(spec: SamplingSpec, *, subgroups: bool, threads: int = THREADS) -> Launch:
    """The token of every running row, or what `whole` has to find one for; see `sample`.

    Three ways, chosen by what the row asks for. Greedy: the first token with the largest key.
    Neither top-k nor top-p: by blocks' masses to a block, and to the token in it. With either:
    among the best tokens (`candidates`); a row for which these are too few or too many is left. A
    row whose largest key is UNSOUND or BANNED has no token: NOT_FINITE is written.

    Arguments: keys uint32 [B, `Layout.words`], masses uint32 `masses_shape`, table int32 [B, 8+MP],
    sampling_f float32 and sampling_i int32 [B, 8], sampled int32 [B], left int32 [B] (1: left, 0),
    step.
    """
    B, V, VP, MP = spec.batch, spec.vocab, spec.columns, spec.pages
    layout = Layout(VP, threads)
    arguments = (
        Arg("keys", "uint32x4", (B, layout.words // LANES)),
        Arg("masses", "uint32", masses_shape(spec, threads)),
        table_arg(spec),
        Arg("sampling_f", "float32", (B, SAMPLING_WIDTH)),
        Arg("sampling_i", "int32", (B, SAMPLING_WIDTH)),
        Arg("sampled", "int32", (B,)),
        Arg("left", "int32", (B,)),
        STEP,
    )

    def body(thread: Thread, *buffers: Buffer) -> None:
        keys, masses, table, sampling_f, sampling_i, sampled, left, step = buffers
        row = thread.x
        with when(is_running(row, B, table, step)):
            w = Row(thread, row, layout, V, keys, sampling_f, sampling_i)
            memory = Candidates.new(threads)
            peak = w.peak()
            position = w.position()
            token, rest = local((1,), "int32"), local((1,), "int32")
            store(rest, 0, 0)
            warm = bind(sampling_f[row, TEMPERATURE] > f32(0.0))
            filtered = bind(T.Or(w.top_k() > 0, sampling_f[row, TOP_P] < f32(1.0)))
            heat = w.heat(peak)
            with when(T.Not(warm)):
                store(token, _first_best(w, peak, memory.keys), 0)
            with when(T.And(warm, T.Not(filtered))):
                store(token, _of_all(w, memory, heat, masses, position), 0)
            with when(T.And(warm, filtered)):
                found, answered = draw_among(w, memory, heat, masses, position)
                store(token, found, 0)
                store(rest, 1 - answered, 0)
            with when(w.leader()):
                # Not a branch around the search: not every thread may come to its barriers then.
                sound = bind(T.And(peak > BANNED, peak < UNSOUND))
                store(sampled, T.Select(sound, token[0], i32(NOT_FINITE)), row)
                store(left, T.Select(sound, rest[0], i32(0)), row)

    name = f"draw_{B}_{V}_{VP}_{MP}{layout.suffix}{'_s' if subgroups else ''}"
    return kernel(
        name,
        arguments,
        body,
        threads=threads,
        grid=("b", 1),
        bounds={"b": B},
        subgroups=subgroups,
    )


def _first_best(w: Row, peak: Expr, scratch: Buffer) -> Expr:
    """The lowest token that has the largest key."""
    t, layout = w.thread.t, w.layout
    nearest = local((1,), "int32")
    store(nearest, layout.blocks - 1, 0)
    with when(t < layout.blocks):
        store(nearest, T.Select(T.EQ(w.largest_of(t), peak), t, layout.blocks - 1), 0)
    found = combine_group(w.thread, nearest[0], layout.threads, T.min, scratch)
    block = bind(T.max(0, T.min(found, layout.blocks - 1)))
    store(nearest, layout.columns - 1, 0)
    with w.vectors_of(block, t) as at, each_key(bind(w.keys[w.row, at])) as (i, key):
        with when(T.EQ(key, peak)):
            store(nearest, T.min(nearest[0], at * LANES + i), 0)
    return combine_group(w.thread, nearest[0], layout.threads, T.min, scratch)


def _of_all(w: Row, memory: Candidates, heat: Heat, masses: Buffer, position: Expr) -> Expr:
    """Draws from all that min-p leaves: a block, a thread's run in it, a token of the run."""
    t, layout, floor = w.thread.t, w.layout, w.least_weight()
    scratch, point = memory.weights, shared((3,), "uint32")
    with when(w.leader()):
        store(memory.chosen, 0, 0)
        for i in range(3):
            store(point, 0, i)

    mass = local((2,), "uint32")
    for word in range(2):
        store(mass, 0, word)
        with when(t < layout.blocks):
            store(mass, masses[w.row, t, word], word)
    mine = Wide(keep(mass[0]), keep(mass[1]))
    before, every = masses_before(w.thread, scratch, mine, layout.blocks)
    aim = scale(every, w.random(position))[0]
    with when(_within(aim, before, mine)):
        _note(point, u32(t), subtract(aim, before))
    barrier()

    block, aim = keep(i32(point[0])), Wide(keep(point[1]), keep(point[2]))
    first = keep(block * layout.block + t * (layout.block // layout.threads))

    def weight_of(key: Expr) -> Expr:
        weight = heat.weight(key)
        return keep(T.Select(weight >= floor, weight, u32(0)))

    sums = tally(2)
    with _run(w, first) as at, each_key(bind(w.keys[w.row, at])) as (_, key):
        note_weight(sums, 0, weight_of(key))
    mine = mass_of(sums, 0)
    before, _ = masses_before(w.thread, scratch, mine, layout.threads)
    with when(_within(aim, before, mine)):
        left = tally(3)
        _note(left, u32(0), subtract(aim, before))
        with _run(w, first) as at, each_key(bind(w.keys[w.row, at])) as (i, key):
            weight, rest = wide_of(weight_of(key)), Wide(keep(left[1]), keep(left[2]))
            with when(T.EQ(left[0], u32(0))):
                with T.If(less(rest, weight)):
                    with T.Then():
                        store(memory.chosen, at * LANES + i, 0)
                        store(left, 1, 0)
                    with T.Else():
                        _note(left, u32(0), subtract(rest, weight))
    barrier()
    return keep(memory.chosen[0])


def _within(point: Wide, before: Wide, mass: Wide) -> Expr:
    """Whether a point lies in a mass that begins after another."""
    return T.And(T.Not(less(point, before)), less(point, add(before, mass)))


def _note(memory: Buffer, place: Expr, rest: Wide) -> None:
    """Writes a place down, and how far into it the point lies."""
    for i, value in enumerate((place, rest.hi, rest.lo)):
        store(memory, value, i)


@contextmanager
def _run(w: Row, first: Expr) -> Iterator[Expr]:
    """A loop over the vectors of a thread's run of neighbouring tokens."""
    with T.serial(0, w.layout.vectors) as v:
        at = bind(T.floordiv(first, LANES) + v)
        with when(at < w.layout.columns // LANES):
            yield at
