"""The chi-square test that tests of sampling rest on."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frequencies import SIGNIFICANCE, p_value, tail


@pytest.mark.parametrize(
    ("x", "freedom", "expected"),
    [
        (3.841459, 1, 0.05),
        (5.991465, 2, 0.05),
        (23.20925, 10, 0.01),
        (20.51501, 5, 0.001),
        (124.3421, 100, 0.05),
        (27.63102, 2, 1e-6),
    ],
)
def test_the_tail_is_that_of_tables(x: float, freedom: int, expected: float) -> None:
    assert tail(x, freedom) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("freedom", [1, 2, 3, 8, 31])
def test_the_tail_is_that_of_sums_of_squares(freedom: int) -> None:
    squares = (np.random.default_rng(freedom).normal(size=(20_000, freedom)) ** 2).sum(-1)
    for x in np.quantile(squares, [0.1, 0.5, 0.9]):
        assert tail(float(x), freedom) == pytest.approx((squares > x).mean(), abs=0.02)


def test_p_values_of_fair_draws_are_spread_evenly() -> None:
    rng = np.random.default_rng(1)
    p = rng.dirichlet(np.ones(20))
    found = np.array([p_value(rng.multinomial(4000, p), p) for _ in range(400)])
    assert np.abs(np.quantile(found, [0.25, 0.5, 0.75]) - [0.25, 0.5, 0.75]).max() < 0.08


def test_a_small_bias_is_found_and_an_impossible_number_at_once() -> None:
    p = np.full(10, 0.1)
    biased = np.array([0.13, 0.07, *p[2:]])
    assert p_value((biased * 4000).astype(int), p) < SIGNIFICANCE
    assert p_value(np.array([0, 4000]), np.array([0.0, 1.0])) == 1
    assert p_value(np.array([1, 3999]), np.array([0.0, 1.0])) == 0
