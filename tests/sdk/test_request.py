"""Options of requests: what is refused, where it enters, and what is meant by what is not said."""

from __future__ import annotations

from typing import Any

import pytest

from edgewise import Engine, SubmitOptions
from edgewise.model_defaults import defaults_from
from edgewise.request import read_options
from edgewise_runtime.engine.sampling import SamplingParams
from edgewise_runtime.engine.sequence import Request
from edgewise_runtime.errors import BundleError, InputError


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"priority": 1.5}, "priority is 1.5"),
        ({"priority": True}, "priority is True"),
        ({"priority": 1 << 40}, "priority is 1099511627776"),
        ({"timeout_s": 0}, "timeout_s is 0"),
        ({"timeout_s": -1}, "timeout_s is -1"),
        ({"timeout_s": True}, "timeout_s is True"),
        ({"timeout_s": "9"}, "timeout_s is '9'"),
        ({"timeout_s": float("nan")}, "timeout_s is nan"),
        ({"timeout_s": float("inf")}, "timeout_s is inf"),
        ({"context_policy": "forget"}, "context_policy is 'forget'"),
        ({"context_policy": ["stop"]}, "one of stop, error, drop"),
        ({"cache_salt": ""}, "cache_salt is ''"),
        ({"cache_salt": b"salt"}, "cache_salt is b'salt'"),
        ({"cache_salt": "x" * 257}, "1 to 256 characters"),
    ],
)
def test_an_option_out_of_range_is_refused_at_once(
    engine: Engine, options: dict[str, Any], said: str
) -> None:
    for ask in (engine.generate, engine.submit):
        with pytest.raises(InputError, match=said) as caught:
            ask("x", **options)
        assert caught.value.code == "input.option"


@pytest.mark.parametrize(
    "options",
    [
        {"n": 0},
        {"n": 65},
        {"n": 2.0},
        {"logprobs": 1},
        {"top_logprobs": 1},
        {"logprobs": True, "top_logprobs": 21},
    ],
)
def test_a_sampling_parameter_out_of_range_is_refused_at_once(
    engine: Engine, options: dict[str, Any]
) -> None:
    with pytest.raises(InputError) as caught:
        engine.submit("x", **options)
    assert caught.value.code == "input.sampling"


def test_an_unknown_option_is_told_what_there_is(engine: Engine) -> None:
    with pytest.raises(InputError, match="no option 'prioritty'") as caught:
        engine.submit("x", prioritty=1)  # type: ignore[call-arg]
    assert {"priority", "timeout_s", "n", "seed"} <= set(
        caught.value.remedy.removeprefix("There are ").rstrip(".").split(", ")
    )


def test_options_of_none_are_those_of_the_model() -> None:
    given: SubmitOptions = {"priority": None, "timeout_s": None, "cache_salt": None, "top_k": 3}
    asked = read_options(given, {"top_k": 5, "temperature": 0.3})
    params = SamplingParams(top_k=3, temperature=0.3)
    assert asked.of_prompt((1, 2)) == Request((1, 2), params)


def test_options_that_are_given_reach_the_request() -> None:
    given: SubmitOptions = {
        "priority": -2,
        "timeout_s": 1.5,
        "context_policy": "error",
        "cache_salt": "me",
        "n": 3,
        "seed": 7,
    }
    asked = read_options(given, {}, several=True)
    assert asked.of_prompt((1, 2)) == Request(
        (1, 2),
        SamplingParams(n=3, seed=7),
        priority=-2,
        timeout_s=1.5,
        context_policy="error",
        extras=("me",),
    )


def test_given_values_come_before_defaults_and_none_is_not_given() -> None:
    given = {"temperature": 0.9, "top_k": None}
    params = read_options(given, {"temperature": 0.3, "top_k": 5}).params
    assert (params.temperature, params.top_k) == (0.9, 5)


@pytest.mark.parametrize(
    ("stop", "read"), [("ab", ("ab",)), (["a", "b"], ("a", "b")), ([], ()), (None, ())]
)
def test_a_single_stop_string_is_one_stop_string(stop: Any, read: tuple[str, ...]) -> None:
    assert read_options({"stop": stop}, {}).params.stop == read


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("stop", 7, "stop is 7; it must be a list"),
        ("stop", "", "stop is ''"),
        ("stop", [b"x"], "stop is b'x'"),
        ("stop", ["x"] * 65, r"len\(stop\) is 65"),
        ("stop_token_ids", 3, "stop_token_ids is 3; it must be a list"),
        ("stop_token_ids", [-3], "stop_token_ids is -3"),
        ("temperature", "hot", "temperature is 'hot'"),
    ],
)
def test_what_is_no_way_to_choose_tokens_is_refused(option: str, value: Any, said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        read_options({option: value}, {})
    assert caught.value.code == "input.sampling"


def test_options_are_read_once_so_a_list_may_be_an_iterator(engine: Engine) -> None:
    greedy: dict[str, Any] = {"temperature": 0, "max_tokens": 20, "ignore_eos": True}
    messages = [{"role": "user", "content": "Hello"}]
    answer = engine.chat(messages, **greedy).token_ids
    twice = engine.generate(["A model"] * 2, **greedy)[0].token_ids
    stop: Any = iter([answer[3]])
    assert engine.chat(messages, stop_token_ids=stop, **greedy).finish_reason == "stop"
    stop = iter([twice[3]])
    ended = engine.generate(["A model"] * 2, stop_token_ids=stop, **greedy)
    assert [completion.finish_reason for completion in ended] == ["stop", "stop"]


def test_the_models_own_defaults_are_used() -> None:
    config = {"do_sample": True, "temperature": 0.6, "top_k": 20, "top_p": 0.9, "eos_token_id": 2}
    assert defaults_from(config) == {"temperature": 0.6, "top_k": 20, "top_p": 0.9}


def test_a_model_that_does_not_sample_is_greedy() -> None:
    defaults = defaults_from({"do_sample": False, "temperature": 0.6, "max_new_tokens": 9})
    assert defaults == {"temperature": 0.0, "max_tokens": 9}


def test_an_unusable_default_is_the_bundles_fault() -> None:
    with pytest.raises(BundleError, match="top_p is 7"):
        defaults_from({"top_p": 7})


def test_what_gives_one_completion_refuses_several(engine: Engine) -> None:
    several: dict[str, Any] = {"n": 2}
    messages = [{"role": "user", "content": "Hello"}]
    for ask in (
        lambda: engine.generate("x", **several),
        lambda: engine.generate("x", stream=True, **several),
        lambda: engine.chat(messages, **several),
    ):
        with pytest.raises(InputError, match="n is 2") as caught:
            ask()
        assert caught.value.code == "input.n"


def test_a_request_is_for_one_prompt(engine: Engine) -> None:
    several: Any = ["x", "y"]
    for ask in (
        lambda: engine.submit(several),
        lambda: engine.choices(several, n=2),
        lambda: engine.pin(several),
    ):
        with pytest.raises(InputError, match="one prompt, not a list of 2"):
            ask()
