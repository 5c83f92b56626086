"""Searched scales leave less of the error that counts, and GPTQ less of a linear's outputs'."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from edgewise_compiler.quantize.codes import SIXTEEN, CodedRows, Levels
from edgewise_compiler.quantize.gptq import gptq
from edgewise_compiler.quantize.search import search
from edgewise_compiler.quantize.symmetric import dequantize
from edgewise_runtime.errors import CheckpointError, CompileError

Floats = NDArray[np.float32]


def values_of(coded: CodedRows, levels: Levels = SIXTEEN) -> Floats:
    return dequantize(coded, -levels.low, levels)


def weighted(error: Floats, importance: Floats) -> NDArray[np.float64]:
    """The error of each group, ``[groups]``."""
    return (np.square(error, dtype=np.float64) * importance).reshape(-1, 32).sum(axis=1)


def extremes_exact(rows: Floats) -> Floats:
    """Sixteen levels without any search: the extreme of each group becomes -8 scales."""
    groups = rows.reshape(-1, 32)
    extreme = np.take_along_axis(groups, np.abs(groups).argmax(axis=1)[:, None], axis=1)
    scale = (extreme / -8).astype(np.float16).astype(np.float32)
    return (np.clip(np.rint(groups / scale), -8, 7) * scale).reshape(rows.shape)


@pytest.fixture
def rows() -> Floats:
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((64, 96), dtype=np.float32)
    return rows * np.exp2(rng.integers(-6, 6, (64, 1))).astype(np.float32)


@pytest.fixture
def inputs() -> Floats:
    """Rows of activations: columns that hang together, of very different sizes."""
    rng = np.random.default_rng(2)
    x = rng.standard_normal((400, 96)) @ rng.standard_normal((96, 96))
    return (x * np.exp2(rng.uniform(-4, 4, 96))).astype(np.float32)


def test_a_search_is_better_in_total_and_hardly_ever_worse_than_none(rows: Floats) -> None:
    searched = weighted(values_of(search(rows.copy(), None)) - rows, np.ones(96, np.float32))
    plain = weighted(extremes_exact(rows) - rows, np.ones(96, np.float32))
    assert searched.sum() < 0.9 * plain.sum()
    # The scale tried without a step to the side is the plain one, but for float16's rounding.
    assert (searched <= plain * 1.01).all()


def test_a_search_finds_what_a_fine_grid_of_scales_finds(rows: Floats) -> None:
    importance = np.random.default_rng(3).uniform(0, 4, 96).astype(np.float32) ** 3
    found = weighted(values_of(search(rows.copy(), importance)) - rows, importance)
    groups, u = rows.reshape(-1, 32), np.tile(importance.reshape(-1, 32), (len(rows), 1))
    best = np.full(len(groups), np.inf)
    for steps in np.linspace(4, 11, 300):
        for sign in (1, -1):
            scale = sign * np.abs(groups).max(axis=1, keepdims=True) / steps
            error = np.clip(np.rint(groups / scale), -8, 7) * scale - groups
            best = np.minimum(best, (u * error**2).sum(axis=1))
    assert found.sum() < 1.02 * best.sum()
    assert (found < 1.1 * best).mean() > 0.98


def test_importance_moves_the_error_to_columns_that_do_not_count(rows: Floats) -> None:
    importance = np.where(np.arange(96) % 4 == 0, 100, 1).astype(np.float32)
    alike = np.square(values_of(search(rows.copy(), None)) - rows)
    moved = np.square(values_of(search(rows.copy(), importance)) - rows)
    assert moved[:, ::4].sum() < 0.6 * alike[:, ::4].sum()
    assert (moved * importance).sum() < (alike * importance).sum() < 100 * moved.sum()


def test_only_ratios_of_importance_within_a_group_matter(rows: Floats) -> None:
    importance = np.random.default_rng(4).uniform(1, 9, 96).astype(np.float32)
    factors = np.repeat(np.array([2.0**-60, 1, 2.0**60], np.float32), 32)
    one, other = search(rows.copy(), importance), search(rows.copy(), importance * factors)
    np.testing.assert_array_equal(one.codes, other.codes)
    np.testing.assert_array_equal(one.groups["scale"], other.groups["scale"])


def test_a_group_that_never_counts_is_searched_all_the_same(rows: Floats) -> None:
    importance = np.repeat(np.array([1, 0, 1], np.float32), 32)
    coded, alike = search(rows.copy(), importance), search(rows.copy(), None)
    np.testing.assert_array_equal(coded.codes, alike.codes)


def test_scales_take_the_sign_that_fits_and_all_sixteen_codes_are_used(rows: Floats) -> None:
    coded = search(rows.copy(), None)
    assert set(np.unique(coded.codes)) == set(range(16))
    assert (coded.codes.dtype, coded.groups["scale"].dtype) == (np.uint8, np.float16)
    assert coded.groups["scale"].shape == (64, 3)
    assert (coded.groups["scale"] < 0).any()
    assert (coded.groups["scale"] > 0).any()


@pytest.mark.parametrize("levels", [Levels(-8, 7, bend=4), Levels(-16, 15, bend=8)])
def test_bent_levels_leave_less_than_as_many_even_ones(levels: Levels) -> None:
    """Of weights some of which lie far out, more often than a normal distribution's."""
    random = np.random.default_rng(3)
    rows = random.standard_t(4, (256, 96)).astype(np.float32)
    importance = random.uniform(0, 4, 96).astype(np.float32) ** 3
    even = Levels(levels.low, levels.high)
    bent, plain = (
        weighted(values_of(search(rows.copy(), importance, each), each) - rows, importance).sum()
        for each in (levels, even)
    )
    assert bent < 0.85 * plain


