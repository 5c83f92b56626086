"""The mass of each block of the vocabulary on the GPU, where a draw needs that of all."""

from __future__ import annotations

from functools import cache

from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer

from edgewise_compiler.kernels.function import STEP, Arg
from edgewise_compiler.kernels.gpu.operations import f32, u32
from edgewise_compiler.kernels.gpu.sampling.layout import LANES, THREADS, Layout
from edgewise_compiler.kernels.gpu.sampling.row import Row, each_key
from edgewise_compiler.kernels.gpu.sampling.sums import mass_of, note_weight, sum_columns, tally
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
    SEQUENCES,
    STOP,
    TABLE_HEADER,
    TEMPERATURE,
    TOP_P,
)


def masses_shape(spec: SamplingSpec) -> tuple[int, int, int]:
    """The shape of blocks' masses, two words each, uint32."""
    return spec.batch, Layout(spec.columns).blocks, 2


@cache
def weigh(spec: SamplingSpec, *, subgroups: bool) -> Launch:
    """Masses of blocks after `scores`: of a row that top-k leaves all of, otherwise 0.

    Arguments: keys uint32 [B, `Layout.words`], table int32 [B, 8+MP], sampling_f float32 and
    sampling_i int32 [B, 8], masses uint32 `masses_shape`, step. What top-p takes its share of is
    everything; without top-p it is what min-p leaves.
    """
    B, V, VP, MP = spec.batch, spec.vocab, spec.columns, spec.pages
    layout = Layout(VP)
    arguments = (
        Arg("keys", "uint32x4", (B, layout.words // LANES)),
        Arg("table", "int32", (B, TABLE_HEADER + MP)),
        Arg("sampling_f", "float32", (B, SAMPLING_WIDTH)),
        Arg("sampling_i", "int32", (B, SAMPLING_WIDTH)),
        Arg("masses", "uint32", masses_shape(spec)),
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
        with when(T.And(row < T.min(step[SEQUENCES], B), T.EQ(table[row, STOP], 0))):
            w = Row(thread, row, layout, V, keys, sampling_f, sampling_i)
            all_of_it = bind(T.EQ(w.top_k(), 0))
            with T.If(T.And(all_of_it, sampling_f[row, TEMPERATURE] > f32(0.0))):
                with T.Then():
                    heat = w.heat(w.peak(shared((THREADS,), "int32")))
                    part = bind(sampling_f[row, TOP_P] < f32(1.0))
                    floor = keep(T.Select(part, u32(0), w.least_weight()))
                    sums = tally(2)
                    with w.vectors_of(block, thread.t) as at, each_key(keys[row, at]) as (_, key):
                        with when(key >= heat.lowest):
                            weight = heat.weight(key)
                            with when(weight >= floor):
                                note_weight(sums, 0, weight)
                    mass, found = mass_of(sums, 0), shared((2,), "uint32")
                    scratch = shared((2 * THREADS,), "uint32")
                    sum_columns(thread, scratch, [mass.hi, mass.lo], found)
                    with when(w.leader()):
                        total = wide(keep(found[0]), keep(found[1]))
                        store(masses, total.hi, row, block, 0)
                        store(masses, total.lo, row, block, 1)
                with T.Else(), when(w.leader()):
                    for word in range(2):
                        store(masses, 0, row, block, word)

    return kernel(
        f"weigh_{B}_{V}_{VP}_{MP}{'_s' if subgroups else ''}",
        arguments,
        body,
        threads=THREADS,
        grid=(layout.blocks, "b"),
        bounds={"b": B},
        subgroups=subgroups,
    )
