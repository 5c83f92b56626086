"""Which experts each row goes through, and the pairs of rows and experts by expert."""

from __future__ import annotations

from functools import cache
from typing import Any

from tvm.ir import Expr
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Buffer, PrimFunc

from edgewise_compiler.kernels.cpu.vector import bits, exp2, fma, let, load, register, splat, store
from edgewise_compiler.kernels.experts import RouteSpec, ids_arg, order_arg
from edgewise_compiler.kernels.function import STEP, Arg, block, for_rows, kernel, live_rows
from edgewise_compiler.kernels.numbers import LOG2E
from edgewise_compiler.kernels.ranges import Range
from edgewise_runtime.format.abi import PANEL, ROWS

TOGETHER = 8
"""Vectors of logits that are summed side by side, which hides the latency of an fma."""

_LOWEST = -(2**31)


def groups_arg(rows: int, chosen: int, experts: int) -> Arg:
    """``groups[0]``: the experts that have pairs, in order, and last how many these are;
    ``groups[1]``: where in ``order`` the pairs of each begin, and after the last where they end."""
    most = max(experts, rows * chosen)
    return Arg("groups", "int32", (2, experts + 1), (Range(0, most),))


@cache
def route(spec: RouteSpec, isa: str) -> PrimFunc:
    """The experts of the largest logits ``x @ weight (+ bias)``, and their softmax.

    Arguments in order: x float32[N,K], weight float32[K,columns], bias float32[columns] if there is
    one, ids int32[N,chosen], weights float32[N,chosen (+ 1)], order int32[N*chosen], groups
    int32[2,experts+1], step. Experts come by the size of their logits, of equal ones the first
    first; NaN counts as larger than all numbers or smaller, by its sign. ``order`` and ``groups``
    are of the live rows.

    Each logit is acc = fma(x[k], w[k], acc) from k = 0 on, in that order; the softmax adds up
    in the order of ids, or over all experts in theirs.
    """
    N, K, E, k = spec.rows, spec.inputs, spec.experts, spec.chosen

    def body(x: Buffer, weight: Buffer, *rest: Buffer) -> None:
        *biases, ids, weights, order, groups, step = rest
        n = live_rows(step, ROWS, N)

        def row(i: Expr) -> None:
            logits = T.sblock_alloc_buffer((spec.columns,), "float32")
            keys = T.sblock_alloc_buffer((E,), "int32")
            vectors = spec.columns // PANEL
            for first in range(0, vectors, TOGETHER):
                some = range(first, min(first + TOGETHER, vectors))
                sums = [register(splat(0.0)) for _ in some]
                with T.serial(K) as c, block("columns"):
                    value = let(splat(x[i, c]))
                    for v, total in zip(some, sums, strict=True):
                        product = fma(value, load(weight, c, v * PANEL), load(total, 0), isa)
                        store(total, product, 0)
                for v, total in zip(some, sums, strict=True):
                    found = load(total, 0)
                    if biases:
                        found = found + load(biases[0], v * PANEL)
                    store(logits, found, v * PANEL)
            with T.serial(E) as e, block("keys"):
                T.buffer_store(keys, _key(logits[e]), [e])
            _choose(keys, ids, i, E, k)
            _weigh(spec, logits, ids, weights, i, isa)

        with block("rows"):
            for_rows(n, N, row)
        with block("order"):
            _order(n, ids, order, groups, E, k, N)

    arguments = (
        Arg("x", "float32", (N, K)),
        *spec.router,
        ids_arg(N, k, E),
        Arg("weights", "float32", (N, spec.weights)),
        order_arg(N * k),
        groups_arg(N, k, E),
        STEP,
    )
    return kernel(f"route_{spec.name}", arguments, body)


def _key(logit: Expr) -> Expr:
    """An integer in the order of the floats, above the lowest one."""
    word = let(bits(logit, "int32"))
    ordered = T.Select(word < 0, word ^ T.int32(0x7FFFFFFF), word)
    return T.max(ordered, T.int32(_LOWEST + 1))


