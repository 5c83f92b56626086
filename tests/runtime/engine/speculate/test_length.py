"""The adaptive length of drafts: what it settles on, and what that costs."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise_runtime.engine.speculate.length import AdaptiveLength, best_length
from edgewise_runtime.errors import InputError


def lengths(chosen: AdaptiveLength, right: int, steps: int) -> list[int]:
    """The lengths of so many drafts, of each of which the first `right` tokens are right."""
    seen = []
    for _ in range(steps):
        k = chosen.next()
        seen.append(k)
        chosen.observe(k, min(k, right))
    return seen


def speed(chance: float, cost: float, fixed: int | None = None, steps: int = 4000) -> float:
    """Tokens per plain step where each drafted token is right by chance."""
    random, chosen = Random(17), AdaptiveLength(cost=cost)
    tokens = seconds = 0.0
    for _ in range(steps):
        k = chosen.next() if fixed is None else fixed
        right = 0
        while right < k and random.random() < chance:
            right += 1
        chosen.observe(k, right)
        tokens += right + 1
        seconds += 1 + cost * k
    return tokens / seconds


def test_drafts_grow_to_the_longest_while_everything_is_right() -> None:
    seen = lengths(AdaptiveLength(most=7), right=7, steps=12)
    assert seen[0] > 0
    assert seen == sorted(seen)
    assert seen[-1] == 7


def test_drafts_that_are_always_wrong_stop_but_for_rare_attempts() -> None:
    seen = lengths(AdaptiveLength(), right=0, steps=400)
    attempts = [step for step, k in enumerate(seen) if k]
    assert set(seen[attempts[2] :]) == {0, 1}
    pauses = [b - a - 1 for a, b in pairwise(attempts)]
    assert pauses[-1] == 64
    assert pauses == sorted(pauses)


def test_an_attempt_that_is_right_brings_drafts_back() -> None:
    chosen = AdaptiveLength()
    lengths(chosen, right=0, steps=300)
    seen = lengths(chosen, right=7, steps=64 + 30)
    first = next(step for step, k in enumerate(seen) if k)
    assert all(seen[first:])
    assert seen[-1] == 7


def test_pauses_begin_short_again_after_a_success() -> None:
    chosen = AdaptiveLength()
    lengths(chosen, right=0, steps=300)
    lengths(chosen, right=7, steps=100)
    seen = lengths(chosen, right=0, steps=60)
    off = seen.index(0)
    assert seen[off : off + 5] == [0, 0, 0, 0, 1]


def test_attempts_stay_rare_where_now_and_then_one_is_right() -> None:
    """Every other attempt is, which is less than drafts cost here."""
    chosen, attempts = AdaptiveLength(cost=0.8), 0
    for _ in range(1000):
        k = chosen.next()
        attempts += bool(k)
        chosen.observe(k, min(k, attempts % 2))
    assert attempts < 60


@pytest.mark.parametrize("cost", [1.0, 1.15, 30.0])
def test_drafts_that_cost_a_whole_step_are_never_worth_it(cost: float) -> None:
    assert lengths(AdaptiveLength(cost=cost), right=7, steps=100) == [0] * 100


def test_tokens_after_the_first_wrong_one_say_nothing() -> None:
    """Of two right ones and a wrong one two thirds are right, however long the draft."""
    chosen = AdaptiveLength()
    for proposed in range(3, 100):
        chosen.observe(proposed, 2)
    assert chosen.acceptance == pytest.approx(2 / 3, rel=1e-3)


def test_a_step_without_a_guess_changes_nothing() -> None:
    chosen = AdaptiveLength()
    before = (chosen.next(), chosen.acceptance)
    chosen.observe(0, 0)
    assert (chosen.next(), chosen.acceptance) == before


@pytest.mark.parametrize(("running", "waiting"), [(5, 0), (1, 1), (9, 3)])
def test_there_is_no_draft_in_company_that_needs_the_arithmetic(running: int, waiting: int) -> None:
    chosen = AdaptiveLength(max_batch=4)
    assert chosen.next(running, waiting) == 0
    assert chosen.next(running=4) > 0


def test_company_does_not_use_up_the_pause_before_an_attempt() -> None:
    alone, joined = AdaptiveLength(), AdaptiveLength()
    for chosen in (alone, joined):
        lengths(chosen, right=0, steps=10)
    for _ in range(200):
        joined.next(running=9)
    assert lengths(joined, right=0, steps=100) == lengths(alone, right=0, steps=100)


@pytest.mark.parametrize("chance", [0.0, 0.3, 0.6, 0.8, 0.95])
@pytest.mark.parametrize("cost", [0.1, 0.25, 0.5, 0.9])
def test_it_is_nearly_as_quick_as_the_best_fixed_length(chance: float, cost: float) -> None:
    best = max(speed(chance, cost, fixed) for fixed in range(8))
    assert speed(chance, cost) > 0.93 * best


@given(acceptance=st.floats(0, 1), cost=st.floats(0.01, 2), most=st.integers(0, 12))
def test_the_best_length_is_the_best(acceptance: float, cost: float, most: int) -> None:
    def tokens(k: int) -> float:
        return sum(acceptance**i for i in range(k + 1)) / (1 + cost * k)

    chosen = best_length(acceptance, cost, most)
    assert 0 <= chosen <= most
    assert all(tokens(chosen) >= tokens(k) * (1 - 1e-12) for k in range(most + 1))


@pytest.mark.parametrize(("acceptance", "length"), [(0.0, 0), (0.2, 0), (0.21, 1), (1.0, 7)])
def test_drafts_begin_where_acceptance_exceeds_the_cost(acceptance: float, length: int) -> None:
    assert best_length(acceptance, 0.2, 7) == length


@pytest.mark.parametrize(
    "options", [{"most": -1}, {"max_batch": -1}, {"cost": 0.0}, {"cost": float("nan")}]
)
def test_options_out_of_range_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(InputError) as refused:
        AdaptiveLength(**options)  # type: ignore[arg-type]
    assert refused.value.code == "input.draft"


@pytest.mark.parametrize(("proposed", "accepted"), [(2, 3), (1, -1), (-1, -1)])
def test_an_impossible_outcome_is_refused(proposed: int, accepted: int) -> None:
    with pytest.raises(InputError):
        AdaptiveLength().observe(proposed, accepted)
