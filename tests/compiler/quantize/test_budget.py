"""Bits go where they save most for what they take."""

from __future__ import annotations

import math
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise_compiler.quantize import SCHEMES
from edgewise_compiler.quantize.budget import Size, spend, stored_bits
from edgewise_runtime.errors import InputError

SOME = tuple(SCHEMES[name] for name in ("q4", "q5", "q6", "q8"))
COSTS = {name: 4.0**-i for i, name in enumerate(("q4", "q5", "q6", "q8"))}


@pytest.mark.parametrize(
    ("scheme", "bits"),
    [("q4", 4.5), ("q5", 5.5), ("q6", 6.5), ("q8", 8.5), ("q4a", 5.0), ("q5_nl", 5.5)],
)
def test_bits_count_the_numbers_of_a_group_and_of_a_row(scheme: str, bits: float) -> None:
    assert stored_bits(SCHEMES[scheme], columns=128) == bits


def test_what_costs_more_gets_more() -> None:
    costs = {"much": {k: 100 * v for k, v in COSTS.items()}, "little": COSTS}
    chosen = spend(6.5, SOME, costs, {"much": Size(64, 32), "little": Size(64, 32)})
    assert {name: scheme.name for name, scheme in chosen.items()} == {"much": "q8", "little": "q4"}


def test_of_two_that_cost_alike_the_smaller_comes_first() -> None:
    sizes = {"large": Size(900, 32), "small": Size(100, 32)}
    chosen = spend(4.61, SOME, {"large": COSTS, "small": COSTS}, sizes)
    assert {name: scheme.name for name, scheme in chosen.items()} == {"large": "q4", "small": "q5"}


def test_nothing_is_spent_where_nothing_is_saved() -> None:
    same = dict.fromkeys(COSTS, 1.0)
    assert spend(8.5, SOME, {"it": same}, {"it": Size(32, 32)})["it"].name == "q4"


@given(
    st.lists(
        st.tuples(st.integers(1, 64), st.just(0.0) | st.floats(0.01, 10)), min_size=1, max_size=5
    ),
    st.floats(4.5, 9),
)
def test_a_budget_is_kept_and_hardly_left(linears: list[tuple[int, float]], bits: float) -> None:
    costs = {str(i): {k: v * cost for k, v in COSTS.items()} for i, (_, cost) in enumerate(linears)}
    sizes = {str(i): Size(weight, 32) for i, (weight, _) in enumerate(linears)}
    chosen = spend(bits, SOME, costs, sizes)
    taken = sum(sizes[name].bits(scheme) for name, scheme in chosen.items())
    left = bits * sum(size.weights for size in sizes.values()) - taken
    assert left >= -1e-6
    for (name, now), more in product(chosen.items(), SOME):
        better = costs[name][more.name] < costs[name][now.name]
        assert not better or sizes[name].bits(more) - sizes[name].bits(now) > left - 1e-6


@pytest.mark.parametrize("bits", [4.4, 0.0, -1.0, math.nan])
def test_too_few_bits_are_refused(bits: float) -> None:
    with pytest.raises(InputError, match=r"fewer than q4's 4\.5"):
        spend(bits, SOME, {"it": COSTS}, {"it": Size(32, 32)})


def test_the_fewest_bits_there_may_be_are_said_and_are_enough() -> None:
    bent = tuple(SCHEMES[name] for name in ("q4_nl", "q5_nl"))
    costs = {"it": {"q4_nl": 1.0, "q5_nl": 0.5}}
    with pytest.raises(InputError, match=r"fewer than q4_nl's 4\.34\.") as caught:
        spend(4.3, bent, costs, {"it": Size(576 * 64, 576)})  # six words a row
    assert "4.34" in caught.value.remedy
    assert spend(4.34, bent, costs, {"it": Size(576 * 64, 576)})["it"].name == "q4_nl"
