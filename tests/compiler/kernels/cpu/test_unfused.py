"""Sums, gates and gathered rows on their own have the bits of NumPy, on every instruction set."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from edgewise_compiler.kernels.cpu.elementwise.unfused import add, gather, swiglu
from edgewise_runtime.format.abi import LOGIT_ROWS, ROWS
from tests.compiler.kernels import reference
from tests.compiler.kernels.conftest import Array, aligned, aligned_copy, build
from tests.compiler.kernels.reference import same_bits

pytestmark = pytest.mark.sampled(one_in=3)

N, H, W, GATHERED = 11, 96, 128, 3
COUNTS = (ROWS, LOGIT_ROWS)
each_count = pytest.mark.parametrize("count", COUNTS)
each_n = pytest.mark.parametrize("n", [-1, 0, 1, 8, N])


@cache
def kernels(isa: str) -> dict[object, Any]:
    functions: dict[object, Any] = {"gather": gather(N, GATHERED, H)}
    for count in COUNTS:
        functions["swiglu", count] = swiglu(N, H, isa, count=count)
        for in_place in (False, True):
            functions["add", count, in_place] = add(N, H, W, in_place=in_place, count=count)
    built = build(functions.values(), isa)
    return {case: built[str(f.attrs["global_symbol"])] for case, f in functions.items()}


@cache
def rows(width: int) -> Array:
    random = np.random.default_rng(width)
    x = random.normal(size=(N, width)) * np.exp2(random.integers(-8, 8, (N, 1)))
    return aligned_copy(x.astype("float32"))


def step(count: int, n: int) -> Array:
    fields = aligned(8, "int32")
    fields[count] = n
    return fields


@each_count
@each_n
def test_a_sum_leaves_the_columns_that_only_pad(isa: str, count: int, n: int) -> None:
    x, y, out = rows(H), rows(W), aligned((N, H), "float32")
    kernels(isa)["add", count, False](x, y, out, step(count, n))
    live = max(n, 0)
    assert same_bits(out[:live], (x + y[:, :H])[:live])
    assert not out[live:].any()


@each_count
@each_n
def test_a_sum_in_place_changes_live_rows_only(isa: str, count: int, n: int) -> None:
    x, y = rows(H), rows(W)
    out, live = aligned_copy(x), max(n, 0)
    kernels(isa)["add", count, True](y, out, step(count, n))
    assert same_bits(out[:live], (x + y[:, :H])[:live])
    assert same_bits(out[live:], x[live:])


@each_count
@each_n
def test_a_gate_has_the_bits_of_the_fused_one(isa: str, count: int, n: int) -> None:
    x, out = rows(2 * H), aligned((N, H), "float32")
    kernels(isa)["swiglu", count](x, out, step(count, n))
    live = max(n, 0)
    assert same_bits(out[:live], reference.swiglu(x)[:live])
    assert not out[live:].any()


def test_gathered_rows_are_copies_and_indices_stay_inside(isa: str) -> None:
    x = rows(H)
    for live in range(GATHERED + 1):
        out = aligned((GATHERED, H), "float32")
        wanted = aligned_copy(np.array([4, 10**6, -5], "int32"))
        kernels(isa)["gather"](x, wanted, out, step(LOGIT_ROWS, live))
        assert same_bits(out[:live], x[[4, N - 1, 0]][:live])
        assert not out[live:].any()
