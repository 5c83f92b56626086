"""What a conversation remembers, and how its last answer is replaced or goes on."""

from __future__ import annotations

from typing import Any

import pytest

from edgewise import Engine
from edgewise.cli.talk.conversation import Conversation, Turn
from edgewise_runtime.errors import InputError

GREEDY: dict[str, Any] = {"temperature": 0, "ignore_eos": True, "max_tokens": 8}


def ignored(piece: str) -> None:
    """Where an answer goes that nobody reads."""


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


def test_it_remembers_what_was_said(engine: Engine) -> None:
    talk = Conversation(engine, GREEDY, system="S")
    pieces: list[str] = []
    first = talk.ask("one", pieces.append)
    second = talk.ask("two", ignored)
    messages = [{"role": "system", "content": "S"}, user("one"), assistant(first.text), user("two")]
    assert "".join(pieces) == first.text
    assert second.token_ids == engine.chat(messages, **GREEDY).token_ids
    assert [(turn.question, turn.answer) for turn in talk.turns] == [
        ("one", first.text),
        ("two", second.text),
    ]


def test_after_a_reset_only_the_system_prompt_is_left(engine: Engine) -> None:
    talk = Conversation(engine, GREEDY, system="S")
    fresh = talk.ask("one", ignored)
    talk.reset()
    assert talk.turns == []
    assert talk.ask("one", ignored).token_ids == fresh.token_ids


def test_an_answer_may_be_as_long_as_the_model_says_and_else_as_the_context(
    engine: Engine, thinker: Engine
) -> None:
    options = {"ignore_eos": True, "temperature": 0, "max_tokens": None}
    answer = Conversation(engine, options).ask("Hello", ignored)
    assert answer.context_full
    assert answer.usage.total_tokens == engine.context
    answer = Conversation(thinker, options).ask("Hello", ignored)
    assert (answer.context_full, answer.usage.completion_tokens) == (False, 40)


def test_an_answer_is_replaced_by_another(engine: Engine) -> None:
    talk = Conversation(engine, {**GREEDY, "temperature": 1.5, "seed": 3})
    talk.ask("one", ignored)
    first = talk.ask("two", ignored)
    other = talk.regenerate(ignored)
    assert other.token_ids != first.token_ids
    assert [turn.question for turn in talk.turns] == ["one", "two"]
    assert talk.turns[-1].answer == other.text
    assert talk.options["seed"] == 3


def test_an_answer_that_was_cut_goes_on_as_if_it_had_not_been(engine: Engine) -> None:
    whole = Conversation(engine, {**GREEDY, "max_tokens": 24}).ask("Hello", ignored)
    talk = Conversation(engine, GREEDY)
    pieces: list[str] = []
    talk.ask("Hello", pieces.append)
    for _ in range(2):
        rest = talk.proceed(pieces.append)
    assert rest.token_ids == whole.token_ids
    assert talk.turns == [Turn("Hello", whole.text, whole.token_ids)]
    assert rest.usage.completion_tokens == 8


def test_only_a_cut_answer_goes_on(engine: Engine) -> None:
    talk = Conversation(engine, GREEDY)
    with pytest.raises(InputError, match="no answer yet"):
        talk.proceed(ignored)
    with pytest.raises(InputError, match="no answer yet"):
        talk.regenerate(ignored)
    text = talk.ask("Hello", ignored).text
    talk.options["stop"] = [text[3:5]]
    assert talk.regenerate(ignored).finish_reason == "stop"
    with pytest.raises(InputError, match="was not cut"):
        talk.proceed(ignored)


def test_a_stopped_answer_keeps_what_was_said(engine: Engine) -> None:
    talk = Conversation(engine, {"seed": 1, "ignore_eos": True})
    pieces: list[str] = []

    def interrupt(piece: str) -> None:
        pieces.append(piece)
        if len(pieces) == 3:
            talk.stop()
            talk.stop()

    stopped = talk.ask("Hello", interrupt)
    answered = talk.ask("Go on", ignored)
    assert stopped.finish_reason == "cancelled"
    assert 0 < stopped.usage.completion_tokens < answered.usage.completion_tokens
    assert talk.turns[0] == Turn("Hello", stopped.text, stopped.token_ids)
    assert "".join(pieces) == stopped.text


def test_a_question_without_an_answer_was_not_asked(engine: Engine) -> None:
    talk = Conversation(engine, GREEDY)
    talk.ask("one", ignored)
    before = list(talk.turns)
    with pytest.raises(InputError, match="too long"):
        talk.ask("the weather " * 200, ignored)
    talk.options["temperature"] = -1
    with pytest.raises(InputError, match="temperature"):
        talk.ask("two", ignored)
    assert talk.turns == before


def test_turns_that_no_longer_fit_are_kept_and_no_longer_given(engine: Engine) -> None:
    talk = Conversation(engine, GREEDY)
    dropped = [talk.ask("the weather " * 12, ignored).dropped_turns for _ in range(7)]
    assert len(talk.turns) == 7
    assert 0 < sum(dropped) < 7
    assert max(dropped) < sum(dropped)  # each is noted once


def test_a_model_without_a_choice_cannot_be_told_to_think(engine: Engine) -> None:
    for think in (True, False):
        with pytest.raises(InputError, match="whether to think") as caught:
            Conversation(engine, GREEDY, think=think)
        assert caught.value.code == "input.think"
    assert Conversation(engine, GREEDY).opening == ""


def test_a_model_with_a_choice_thinks_as_it_is_told(thinker: Engine) -> None:
    talk = Conversation(thinker, GREEDY)
    assert talk.opening == "<think>\n"
    thought = talk.ask("Hello", ignored)
    assert talk.turns[0].answer == f"<think>\n{thought.written}"
    assert thought.token_ids == thinker.chat([user("Hello")], **GREEDY).token_ids
    talk.set_think(False)
    assert talk.opening == ""
    plain = talk.ask("Hello", ignored)
    # A thought that was cut is not given back: there is no answer after it.
    given = [user("Hello"), assistant(""), user("Hello")]
    expected = thinker.chat(given, variables={"enable_thinking": False}, **GREEDY)
    assert plain.token_ids == expected.token_ids
