"""What the threads that search a whole row share: a bracket of keys, counts, masses, near keys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer

from edgewise_compiler.kernels.gpu.operations import u32
from edgewise_compiler.kernels.gpu.sampling.layout import LANES
from edgewise_compiler.kernels.gpu.sampling.row import Heat, Row, each_key
from edgewise_compiler.kernels.gpu.sampling.sums import (
    mass_of,
    note_token,
    sum_columns,
    sum_room,
    tally,
)
from edgewise_compiler.kernels.gpu.sampling.wide import Wide, wide
from edgewise_compiler.kernels.gpu.thread import bind, keep, shared, store, when
from edgewise_compiler.kernels.sampling import LEVELS

_NEAR = 4  # tokens a thread that are cheaper to rank in shared memory than to count again

# Fields of `ends` (int32) and of `sums` (uint32).
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
class State:
    """Shared memory: the ends of the bracket, sums, near keys, levels, and room to add up.

    Attributes:
        threads: of the workgroup.
    """

    threads: int
    ends: Buffer
    sums: Buffer
    near: Buffer
    levels: Buffer
    counted: Buffer
    scratch: Buffer
    scratch_i: Buffer

    @staticmethod
    def new(threads: int) -> State:
        """Memory of its own."""
        return State(
            threads=threads,
            ends=shared((4,), "int32"),
            sums=shared((SUMS,), "uint32"),
            near=shared((_NEAR * threads,), "int32"),
            levels=shared((LEVELS,), "int32"),
            counted=shared((3 * LEVELS,), "uint32"),
            scratch=shared((sum_room(LEVELS, threads),), "uint32"),
            scratch_i=shared((threads,), "int32"),
        )

    @property
    def room(self) -> int:
        """How many near keys there may be."""
        return _NEAR * self.threads

    def put(self, field: int, value: Expr) -> None:
        store(self.sums, value, field)

    def put_wide(self, field: int, value: Wide) -> None:
        store(self.sums, value.hi, field)
        store(self.sums, value.lo, field + 1)

    def wide(self, field: int) -> Wide:
        return Wide(keep(self.sums[field]), keep(self.sums[field + 1]))


def each(w: Row, use: Callable[[Expr], None]) -> None:
    """Calls ``use(key)`` for the keys of every 256th vector of the row."""
    vectors = w.layout.columns // LANES
    with T.serial(0, -(-vectors // w.layout.threads)) as i:
        at = keep(i * w.layout.threads + w.thread.t)
        with when(at < vectors), each_key(bind(w.keys[w.row, at])) as (_, key):
            use(key)


def measure(
    w: Row, state: State, heat: Heat, wanted: Callable[[Expr], Expr], needed: Expr
) -> tuple[Expr, Wide]:
    """Number and mass of the tokens whose key is ``wanted``; every thread gets them.

    Zeros where they are not ``needed``.
    """
    sums = tally()

    def use(key: Expr) -> None:
        with when(wanted(key)):
            note_token(sums, 0, heat.weight(key))

    with when(T.NE(needed, u32(0))):
        each(w, use)
    part, counted = mass_of(sums, 1), state.counted
    # Together: drivers compile for seconds what has a barrier in many places.
    sum_columns(w.thread, state.scratch, [keep(sums[0]), part.hi, part.lo], counted)
    return keep(counted[0]), wide(keep(counted[1]), keep(counted[2]))
