"""Histograms: buckets and sums are exact, percentiles are right to within a bucket."""

from __future__ import annotations

import math
from bisect import bisect_left

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise_runtime.engine.histogram import PERCENTILES, Histogram, steps_1_2_5
from edgewise_runtime.errors import InputError

BOUNDS = (0.5, 1.0, 2.0, 10.0)
# Quarters: their sums are exact in any order, and bounds are among them.
values = st.lists(st.integers(0, 80).map(lambda quarters: quarters / 4), min_size=1, max_size=60)


def filled(observed: list[float]) -> Histogram:
    histogram = Histogram(BOUNDS)
    for value in observed:
        histogram.observe(value)
    return histogram


@given(values)
def test_a_bucket_counts_all_values_up_to_its_bound(observed: list[float]) -> None:
    snapshot = filled(observed).snapshot()
    expected = {f"{bound:g}": sum(v <= bound for v in observed) for bound in BOUNDS}
    assert snapshot["buckets"] == {**expected, "+Inf": len(observed)}
    assert snapshot["count"] == len(observed)
    assert snapshot["sum"] == sum(observed)


@given(values, st.integers(0, 100))
def test_an_estimate_lies_in_the_bucket_of_the_value_it_is_for(
    observed: list[float], percent: int
) -> None:
    estimate = filled(observed).percentile(percent)
    true = sorted(observed)[max(math.ceil(len(observed) * percent / 100), 1) - 1]
    edges = [-math.inf, *BOUNDS, math.inf]
    bucket = bisect_left(BOUNDS, true)
    assert estimate is not None
    assert max(edges[bucket], min(observed)) <= estimate <= min(edges[bucket + 1], max(observed))


@given(values)
def test_higher_percentiles_are_not_lower(observed: list[float]) -> None:
    histogram = filled(observed)
    estimates = [histogram.percentile(percent) or 0.0 for percent in range(101)]
    assert estimates == sorted(estimates)
    assert estimates[100] == max(observed)


def test_equal_values_are_their_own_percentiles() -> None:
    snapshot = filled([1.5] * 7).snapshot()
    assert [snapshot[f"p{percent}"] for percent in PERCENTILES] == [1.5] * 3


def test_no_rounding_lifts_an_estimate_above_the_largest_value() -> None:
    low, high = 0.03, 0.44
    assert low + (high - low) > high
    assert filled([low, high]).percentile(100) == high


def test_values_spread_evenly_over_a_bucket_are_interpolated() -> None:
    histogram = filled([2.0 + i / 4 for i in range(1, 33)])
    assert histogram.percentile(50) == pytest.approx(6.125)


@given(values, st.integers(0, 5))
def test_a_value_counted_several_times_is_as_many_values(observed: list[float], times: int) -> None:
    histogram = Histogram(BOUNDS)
    for value in observed:
        histogram.observe(value, times)
    assert histogram.snapshot() == filled(observed * times).snapshot()


def test_nothing_counted_has_no_percentiles() -> None:
    assert Histogram((1, 2)).snapshot() == {
        "count": 0,
        "sum": 0.0,
        "p50": None,
        "p90": None,
        "p99": None,
        "buckets": {"1": 0, "2": 0, "+Inf": 0},
    }


@pytest.mark.parametrize("bounds", [(), (1, 1), (2, 1), (1, math.inf), (math.nan,), (0, math.nan)])
def test_bounds_must_be_finite_and_rise(bounds: tuple[float, ...]) -> None:
    with pytest.raises(InputError) as raised:
        Histogram(bounds)
    assert raised.value.code == "input.bounds"


def test_bounds_1_2_5_are_the_numbers_people_write() -> None:
    assert steps_1_2_5(-4, -2) == (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01)
