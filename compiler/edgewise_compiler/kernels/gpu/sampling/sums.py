"""Counts and masses of tokens, added up over the threads of a workgroup."""

from __future__ import annotations

from collections.abc import Sequence

from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer

from edgewise_compiler.kernels.gpu.operations import u32
from edgewise_compiler.kernels.gpu.sampling.wide import Wide, halves, wide
from edgewise_compiler.kernels.gpu.thread import Thread, barrier, keep, local, store, when

_RUN = 8  # values that one thread adds up


def tally(fields: int = 3) -> Buffer:
    """Numbers of a thread that begin at 0."""
    found = local((fields,), "uint32")
    for i in range(fields):
        store(found, 0, i)
    return found


def note_token(sums: Buffer, which: int, weight: Expr) -> None:
    """Adds one token to a count and to the sums of its weight's halves."""
    store(sums, sums[3 * which] + u32(1), 3 * which)
    note_weight(sums, 3 * which + 1, weight)


def note_weight(sums: Buffer, first: int, weight: Expr) -> None:
    """Adds a weight to the sums of halves, the high one first."""
    store(sums, sums[first] + (weight >> u32(16)), first)
    store(sums, sums[first + 1] + (weight & u32(0xFFFF)), first + 1)


def mass_of(sums: Buffer, first: int) -> Wide:
    """What the sums of halves come to."""
    return halves(keep(sums[first]), keep(sums[first + 1]))


def sum_room(values: int, threads: int) -> int:
    """Words of scratch in which so many values of each thread are added up."""
    return values * (threads + threads // _RUN)


def sum_columns(
    thread: Thread, scratch: Buffer, values: Sequence[Expr], out: Buffer, first: Expr | int = 0
) -> None:
    """``out[first + i]`` becomes the sum of ``values[i]`` over the threads, all of which come here.

    Args:
        scratch: shared memory of `sum_room`; free again afterwards.
    """
    t, threads, runs = thread.t, thread.threads, thread.threads // _RUN
    for i, value in enumerate(values):
        store(scratch, value, i * threads + t)
    barrier()
    total = local((1,), "uint32")
    parts = len(values) * threads
    store(total, 0, 0)
    with when(t < len(values) * runs):
        with T.serial(0, _RUN) as i:
            store(total, total[0] + scratch[t * _RUN + i], 0)
        store(scratch, total[0], parts + t)
    barrier()
    with when(t < len(values)):
        store(total, 0, 0)
        with T.serial(0, runs) as i:
            store(total, total[0] + scratch[parts + t * runs + i], 0)
        store(out, total[0], first + t)
    barrier()


def masses_before(thread: Thread, scratch: Buffer, mass: Wide, count: int) -> tuple[Wide, Wide]:
    """The mass of the threads before this one, and of all; every thread must come here.

    Args:
        scratch: shared memory for two words of each thread, which nobody reads any more.
        count: threads that have a mass, from the first on.
    """
    store(scratch, mass.hi, thread.t)
    store(scratch, mass.lo, thread.threads + thread.t)
    barrier()
    sums = tally(4)
    with T.serial(0, count) as i:
        for word, offset in enumerate((0, thread.threads)):
            value = keep(scratch[offset + i])
            store(sums, sums[word] + T.Select(i < thread.t, value, u32(0)), word)
            store(sums, sums[2 + word] + value, 2 + word)
    return wide(keep(sums[0]), keep(sums[1])), wide(keep(sums[2]), keep(sums[3]))
