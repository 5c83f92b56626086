"""An answer that ended too early goes on from its tokens as if it had never ended."""

from __future__ import annotations

from typing import Any

import pytest

from edgewise import Engine
from edgewise_runtime.errors import InputError

ASKED = [{"role": "user", "content": "Hello"}]
WHOLE = 24


@pytest.mark.parametrize(
    "sampling",
    [
        {"temperature": 0},
        {"temperature": 1.2, "seed": 5},
        {"temperature": 1.0, "seed": 6, "presence_penalty": 1.5, "frequency_penalty": 0.7},
        {"temperature": 0.9, "seed": 7, "repetition_penalty": 1.4, "stop": ["~~~"]},
    ],
)
def test_it_is_the_same_wherever_it_was_cut(engine: Engine, sampling: dict[str, Any]) -> None:
    options = {"ignore_eos": True, **sampling}
    whole = engine.chat(ASKED, max_tokens=WHOLE, **options)
    for cut in (1, 7, 16, 23):
        first = engine.chat(ASKED, max_tokens=cut, **options)
        stream = engine.chat(
            ASKED, max_tokens=WHOLE - cut, begun=first.token_ids, stream=True, **options
        )
        pieces = "".join(stream)
        rest = stream.completion
        assert rest.token_ids == whole.token_ids
        assert rest.text == whole.text
        assert rest.usage.completion_tokens == WHOLE - cut
        # What was cut in the middle of a character comes whole.
        assert whole.text.endswith(pieces)
        assert first.text.startswith(whole.text.removesuffix(pieces))


def test_several_choices_go_on_from_the_same_tokens(engine: Engine) -> None:
    options: dict[str, Any] = {"temperature": 1.5, "seed": 3, "ignore_eos": True}
    begun = engine.chat(ASKED, max_tokens=5, **options).token_ids
    choices = engine.submit_chat(ASKED, begun=begun, n=3, max_tokens=8, **options).results()
    assert {choice.token_ids[:5] for choice in choices} == {begun}
    assert len({choice.token_ids for choice in choices}) > 1


def test_it_counts_when_turns_have_to_go(engine: Engine) -> None:
    turn = [
        {"role": "user", "content": "the weather " * 12},
        {"role": "assistant", "content": "the weather " * 12},
    ]
    options: dict[str, Any] = {"temperature": 0, "ignore_eos": True, "context_policy": "drop"}
    asked = [*turn, *turn, *turn, *ASKED]
    first = engine.chat(asked, max_tokens=40, **options)
    rest = engine.chat(asked, max_tokens=40, begun=first.token_ids, **options)
    assert rest.dropped_turns >= first.dropped_turns > 0
    assert rest.token_ids[:40] == first.token_ids
    assert len(rest.token_ids) == 80


def test_a_prompt_has_no_answer_to_go_on_with(engine: Engine) -> None:
    with pytest.raises(InputError, match="begun has 2 tokens") as caught:
        engine.generate("Hello", begun=[1, 2])
    assert caught.value.code == "input.option"


@pytest.mark.parametrize(
    ("begun", "code"),
    [
        ("text", "input.prompt"),
        ([1.5], "input.prompt"),
        ([True], "input.prompt"),
        ([-1], "input.token"),
        ([10**9], "input.token"),
        ([5] * 300, "input.context"),
    ],
)
def test_what_are_no_tokens_of_the_model_is_refused(engine: Engine, begun: Any, code: str) -> None:
    with pytest.raises(InputError) as caught:
        engine.chat(ASKED, begun=begun)
    assert caught.value.code == code
