"""Combining the values of neighbouring threads, with subgroups or without, in one order each."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer

from edgewise_compiler.kernels.gpu.operations import dtype_of, i32, u32
from edgewise_compiler.kernels.gpu.thread import (
    Thread,
    barrier,
    bind,
    local,
    shared,
    shuffle_xor,
    store,
    subgroup_size,
    when,
)

Combine = Callable[[Expr, Expr], Expr]

_RUN = 16  # values one thread combines by itself
_QUAD = 4  # threads that every subgroup has
_PART = 8  # values of a first round of sums without subgroups


def combine_group(
    thread: Thread, value: Expr, lanes: int, combine: Combine, scratch: Buffer
) -> Expr:
    """``value`` of ``lanes`` neighbouring threads combined; each of them gets the result.

    Every thread of the workgroup must come here. With subgroups a butterfly comes first and shared
    memory joins what is wider than a subgroup, whatever its width; without, a thread combines runs
    of 16 in order. Two or three barriers; the last one makes ``scratch`` free again.

    Args:
        lanes: a power of two that divides the workgroup; a group starts at a multiple of it.
        combine: an associative operation, such as ``lambda a, b: a + b`` or ``T.max``.
        scratch: shared memory of at least the workgroup's threads, of the value's dtype.
    """
    total = local((1,), dtype_of(value))
    store(total, value, 0)
    first = bind(thread.t - thread.t % lanes)
    if thread.subgroups:
        width = subgroup_size()
        for mask in (1 << i for i in range(min(lanes, 128).bit_length() - 1)):
            other = shuffle_xor(total[0], mask)
            store(total, T.Select(width > u32(mask), combine(total[0], other), total[0]), 0)
        stride = bind(T.min(i32(width), lanes))
        store(scratch, total[0], thread.t)
        barrier()
        _run(total, scratch, first, T.floordiv(lanes, stride), stride, combine)
        barrier()
        return bind(total[0])
    store(scratch, total[0], thread.t)
    barrier()
    if lanes > _RUN:
        with when(thread.t % _RUN == 0):
            _run(total, scratch, thread.t, _RUN, 1, combine)
        barrier()
        with when(thread.t % _RUN == 0):
            store(scratch, total[0], thread.t)
        barrier()
    stride = min(lanes, _RUN) if lanes > _RUN else 1
    _run(total, scratch, first, lanes // stride, stride, combine)
    barrier()
    return bind(total[0])


def _run(
    total: Buffer,
    scratch: Buffer,
    first: Expr,
    count: Expr | int,
    stride: Expr | int,
    combine: Combine,
) -> None:
    """Combines ``count`` values of ``scratch`` in order."""
    store(total, scratch[first], 0)
    with T.serial(1, count) as i:
        store(total, combine(total[0], scratch[first + i * stride]), 0)


def sum_groups(
    thread: Thread, values: Sequence[Expr], lanes: int
) -> Callable[[Expr | int, Expr | int], Expr]:
    """Sums of several values over groups of ``lanes`` neighbouring threads, for any thread to read.

    They are added up in pairs, pairs of pairs and so on: the same bits with subgroups of any width
    and without, so that kernels which a driver gives different subgroups agree. Every thread of the
    workgroup must come here. One barrier, two without subgroups for more than 8 lanes.

    Args:
        values: float32.
        lanes: a power of two, at least 8, that divides the workgroup; a group starts at a multiple.

    Returns:
        ``read(v, group)``, which computes the sum of ``values[v]`` over one group of threads. It
        has no barriers.
    """
    if thread.subgroups:
        # Subgroups add four threads up; more would take longer than reading what is left.
        stride = thread.threads // _QUAD + 1  # odd: values lie in different banks
        scratch = shared((len(values) * stride,))
        quads = []
        for value in values:
            pair = bind(value + shuffle_xor(value, 1))
            quads.append(bind(pair + shuffle_xor(pair, 2)))
        with when(thread.t % _QUAD == 0):
            for v, quad in enumerate(quads):
                store(scratch, quad, v * stride + thread.t // _QUAD)
        barrier()
        count = lanes // _QUAD
        return lambda v, group: _tree(scratch, v * stride + group * count, count, 1)
    # Parts lie one element further apart than they are long, and values an odd number: a part's or
    # a value's readers then use different banks.
    step = _PART + 1
    parts = thread.threads // _PART
    stride = parts * step + 1 - parts % 2
    scratch = shared((len(values) * stride,))
    place = bind(thread.t + thread.t // _PART)
    for v, value in enumerate(values):
        store(scratch, value, v * stride + place)
    barrier()
    if lanes == _PART:
        return lambda v, group: _tree(scratch, v * stride + group * step, _PART, 1)
    jobs = len(values) * parts
    with T.serial(0, -(-jobs // thread.threads)) as i:
        job = bind(i * thread.threads + thread.t)
        with when(job < jobs):
            start = bind(job // parts * stride + job % parts * step)
            store(scratch, _tree(scratch, start, _PART, 1), start)
    barrier()
    count = lanes // _PART
    return lambda v, group: _tree(scratch, v * stride + group * (count * step), count, step)


def _tree(scratch: Buffer, start: Expr, count: int, stride: int) -> Expr:
    """``count`` values of ``scratch``, a power of two, added up in pairs, pairs of pairs, …"""
    start = bind(start)
    values = [bind(scratch[start + i * stride]) for i in range(count)]
    while len(values) > 1:
        values = [bind(a + b) for a, b in zip(values[::2], values[1::2], strict=True)]
    return values[0]
