"""Bits go where they save most for what they take."""

from __future__ import annotations

import math
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise_compiler.quantize import SCHEMES
from edgewise_compiler.quantize.budget import spend, stored_bits
from edgewise_runtime.errors import InputError

SOME = tuple(SCHEMES[name] for name in ("q4", "q5", "q6", "q8"))
COSTS = {name: 4.0**-i for i, name in enumerate(("q4", "q5", "q6", "q8"))}


@pytest.mark.parametrize(
    ("scheme", "bits"), [("q4", 4.5), ("q5", 5.5), ("q6", 6.5), ("q8", 8.5), ("q4a", 5.0)]
)
def test_bits_count_the_numbers_of_a_group(scheme: str, bits: float) -> None:
    assert stored_bits(SCHEMES[scheme]) == bits


def test_what_costs_more_gets_more() -> None:
    costs = {"much": {k: 100 * v for k, v in COSTS.items()}, "little": COSTS}
    chosen = spend(6.5, SOME, costs, {"much": 64, "little": 64})
    assert {name: scheme.name for name, scheme in chosen.items()} == {"much": "q8", "little": "q4"}


def test_of_two_that_cost_alike_the_smaller_comes_first() -> None:
    chosen = spend(4.61, SOME, {"large": COSTS, "small": COSTS}, {"large": 900, "small": 100})
    assert {name: scheme.name for name, scheme in chosen.items()} == {"large": "q4", "small": "q5"}


def test_nothing_is_spent_where_nothing_is_saved() -> None:
    same = dict.fromkeys(COSTS, 1.0)
    assert spend(8.5, SOME, {"it": same}, {"it": 32})["it"].name == "q4"


@given(
    st.lists(
        st.tuples(st.integers(1, 64), st.just(0.0) | st.floats(0.01, 10)), min_size=1, max_size=5
    ),
    st.floats(4.5, 9),
)
def test_a_budget_is_kept_and_hardly_left(linears: list[tuple[int, float]], bits: float) -> None:
    costs = {str(i): {k: v * cost for k, v in COSTS.items()} for i, (_, cost) in enumerate(linears)}
    weights = {str(i): weight for i, (weight, _) in enumerate(linears)}
    chosen = spend(bits, SOME, costs, weights)
    taken = sum(stored_bits(scheme) * weights[name] for name, scheme in chosen.items())
    left = bits * sum(weights.values()) - taken
    assert left >= -1e-6
    for (name, now), more in product(chosen.items(), SOME):
        better = costs[name][more.name] < costs[name][now.name]
        assert not better or (stored_bits(more) - stored_bits(now)) * weights[name] > left - 1e-6


@pytest.mark.parametrize("bits", [4.4, 0.0, -1.0, math.nan])
def test_too_few_bits_are_refused(bits: float) -> None:
    with pytest.raises(InputError, match=r"fewer than q4's 4\.5"):
        spend(bits, SOME, {"it": COSTS}, {"it": 32})
