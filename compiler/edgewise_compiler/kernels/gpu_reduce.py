"""Combining the values of neighbouring threads, with subgroups or without, in one order each."""

from __future__ import annotations

from collections.abc import Callable

from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer

from edgewise_compiler.kernels.gpu import (
    Thread,
    barrier,
    bind,
    dtype_of,
    i32,
    local,
    shuffle_xor,
    store,
    subgroup_size,
    u32,
    when,
)

Combine = Callable[[Expr, Expr], Expr]

_RUN = 16  # values one thread combines by itself


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
        for mask in (1 << i for i in range(lanes.bit_length() - 1)):
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