@given(st.sampled_from([2, 4, 8, 16, None]), st.floats(-120, 120, width=32))
def test_the_nearest_number_names_the_nearest_integer(bend: int | None, x: float) -> None:
    levels = Levels(-32, 31, bend) if bend is None else Levels(-2 * bend, 2 * bend - 1, bend)
    integers = levels.integers(np.arange(levels.low, levels.high + 1, dtype=np.float32))
    assert levels.ends == (integers[0], integers[-1])
    number = levels.nearest(np.array([x], np.float32))
    assert abs(levels.integers(number)[0] - x) == np.abs(integers - np.float32(x)).min()


@pytest.mark.parametrize("levels", [Levels(-8, 7), Levels(-7, 7), Levels(-32, 31)])
def test_more_levels_leave_less_and_codes_stay_within_them(rows: Floats, levels: Levels) -> None:
    coded = search(rows.copy(), None, levels)
    assert coded.codes.max() <= levels.high - levels.low
    step = np.abs(coded.groups["scale"]).astype(np.float32).repeat(32, axis=1)
    assert (np.abs(values_of(coded, levels) - rows) <= 0.51 * step).mean() > 0.95


@pytest.mark.parametrize("value", [0.0, 1e-45, -1e-45, 1e-12, 2.0**-26, -(2.0**-26)])
def test_a_group_too_small_for_a_scale_is_zero(value: float) -> None:
    coded = search(np.full((16, 32), value, np.float32), None)
    assert (np.abs(values_of(coded)) <= 2.0**-23).all()
    assert (values_of(search(np.zeros((16, 32), np.float32), None)) == 0).all()


@pytest.mark.parametrize("value", [1e6, -1e30])
def test_values_beyond_a_float16_scale_are_refused(value: float) -> None:
    rows = np.ones((16, 64), np.float32)
    rows[11, 5] = value
    with pytest.raises(CheckpointError, match="65504") as caught:
        search(rows, None)
    assert caught.value.code == "checkpoint.range"


def test_what_was_searched_is_found_again(rows: Floats) -> None:
    values = values_of(search(rows.copy(), None))
    np.testing.assert_allclose(values_of(search(values.copy(), None)), values, rtol=2e-3)


def test_each_way_leaves_less_of_the_outputs_error_than_the_one_before(
    rows: Floats, inputs: Floats
) -> None:
    moments = inputs.T.astype(np.float64) @ inputs / len(inputs)
    importance = np.diagonal(moments).astype(np.float32)
    ways = (
        extremes_exact(rows),
        values_of(search(rows.copy(), importance)),
        values_of(gptq(rows.copy(), moments, damping=0.01)),
    )
    size = np.linalg.norm(inputs @ rows.T, axis=0)
    errors = [(np.linalg.norm(inputs @ (way - rows).T, axis=0) / size).mean() for way in ways]
    assert all(after < 0.85 * before for before, after in pairwise(errors)), errors


def test_gptq_of_inputs_that_do_not_hang_together_is_the_search(rows: Floats) -> None:
    importance = np.random.default_rng(5).uniform(1, 9, 96)
    plain = search(rows.copy(), importance.astype(np.float32))
    coded = gptq(rows.copy(), np.diag(importance))
    np.testing.assert_array_equal(coded.codes, plain.codes)
    np.testing.assert_array_equal(coded.groups["scale"], plain.groups["scale"])


def test_gptq_takes_fewer_texts_than_columns_and_columns_never_used(rows: Floats) -> None:
    x = np.random.default_rng(6).standard_normal((10, 96))
    x[:, 40:50] = 0
    values = values_of(gptq(rows.copy(), x.T @ x / len(x)))
    assert np.isfinite(values).all()
    assert np.linalg.norm(x @ (values - rows).T) < 0.1 * np.linalg.norm(x @ rows.T)


def test_gptq_refuses_moments_that_are_none(rows: Floats) -> None:
    with pytest.raises(CompileError, match="96 columns have no inverse"):
        gptq(rows, np.full((96, 96), -1.0))
