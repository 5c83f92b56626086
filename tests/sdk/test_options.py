"""Options of requests and settings of engines: what is refused, where it enters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edgewise import Engine, Settings, SubmitOptions
from edgewise.options import split_options
from edgewise.settings import drafting
from edgewise_runtime.errors import InputError


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
    request, sampling = split_options(given)
    assert request == {
        "priority": 0,
        "timeout_s": None,
        "context_policy": "stop",
        "extras": (),
    }
    assert sampling == {"top_k": 3}


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


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"step_tokens": 0}, "step_tokens is 0"),
        ({"step_tokens": True}, "step_tokens is True"),
        ({"step_tokens": 64.0}, "step_tokens is 64.0"),
        ({"max_waiting": 0}, "max_waiting is 0"),
        ({"max_waiting": None}, "max_waiting is None"),
        ({"max_waiting": 1 << 21}, "max_waiting is 2097152"),
        ({"prefix_memory": -1}, "prefix_memory is -1"),
        ({"prefix_memory": 0.5}, "prefix_memory is 0.5"),
        ({"prefix_disk": "1 GB"}, "prefix_disk is '1 GB'"),
        ({"prefix_disk": 1 << 51}, "prefix_disk is 2251799813685248"),
        ({"prefix_disk": 9, "prefix_folder": 3}, "prefix_folder is 3"),
        ({"prefix_disk": 9, "prefix_folder": ""}, "prefix_folder is ''"),
        ({"prefix_folder": "here"}, "prefix_disk is 0"),
        ({"share_decoded": 1}, "share_decoded is 1"),
        ({"draft": ""}, "draft is ''"),
        ({"draft": 7}, "draft is 7"),
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        Settings(**settings)
    assert caught.value.code == "input.option"


def test_a_budget_below_the_batch_is_refused_and_leaves_nothing_open(bundle: Path) -> None:
    with pytest.raises(InputError, match="A step of 7 tokens") as caught:
        Engine(bundle, settings=Settings(step_tokens=7))
    assert caught.value.code == "input.step_tokens"


def test_a_draft_is_given_once() -> None:
    assert drafting(None, "lookup") == Settings(draft="lookup")
    assert drafting(Settings(draft="lookup"), None) == Settings(draft="lookup")
    with pytest.raises(InputError, match=r"'other'.*'lookup' in the settings"):
        drafting(Settings(draft="lookup"), "other")


def test_a_draft_that_is_no_model_is_refused(bundle: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        Engine(bundle, draft=tmp_path)
    assert caught.value.code == "input.model"
