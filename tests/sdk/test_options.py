"""Options of requests as a value, and what help() says of every one of them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import FrozenInstanceError, fields, replace
from typing import Any, get_type_hints

import pytest

from edgewise import AsyncEngine, Engine, SamplingOptions, Settings, SubmitOptions
from edgewise.options import OPTIONS, SamplingKeywords
from edgewise.request import read_options
from edgewise_runtime.engine.sampling import SamplingParams
from edgewise_runtime.errors import InputError

ASKING = [
    *(getattr(Engine, name) for name in ("generate", "chat", "choices", "submit", "submit_chat")),
    *(getattr(AsyncEngine, name) for name in ("generate", "chat", "choices", "stream")),
    *(getattr(AsyncEngine, name) for name in ("stream_chat", "submit", "submit_chat")),
]


def test_a_value_gives_what_its_options_give(engine: Engine) -> None:
    options: dict[str, Any] = {"max_tokens": 9, "temperature": 1.3, "seed": 5, "stop": ["zzz"]}
    value = SamplingOptions(**options)
    spelled = engine.generate("A model", **options)
    assert engine.generate("A model", sampling=value).token_ids == spelled.token_ids
    messages = [{"role": "user", "content": "Hello"}]
    answer = engine.chat(messages, sampling=value, priority=1)
    assert answer.token_ids == engine.chat(messages, **options).token_ids


def test_what_stands_beside_a_value_comes_first_and_the_models_own_last() -> None:
    value = SamplingOptions(temperature=0.2, top_k=9, max_tokens=5)
    given: SubmitOptions = {"sampling": value, "top_k": 3, "max_tokens": None}
    defaults = {"temperature": 0.9, "top_p": 0.8, "max_tokens": 77}
    params = read_options(given, defaults).params
    assert params == SamplingParams(temperature=0.2, top_k=3, max_tokens=5, top_p=0.8)


def test_a_value_does_not_change() -> None:
    stops, biases = ["a"], {1: 2.0}
    value = SamplingOptions(stop=stops, logit_bias=biases, stop_token_ids=iter([4]))  # type: ignore[arg-type]
    stops.append("b")
    biases[3] = 4.0
    assert (value.stop, value.logit_bias, value.stop_token_ids) == (("a",), {1: 2.0}, (4,))
    with pytest.raises(FrozenInstanceError):
        value.stop = None  # type: ignore[misc]


def test_equal_values_are_one_key() -> None:
    value = SamplingOptions(temperature=0.5, logit_bias={1: 1.0})
    assert value == replace(value, temperature=0.5)
    assert hash(value) == hash(replace(value))
    assert value != replace(value, temperature=0.6)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"temperature": -1}, "temperature is -1"),
        ({"stop": 7}, "stop is 7; it must be a list"),
        ({"top_logprobs": 2}, "top_logprobs is 2"),
        ({"logit_bias": {"a": 1}}, "token id is 'a'"),
    ],
)
def test_a_value_out_of_range_is_refused_when_it_is_made(
    options: dict[str, Any], said: str
) -> None:
    with pytest.raises(InputError, match=said) as caught:
        SamplingOptions(**options)
    assert caught.value.code == "input.sampling"


def test_what_is_no_value_is_refused(engine: Engine) -> None:
    wrong: Any = {"temperature": 0}
    with pytest.raises(InputError, match="it must be a SamplingOptions") as caught:
        engine.generate("x", sampling=wrong)
    assert caught.value.code == "input.option"


def test_values_and_keywords_are_the_same_options() -> None:
    assert get_type_hints(SamplingOptions) == get_type_hints(SamplingKeywords)
    assert {one.name for one in fields(SamplingParams)} == {
        *SamplingKeywords.__annotations__,
        "n",
    }


def test_every_option_is_described_once() -> None:
    assert OPTIONS.keys() == SubmitOptions.__annotations__.keys()


@pytest.mark.parametrize("field", fields(SamplingParams), ids=lambda field: field.name)
def test_a_default_that_is_described_is_the_one_there_is(field: Any) -> None:
    default = getattr(SamplingParams(), field.name)
    said = OPTIONS[field.name].default
    if default is None or default in ((), {}):
        assert said in ("none", "another one each time")
    else:
        assert said == str(default)


@pytest.mark.parametrize("ask", ASKING, ids=lambda ask: ask.__qualname__)
def test_help_shows_every_option_with_its_unit_and_default(ask: Callable[..., Any]) -> None:
    [keywords] = [
        parameter.annotation
        for parameter in inspect.signature(ask).parameters.values()
        if parameter.kind is parameter.VAR_KEYWORD
    ]
    name = re.fullmatch(r"Unpack\[(\w+)\]", keywords)
    assert name is not None
    expected = set(OPTIONS) - ({"n"} if name[1] == "RequestOptions" else set())
    shown = described(inspect.getdoc(ask) or "")
    assert shown.keys() >= expected
    for option in expected:
        assert OPTIONS[option].values in shown[option]
        assert f"Default: {OPTIONS[option].default}" in shown[option]


@pytest.mark.parametrize(
    "made", [Engine.__init__, Settings, SamplingOptions], ids=lambda made: made.__qualname__
)
def test_help_tells_of_every_argument(made: Callable[..., Any]) -> None:
    shown = described(inspect.getdoc(made) or "")
    arguments = inspect.signature(made).parameters.keys() - {"self"}
    assert arguments - shown.keys() == set()
    assert [name for name in arguments - {"bundle"} if "efault" not in shown[name]] == []


def described(text: str) -> dict[str, str]:
    """What a docstring says of each name: ``name: words``, indented, over as many lines."""
    found: dict[str, str] = {}
    name = ""
    for line in text.splitlines():
        begins = re.fullmatch(r"    (\w+): (.*)", line)
        if begins is not None:
            name = begins[1]
            found[name] = begins[2]
        elif line.startswith("        ") and name:
            found[name] += f" {line.strip()}"
        else:
            name = ""
    return found
