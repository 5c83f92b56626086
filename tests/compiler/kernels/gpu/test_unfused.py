"""Sums, gates and gathered rows on their own equal NumPy, on the GPU."""

from __future__ import annotations

import numpy as np
import pytest

from edgewise_compiler.kernels.gpu.elementwise.unfused import add, gather, swiglu
from edgewise_runtime.format.abi import LOGIT_ROWS, ROWS, STEP_SYMBOLS
from tests.compiler.kernels import reference
from tests.compiler.kernels.conftest import Array
from tests.gpu import run

N, GATHERED = 7, 4
each_count = pytest.mark.parametrize("count", [ROWS, LOGIT_ROWS])
each_width = pytest.mark.parametrize("H", [32, 96, 1120])


def step(count: int, n: int) -> Array:
    fields = np.zeros(8, np.int32)
    fields[count] = n
    return fields


def random(*shape: int) -> Array:
    return np.random.default_rng(shape).standard_normal(shape, np.float32)


@each_count
@each_width
@pytest.mark.parametrize("in_place", [False, True])
def test_live_rows_are_summed_and_others_stay(H: int, count: int, in_place: bool) -> None:
    x, y, before = random(N, H), random(N, H + 32), random(N, H) + 1
    kernel = add(N, H, H + 32, in_place=in_place, count=count)
    for live in (1, 3, N):
        buffers = [y, x] if in_place else [x, y, before]
        out = run(kernel, [*buffers, step(count, live)], **{STEP_SYMBOLS[count]: N})[-2]
        np.testing.assert_array_equal(out[:live], (x + y[:, :H])[:live])
        np.testing.assert_array_equal(out[live:], (x if in_place else before)[live:])


@each_count
@each_width
def test_live_rows_are_gated_and_others_stay(H: int, count: int) -> None:
    x, before = random(N, 2 * H) * 8, random(N, H)
    expected = reference.swiglu(x)
    for live in (1, 3, N):
        arrays = [x, before, step(count, live)]
        out = run(swiglu(N, H, count=count), arrays, **{STEP_SYMBOLS[count]: N})[1]
        # The device's exp2 and division are good to a few units in the last place.
        np.testing.assert_allclose(out[:live], expected[:live], rtol=2e-6, atol=1e-30)
        np.testing.assert_array_equal(out[live:], before[live:])


@each_width
def test_gathered_rows_are_copies_and_indices_stay_inside(H: int) -> None:
    x, before = random(N, H), random(GATHERED, H)
    wanted = np.array([4, 10**6, -5, 4], np.int32)
    for live in (1, 2, GATHERED):
        arrays = [x, wanted, before, step(LOGIT_ROWS, live)]
        out = run(gather(N, GATHERED, H), arrays, r=GATHERED)[2]
        np.testing.assert_array_equal(out[:live], x[[4, N - 1, 0, 4]][:live])
        np.testing.assert_array_equal(out[live:], before[live:])