def _choose(keys: Buffer, ids: Buffer, i: Expr, E: int, k: int) -> None:
    """The places of the k largest keys, of equal ones the first; those become the lowest."""
    with T.serial(k) as slot, block("slot"):
        best = T.sblock_alloc_buffer((1,), "int32")
        place = T.sblock_alloc_buffer((1,), "int32")
        T.buffer_store(best, T.int32(_LOWEST), [0])
        T.buffer_store(place, T.int32(0), [0])
        with T.serial(E) as e, block("search"), T.If(keys[e] > best[0]), T.Then():
            T.buffer_store(best, keys[e], [0])
            T.buffer_store(place, e, [0])
        T.buffer_store(ids, place[0], [i, slot])
        with T.serial(E) as e, block("taken"), T.If(e == place[0]), T.Then():
            T.buffer_store(keys, T.int32(_LOWEST), [e])


def _weigh(
    spec: RouteSpec, logits: Buffer, ids: Buffer, weights: Buffer, i: Expr, isa: str
) -> None:
    """Softmax of the chosen logits, less the largest, which is the first of them."""
    top = let(logits[ids[i, 0]])

    def power(logit: Expr) -> Expr:
        return exp2((logit - top) * splat(LOG2E, 1), isa)

    total = register(splat(0.0, 1))
    with T.serial(spec.chosen) as s, block("powers"):
        value = let(power(logits[ids[i, s]]))
        T.buffer_store(weights, value, [i, s])
        if spec.normalize:
            T.buffer_store(total, total[0] + value, [0])
    if not spec.normalize:
        with T.serial(spec.experts) as e, block("all"):
            T.buffer_store(total, total[0] + let(power(logits[e])), [0])
    with T.serial(spec.chosen) as s, block("shares"):
        T.buffer_store(weights, weights[i, s] / total[0], [i, s])
    if spec.shared:
        gate = exp2(logits[spec.experts] * splat(-LOG2E, 1), isa)
        T.buffer_store(weights, splat(1.0, 1) / (splat(1.0, 1) + gate), [i, spec.chosen])


def _order(n: Expr, ids: Buffer, order: Buffer, groups: Buffer, E: int, k: int, N: int) -> None:
    """Pairs counted, then put in order by their experts."""
    next_ = T.sblock_alloc_buffer((E,), "int32")
    used = T.sblock_alloc_buffer((2,), "int32")  # experts with pairs, and their pairs

    def add(buffer: Buffer, index: Any, by: Any) -> None:
        T.buffer_store(buffer, buffer[index] + by, [index])

    with T.serial(E) as e, block("none"):
        T.buffer_store(next_, T.int32(0), [e])
    with T.serial(n) as i, T.serial(k) as s, block("count"):
        add(next_, ids[i, s], T.int32(1))
    for which in range(2):
        T.buffer_store(used, T.int32(0), [which])
    with T.serial(E) as e, block("places"):
        count = T.sblock_alloc_buffer((1,), "int32")
        T.buffer_store(count, next_[e], [0])
        T.buffer_store(next_, used[1], [e])
        with T.If(count[0] > 0), T.Then():
            # At most one a turn: kept within the buffer where that is not seen.
            at = T.bind(T.min(used[0], E - 1))
            T.buffer_store(groups, e, [0, at])
            T.buffer_store(groups, used[1], [1, at])
            add(used, 0, T.int32(1))
            add(used, 1, count[0])
    T.buffer_store(groups, used[1], [1, T.min(used[0], E)])
    T.buffer_store(groups, used[0], [0, E])
    with T.serial(n) as i, T.serial(k) as s, block("order"):
        at = T.bind(T.max(0, T.min(next_[ids[i, s]], N * k - 1)))
        T.buffer_store(order, i * k + s, [at])
        add(next_, ids[i, s], T.int32(1))
