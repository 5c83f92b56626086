"""Sampling parameters: every value is checked where it enters, and the message quotes it."""

from __future__ import annotations

from typing import Any

import pytest

from edgewise_runtime.engine.sampling import SamplingParams, defaults_from, sampling_params
from edgewise_runtime.errors import BundleError, InputError


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", -0.1),
        ("temperature", 100.5),
        ("temperature", float("nan")),
        ("temperature", float("inf")),
        ("temperature", "hot"),
        ("temperature", True),
        ("top_p", 0),
        ("top_p", 1.01),
        ("min_p", -1e-9),
        ("repetition_penalty", 0),
        ("presence_penalty", 1e9),
        ("frequency_penalty", -1e9),
        ("top_k", -1),
        ("top_k", 1.5),
        ("max_tokens", 0),
        ("max_tokens", 1 << 31),
        ("seed", -1),
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
        ("stop", 7),
        ("stop", [""]),
        ("stop", ["x" * 1001]),
        ("stop", [b"x"]),
        ("stop", ["x"] * 65),
        ("stop_token_ids", 3),
        ("stop_token_ids", [-3]),
        ("stop_token_ids", list(range(65))),
    ],
)
def test_a_value_out_of_range_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(InputError) as caught:
        sampling_params(**{name: value})
    assert name in caught.value.message
    assert caught.value.code == "input.sampling"


@pytest.mark.parametrize(("name", "value"), [("temperature", -0.1), ("top_k", -17), ("stop", [7])])
def test_the_message_quotes_the_value(name: str, value: Any) -> None:
    with pytest.raises(InputError, match=str(value).strip("[]")):
        sampling_params(**{name: value})


def test_a_long_value_is_quoted_in_part() -> None:
    with pytest.raises(InputError) as caught:
        sampling_params(logit_bias="x" * 10_000)
    assert len(caught.value.message) < 200


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(InputError, match="'temprature'") as caught:
        sampling_params(temprature=1)
    assert "temperature" in caught.value.remedy


@pytest.mark.parametrize(
    ("name", "value"),
    [("temperature", 0), ("temperature", 100), ("top_p", 1), ("seed", (1 << 64) - 1), ("top_k", 0)],
)
def test_the_bounds_themselves_are_accepted(name: str, value: Any) -> None:
    assert getattr(sampling_params(**{name: value}), name) == value


@pytest.mark.parametrize(
    "options", [{}, {"logprobs": True}, {"logprobs": True, "top_logprobs": 20}, {"n": 64}]
)
def test_logprobs_and_choices_are_as_asked_for(options: dict[str, Any]) -> None:
    params = sampling_params(**options)
    expected = {"logprobs": False, "top_logprobs": 0, "n": 1} | options
    assert {name: getattr(params, name) for name in expected} == expected


def test_given_values_come_before_defaults_and_none_is_not_given() -> None:
    params = sampling_params({"temperature": 0.3, "top_k": 5}, temperature=0.9, top_k=None)
    assert (params.temperature, params.top_k) == (0.9, 5)


def test_a_single_stop_string_is_one_stop_string() -> None:
    assert sampling_params(stop="ab").stop == ("ab",)
    assert sampling_params(stop=["a", "b"]).stop == ("a", "b")
    assert sampling_params(stop=[]).stop == ()


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
    assert sampling_params(**options).penalized is penalized


def test_the_models_own_defaults_are_used() -> None:
    config = {"do_sample": True, "temperature": 0.6, "top_k": 20, "top_p": 0.9, "eos_token_id": 2}
    assert defaults_from(config) == {"temperature": 0.6, "top_k": 20, "top_p": 0.9}


def test_a_model_that_does_not_sample_is_greedy() -> None:
    defaults = defaults_from({"do_sample": False, "temperature": 0.6, "max_new_tokens": 9})
    assert defaults == {"temperature": 0.0, "max_tokens": 9}


def test_an_unusable_default_is_the_bundles_fault() -> None:
    with pytest.raises(BundleError, match="top_p is 7"):
        defaults_from({"top_p": 7})
