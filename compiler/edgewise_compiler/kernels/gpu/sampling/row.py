"""A row of a batch in the hands of one workgroup: what its threads read, count and share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer

from edgewise_compiler.kernels.gpu.operations import u32
from edgewise_compiler.kernels.gpu.sampling.keys import weight_of
from edgewise_compiler.kernels.gpu.sampling.wide import Wide, halves, wide
from edgewise_compiler.kernels.gpu.thread import Thread, barrier, keep, local, store, when

THREADS = 256

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


@dataclass(frozen=True)
class Row:
    """One row of a batch: its keys and parameters, and memory that its threads share."""

    thread: Thread
    row: Expr
    VP: int
    keys: Buffer
    sampling_f: Buffer
    sampling_i: Buffer
    peak: Expr
    scratch: Buffer
    scratch_i: Buffer

    def each(self, use: Callable[[Expr, Expr], None]) -> None:
        """Calls ``use(token, key)`` for every 256th token of the row."""
        with T.serial(0, -(-self.VP // THREADS)) as i:
            at = keep(i * THREADS + self.thread.t)
            with when(at < self.VP):
                use(at, keep(self.keys[self.row, at]))

    def leader(self) -> Expr:
        return T.EQ(self.thread.t, 0)

    def measure(
        self, wanted: Callable[[Expr], Expr], needed: Expr, top: Expr, factor: Expr, out: Buffer
    ) -> tuple[Expr, Wide]:
        """Number and mass of the tokens whose key is ``wanted``; every thread gets them.

        Zeros where they are not ``needed``. ``out`` is shared memory for three numbers, which
        nobody else uses before the next barrier.
        """
        local_sums = local((3,), "uint32")
        for i in range(3):
            store(local_sums, 0, i)

        def use(at: Expr, key: Expr) -> None:
            with when(wanted(key)):
                note_token(local_sums, 0, weight_of(key, top, factor))

        with when(T.NE(needed, u32(0))):
            self.each(use)
        part = halves(local_sums[1], local_sums[2])
        # Together: drivers compile for seconds what has a barrier in many places.
        self.sum_columns([local_sums[0], part.hi, part.lo], out, 0)
        return keep(out[0]), wide(keep(out[1]), keep(out[2]))

    def sum_columns(self, values: list[Expr], out: Buffer, first: Expr | int) -> None:
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


@dataclass(frozen=True)
class State:
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


def note_token(sums: Buffer, which: int, weight: Expr) -> None:
    """Adds one token to a count and to the sums of its weight's halves."""
    store(sums, sums[3 * which] + u32(1), 3 * which)
    store(sums, sums[3 * which + 1] + (weight >> u32(16)), 3 * which + 1)
    store(sums, sums[3 * which + 2] + (weight & u32(0xFFFF)), 3 * which + 2)
