"""The mass of each block of the vocabulary on the GPU, where a draw needs that of all."""

from __future__ import annotations

from functools import cache

from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer

from edgewise_compiler.kernels.function import STEP, Arg, table_arg
from edgewise_compiler.kernels.gpu.operations import f32, u32
from edgewise_compiler.kernels.gpu.sampling.layout import LANES, THREADS, Layout
from edgewise_compiler.kernels.gpu.sampling.row import Row, each_key, is_running
from edgewise_compiler.kernels.gpu.sampling.sums import (
    mass_of,
    note_weight,
    sum_columns,
    sum_room,
    tally,
)
from edgewise_compiler.kernels.gpu.sampling.wide import wide
from edgewise_compiler.kernels.gpu.thread import (
    Launch,
    Thread,
    bind,
    keep,
    kernel,
    shared,
    store,
    when,
)
from edgewise_compiler.kernels.sampling import SamplingSpec
from edgewise_runtime.format.abi import (
    SAMPLING_WIDTH,
    TEMPERATURE,
    TOP_P,
)


def masses_shape(spec: SamplingSpec, threads: int = THREADS) -> tuple[int, int, int]:
    """The shape of blocks' masses, two words each, uint32."""
    return spec.batch, Layout(spec.columns, threads).blocks, 2


@cache
def weigh(spec: SamplingSpec, *, threads: int = THREADS) -> Launch:
    """Masses of blocks after `scores`: of a row that top-k leaves all of, otherwise 0.

    Arguments: keys uint32 [B, `Layout.words`], table int32 [B, 8+MP], sampling_f float32 and
    sampling_i int32 [B, 8], masses uint32 `masses_shape`, step. What top-p takes its share of is
    everything; without top-p it is what min-p leaves.
    """
    B, V, VP, MP = spec.batch, spec.vocab, spec.columns, spec.pages
    layout = Layout(VP, threads)
    arguments = (
        Arg("keys", "uint32x4", (B, layout.words // LANES)),
        table_arg(spec),
        Arg("sampling_f", "float32", (B, SAMPLING_WIDTH)),
        Arg("sampling_i", "int32", (B, SAMPLING_WIDTH)),
        Arg("masses", "uint32", masses_shape(spec, threads)),
        STEP,
    )

    def body(
        thread: Thread,
        keys: Buffer,
        table: Buffer,
        sampling_f: Buffer,
        sampling_i: Buffer,
        masses: Buffer,
        step: Buffer,
    ) -> None:
        block, row = thread.x, thread.y
        with when(is_running(row, B, table, step)):
            w = Row(thread, row, layout, V, keys, sampling_f, sampling_i)
            wanted = bind(T.And(T.EQ(w.top_k(), 0), sampling_f[row, TEMPERATURE] > f32(0.0)))
            with when(T.And(w.leader(), T.Not(wanted))):
                for word in range(2):
                    store(masses, 0, row, block, word)
            with when(wanted):
                _weigh_block(w, block, masses)

    return kernel(
        f"weigh_{B}_{V}_{VP}_{MP}{layout.suffix}",
        arguments,
        body,
        threads=threads,
        grid=(layout.blocks, "b"),
        bounds={"b": B},
    )


def _weigh_block(w: Row, block: Expr, masses: Buffer) -> None:
    """Adds up what a block's tokens weigh."""
    heat = w.heat(w.peak())
    part = bind(w.sampling_f[w.row, TOP_P] < f32(1.0))
    floor = keep(T.Select(part, u32(0), w.least_weight()))
    sums = tally(2)
    with w.vectors_of(block, w.thread.t) as at, each_key(bind(w.keys[w.row, at])) as (_, key):
        with when(key >= heat.lowest):
            weight = heat.weight(key)
            with when(weight >= floor):
                note_weight(sums, 0, weight)
    mass, found = mass_of(sums, 0), shared((2,), "uint32")
    scratch = shared((sum_room(2, w.layout.threads),), "uint32")
    sum_columns(w.thread, scratch, [mass.hi, mass.lo], found)
    with when(w.leader()):
        total = wide(keep(found[0]), keep(found[1]))
        store(masses, total.hi, w.row, block, 0)
        store(masses, total.lo, w.row, block, 1)
