"""Settings that people bring along from elsewhere mean what they mean there."""

from __future__ import annotations

from typing import Any

import pytest

from edgewise import Engine
from edgewise.cli.talk.conversation import Conversation
from edgewise.cli.talk.settings import set_value

TEXT = "The quick brown fox jumps over"
LONG = list(range(5, 5 + 40))


@pytest.mark.parametrize(
    ("usual", "here"),
    [
        ({"top_p": 0}, {"temperature": 0}),
        ({"top_k": -1, "seed": 3}, {"top_k": 0, "seed": 3}),
        ({"top_k": 1, "seed": 3}, {"temperature": 0}),
        ({"seed": -1, "temperature": 0}, {"temperature": 0}),
    ],
)
def test_it_gives_the_same_tokens(
    engine: Engine, usual: dict[str, Any], here: dict[str, Any]
) -> None:
    given = {"max_tokens": 20, "ignore_eos": True}
    expected = engine.generate(TEXT, **given, **here).token_ids
    assert engine.generate(TEXT, **given, **usual).token_ids == expected


def test_a_seed_below_all_seeds_is_another_one_each_time(engine: Engine) -> None:
    seeds = {engine.generate(TEXT, max_tokens=1, seed=-1).seed for _ in range(3)}
    assert len(seeds) == 3
    assert min(seeds) >= 0


def test_no_tokens_at_all_is_an_answer(engine: Engine) -> None:
    done = engine.generate(LONG, max_tokens=0)
    assert (done.text, done.token_ids, done.finish_reason) == ("", (), "length")
    assert (done.usage.prompt_tokens, done.usage.completion_tokens) == (len(LONG), 0)
    assert not done.context_full
    assert done.logprobs is None
    assert engine.generate(LONG, max_tokens=0, logprobs=True).logprobs == ()
    assert list(engine.generate(TEXT, max_tokens=0, stream=True)) == []
    assert [one.text for one in engine.choices(LONG, n=3, max_tokens=0)] == [""] * 3
    assert engine.chat([{"role": "user", "content": "Hi"}], max_tokens=0).text == ""


def test_its_prompt_is_there_for_those_that_come_after(engine: Engine) -> None:
    prompt = [7, *LONG]
    cold = engine.generate(prompt, max_tokens=9, temperature=0, ignore_eos=True)
    engine.forget()
    engine.generate(prompt, max_tokens=0)
    warm = engine.generate(prompt, max_tokens=9, temperature=0, ignore_eos=True)
    assert warm.usage.cached_tokens >= len(prompt) // 16 * 16
    assert warm.token_ids == cold.token_ids


def test_its_prompt_may_fill_the_context(engine: Engine) -> None:
    done = engine.generate([5] * engine.context, max_tokens=0)
    assert (done.usage.prompt_tokens, done.finish_reason) == (engine.context, "length")


def test_they_can_be_set_in_a_conversation(engine: Engine) -> None:
    conversation = Conversation(engine, {})
    said = [set_value(conversation, f"{name} {value}") for name, value in USUAL.items()]
    assert said == [f"{name}: {value}" for name, value in USUAL.items()]
    assert conversation.ask("Hi", print).token_ids == ()
    assert conversation.turns == []


USUAL = {"top-p": "0.0", "top-k": "-1", "seed": "-1", "max-tokens": "0"}
