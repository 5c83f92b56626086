"""What `/set` understands, in the words of other programs, too."""

from __future__ import annotations

import pytest

from edgewise import Engine
from edgewise.cli.talk.conversation import Conversation
from edgewise.cli.talk.settings import all_values, set_value
from edgewise_runtime.errors import InputError


@pytest.fixture
def talk(thinker: Engine) -> Conversation:
    return Conversation(thinker, {"temperature": 0.3})


@pytest.mark.parametrize(
    ("typed", "option", "value", "said"),
    [
        ("temperature 0.5", "temperature", 0.5, "temperature: 0.5"),
        ("parameter temperature 1", "temperature", 1.0, "temperature: 1.0"),
        ("max-tokens 20", "max_tokens", 20, "max-tokens: 20"),
        ("max_tokens 20", "max_tokens", 20, "max-tokens: 20"),
        ("parameter num_predict 20", "max_tokens", 20, "max-tokens: 20"),
        ("repeat_penalty 1.1", "repetition_penalty", 1.1, "repetition-penalty: 1.1"),
        ("seed 7", "seed", 7, "seed: 7"),
        ("stop  the end ", "stop", ["the end"], "stop: 'the end'"),
        ("stop default", "stop", None, "stop: none (default)"),
        ("temperature default", "temperature", None, "temperature: 0.7 (default)"),
        ("max-tokens default", "max_tokens", None, "max-tokens: 40 (default)"),
        ("seed default", "seed", None, "seed: any (default)"),
    ],
)
def test_sampling_is_set(
    talk: Conversation, typed: str, option: str, value: object, said: str
) -> None:
    assert set_value(talk, typed) == said
    assert talk.options[option] == value


@pytest.mark.parametrize(
    ("typed", "think", "said"),
    [
        ("think", True, "think: on"),
        ("think on", True, "think: on"),
        ("nothink", False, "think: off"),
        ("think off", False, "think: off"),
        ("think default", None, "think: default"),
    ],
)
def test_thinking_is_set(talk: Conversation, typed: str, think: bool | None, said: str) -> None:
    assert set_value(talk, typed) == said
    assert talk.think is think


def test_a_system_prompt_is_set_in_the_middle_of_a_conversation(talk: Conversation) -> None:
    assert set_value(talk, "system Be  kind.") == "system: Be  kind."
    assert talk.system == "Be  kind."
    assert set_value(talk, "system default") == "system: none"
    assert talk.system is None


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("nothing 3", "There is no setting 'nothing'"),
        ("temperature warm", "temperature is 'warm'; it must be a number"),
        ("temperature nan", "temperature is nan"),
        ("temperature -1", "temperature is -1.0; it must be a number from 0 to 100"),
        ("max-tokens 2.5", "max-tokens is '2.5'"),
        ("max-tokens -1", "max_tokens is -1"),
        ("think perhaps", "think is 'perhaps'; it must be one of on, off, default"),
        ("stop " + "x" * 2000, "stop is 'xxx"),
    ],
)
def test_what_cannot_be_set_is_refused_and_changes_nothing(
    talk: Conversation, typed: str, words: str
) -> None:
    before = (dict(talk.options), talk.think, talk.system)
    with pytest.raises(InputError) as caught:
        set_value(talk, typed)
    assert words in caught.value.message
    assert (dict(talk.options), talk.think, talk.system) == before


def test_a_name_alone_tells_what_it_is_for(talk: Conversation) -> None:
    assert set_value(talk, "temperature") == "temperature: 0.3; 0 for always the likeliest token"
    assert set_value(talk, "system ") == "system: none; the system prompt"
    assert talk.options == {"temperature": 0.3}


def test_a_model_that_has_no_choice_says_so(engine: Engine) -> None:
    talk = Conversation(engine, {})
    with pytest.raises(InputError, match="whether to think"):
        set_value(talk, "think")
    assert ("think", "this model has no choice") in all_values(talk)


def test_everything_that_can_be_set_is_listed(talk: Conversation) -> None:
    values = dict(all_values(talk))
    assert values["temperature"] == "0.3"
    assert values["max-tokens"] == "40 (default)"
    assert values["top-p"] == "0.95 (default)"
    assert {"stop", "system", "think", "seed", "top-k"} < values.keys()
