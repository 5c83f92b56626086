"""RMS normalization on the GPU equals its definition in NumPy, row by row."""

from __future__ import annotations

import numpy as np
import pytest

from edgewise_compiler.kernels.gpu.elementwise.norm import rms_norm
from edgewise_compiler.kernels.norm import NormSpec
from edgewise_runtime.engine.step_buffers import step_array
from tests import subgroups as emulated
from tests.gpu import run

pytestmark = pytest.mark.sampled(one_in=2)

N, EPS = 7, 1e-6


@pytest.mark.parametrize("subgroups", [False, True])
@pytest.mark.parametrize("H", [32, 96, 256, 1120])
def test_live_rows_are_normalized_and_others_stay(H: int, subgroups: bool) -> None:
    rng = np.random.default_rng(H)
    x, before = rng.standard_normal((2, N, H), np.float32)
    x *= np.exp2(rng.integers(-10, 10, (N, 1))).astype(np.float32)
    weight = rng.standard_normal(H, dtype=np.float32)
    wide = x.astype(np.float64)
    expected = wide / np.sqrt((wide**2).mean(-1, keepdims=True) + EPS) * weight
    for live in (1, 3, N):
        step = step_array(live, 1, 0, 0)
        y = run(
            rms_norm(NormSpec(N, H, EPS), subgroups=subgroups), [x, weight, before, step], n=live
        )[2]
        # The sum of squares is good to a few units in the last place; nothing cancels.
        np.testing.assert_allclose(y[:live], expected[:live], rtol=2e-6)
        np.testing.assert_array_equal(y[live:], before[live:])


@pytest.mark.parametrize("subgroups", [False, True])
def test_a_row_has_the_same_bits_anywhere(subgroups: bool) -> None:
    x = np.random.default_rng(0).standard_normal((N, 160), np.float32)
    weight, step = np.ones(160, np.float32), step_array(N, 1, 0, 0)
    kernel = rms_norm(NormSpec(N, 160, EPS), subgroups=subgroups)
    y = run(kernel, [x, weight, np.zeros_like(x), step], n=N)[2]
    moved = run(kernel, [np.roll(x, 2, axis=0), weight, np.zeros_like(x), step], n=N)[2]
    np.testing.assert_array_equal(np.roll(y, 2, axis=0), moved)


@pytest.mark.parametrize("H", [32, 1120])
def test_a_row_has_the_same_bits_at_every_subgroup_width_and_without(H: int) -> None:
    rng = np.random.default_rng(H)
    x, weight = rng.standard_normal((N, H), np.float32), rng.standard_normal(H, dtype=np.float32)
    step = step_array(N, 1, 0, 0)
    arrays = [x, weight, np.zeros_like(x), step]
    expected = run(rms_norm(NormSpec(N, H, EPS), subgroups=False), arrays, n=N)[2]
    kernel = rms_norm(NormSpec(N, H, EPS), subgroups=True)
    np.testing.assert_array_equal(run(kernel, arrays, n=N)[2], expected)
    for width in emulated.WIDTHS:
        y = emulated.run(kernel, arrays, width=width, n=N)[2]
        np.testing.assert_array_equal(y, expected, err_msg=str(width))


def test_gathered_rows_have_the_bits_of_rows_in_place() -> None:
    x = np.random.default_rng(1).standard_normal((N, 96), np.float32)
    weight, rows = np.ones(96, np.float32), np.array([5, 0, 3, 3], np.int32)
    step = step_array(N, 1, 3, 0)
    whole = run(
        rms_norm(NormSpec(N, 96, EPS), subgroups=False), [x, weight, np.zeros_like(x), step], n=N
    )
    kernel = rms_norm(NormSpec(N, 96, EPS, gathered=4), subgroups=False)
    y = run(kernel, [x, weight, rows, np.zeros((4, 96), np.float32), step], r=3)[3]
    np.testing.assert_array_equal(y[:3], whole[2][rows[:3]])
    np.testing.assert_array_equal(y[3:], 0)
