"""Sampling parameters: every value is checked where it enters, and the message quotes it."""

from __future__ import annotations

from typing import Any

import pytest

from edgewise_runtime.engine.sampling import SamplingParams
from edgewise_runtime.errors import InputError


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", -0.1),
        ("temperature", 100.5),
        ("temperature", float("nan")),
        ("temperature", float("inf")),
        ("temperature", "hot"),
        ("temperature", True),
        ("top_p", -0.1),
        ("top_p", 1.01),
        ("min_p", -1e-9),
        ("repetition_penalty", 0),
        ("presence_penalty", 1e9),
        ("frequency_penalty", -1e9),
        ("top_k", -2),
        ("top_k", 1.5),
        ("max_tokens", -1),
        ("max_tokens", 1 << 31),
        ("seed", -2),
        ("seed", 1 << 64),
        ("ignore_eos", 1),
        ("logprobs", 1),
        ("top_logprobs", -1),
        ("top_logprobs", 21),
        ("top_logprobs", True),
        ("top_logprobs", 3),
        ("n", 0),
        ("n", 65),
        ("n", 1.0),
        ("logit_bias", [1, 2]),
        ("logit_bias", {-1: 0.0}),
        ("logit_bias", {1: float("nan")}),
        ("logit_bias", {"1": 0.0}),
        ("logit_bias", dict.fromkeys(range(321), 0.0)),
        ("stop", [""]),
        ("stop", ["x" * 1001]),
        ("stop", [b"x"]),
        ("stop", ["x"] * 65),
        ("stop_token_ids", [-3]),
        ("stop_token_ids", list(range(65))),
    ],
)
def test_a_value_out_of_range_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(InputError) as caught:
        SamplingParams(**{name: value})
    assert name in caught.value.message
    assert caught.value.code == "input.sampling"


@pytest.mark.parametrize(("name", "value"), [("temperature", -0.1), ("top_k", -17), ("stop", [7])])
def test_the_message_quotes_the_value(name: str, value: Any) -> None:
    with pytest.raises(InputError, match=str(value).strip("[]")):
        SamplingParams(**{name: value})


def test_a_long_value_is_quoted_in_part() -> None:
    with pytest.raises(InputError) as caught:
        SamplingParams(logit_bias="x" * 10_000)
    assert len(caught.value.message) < 200


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("temperature", 0), ("temperature", 100), ("top_p", 0), ("top_p", 1)),
        *(("seed", 0), ("seed", (1 << 64) - 1), ("top_k", 0), ("max_tokens", 0)),
    ],
)
def test_the_bounds_themselves_are_accepted(name: str, value: Any) -> None:
    assert getattr(SamplingParams(**{name: value}), name) == value


@pytest.mark.parametrize("name", ["top_k", "seed"])
def test_less_than_any_value_is_as_good_as_not_given(name: str) -> None:
    options: dict[str, Any] = {name: -1}
    assert SamplingParams(**options) == SamplingParams()


def test_keeping_no_probability_keeps_the_likeliest_token() -> None:
    assert SamplingParams(temperature=1.0, top_p=0).greedy
    assert not SamplingParams(temperature=1.0, top_p=1e-9).greedy


@pytest.mark.parametrize(
    "options", [{}, {"logprobs": True}, {"logprobs": True, "top_logprobs": 20}, {"n": 64}]
)
def test_logprobs_and_choices_are_as_asked_for(options: dict[str, Any]) -> None:
    params = SamplingParams(**options)
    expected = {"logprobs": False, "top_logprobs": 0, "n": 1} | options
    assert {name: getattr(params, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("temperature", "greedy"), [(0.0, True), (1e-9, True), (1e-3, False), (1.0, False)]
)
def test_a_temperature_too_small_to_divide_by_is_greedy(temperature: float, greedy: bool) -> None:
    assert SamplingParams(temperature=temperature).greedy is greedy


@pytest.mark.parametrize(
    ("options", "penalized"),
    [
        ({}, False),
        ({"repetition_penalty": 1.1}, True),
        ({"presence_penalty": -0.5}, True),
        ({"frequency_penalty": 0.5}, True),
    ],
)
def test_tokens_are_counted_only_where_a_penalty_needs_it(
    options: dict[str, float], penalized: bool
) -> None:
    assert SamplingParams(**options).penalized is penalized
