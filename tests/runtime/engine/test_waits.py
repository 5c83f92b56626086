"""The median of waits: exact while few of them differ, and near it in little memory."""

from __future__ import annotations

from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise_runtime.engine.waits import EXACT, Waits

TIMES = st.floats(0, 1e6, allow_nan=False)


def waited(entries: list[tuple[float, int]]) -> tuple[Waits, float]:
    """The waits, and their median."""
    waits = Waits()
    for wait, times in entries:
        waits.add(wait, times)
    return waits, median([wait for wait, times in entries for _ in range(times)])


@given(st.lists(st.tuples(TIMES, st.integers(1, 9)), min_size=1, max_size=EXACT))
def test_few_waits_have_their_median(entries: list[tuple[float, int]]) -> None:
    waits, expected = waited(entries)
    assert waits.median() == expected


def test_no_waits_have_none() -> None:
    assert Waits().median() is None


@pytest.mark.parametrize("order", [1, 7919, -1])
@pytest.mark.parametrize("unit", [1e-6, 1e-2])
def test_of_many_waits_few_are_kept_and_the_median_is_near(order: int, unit: float) -> None:
    waits, expected = waited([(unit * (order * at % 20_000), 3) for at in range(20_000)])
    assert waits.median() == pytest.approx(expected, rel=0.012)
    assert len(waits) < 600
