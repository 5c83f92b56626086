"""Where the context is full: what each policy does, and what the completion says of it."""

from __future__ import annotations

from typing import Any

import pytest

from edgewise import Engine
from edgewise_runtime.errors import EngineError, InputError

Messages = list[dict[str, str]]
GREEDY: dict[str, Any] = {"temperature": 0, "ignore_eos": True}


def conversation(turns: int, words: int = 12) -> Messages:
    """A system prompt, `turns` questions with answers, and a last question."""
    said: Messages = [{"role": "system", "content": "Be kind."}]
    for turn in range(turns):
        said.append({"role": "user", "content": f"{turn} " + "the weather " * words})
        said.append({"role": "assistant", "content": f"It is {turn}."})
    return [*said, {"role": "user", "content": "And now?"}]


def without(messages: Messages, turns: int) -> Messages:
    return [messages[0], *messages[1 + 2 * turns :]]


def length(engine: Engine, messages: Messages) -> int:
    return len(engine.tokenizer.encode(engine.render(messages), add_special_tokens=False))


def test_stop_ends_the_text_and_says_why(engine: Engine) -> None:
    prompt = [5] * (engine.context - 7)
    for policy in ({}, {"context_policy": "stop"}):
        completion = engine.generate(prompt, max_tokens=50, **GREEDY, **policy)
        assert (completion.finish_reason, len(completion.token_ids)) == ("length", 7)
        assert completion.context_full
        assert completion.to_json()["context_full"] is True
    enough = engine.generate(prompt, max_tokens=7, **GREEDY)
    assert enough.token_ids == completion.token_ids
    assert not enough.context_full


def test_error_raises_after_what_has_come(engine: Engine) -> None:
    prompt = [5] * (engine.context - 7)
    generation = engine.submit(prompt, max_tokens=50, context_policy="error", **GREEDY)
    came = 0
    while came < 7:
        came += len(next(generation).token_ids)
    with pytest.raises(EngineError, match="256 tokens is full after 7 tokens") as caught:
        next(generation)
    assert caught.value.code == "engine.context"
    with pytest.raises(EngineError, match="is full"):
        generation.result()
    assert generation.completions()[0].finish_reason == "error"
    enough = engine.generate(prompt, max_tokens=7, context_policy="error", **GREEDY)
    assert (enough.finish_reason, enough.context_full) == ("length", False)


def test_one_that_fails_ends_its_list_and_nothing_else(engine: Engine) -> None:
    other = engine.submit("A model", max_tokens=60, **GREEDY)
    with pytest.raises(EngineError):
        engine.generate([[5] * 250, [6] * 9], max_tokens=200, context_policy="error", **GREEDY)
    assert len(other.result().token_ids) == 60


def test_only_conversations_can_drop(engine: Engine) -> None:
    with pytest.raises(InputError, match="forgets turns of a conversation") as caught:
        engine.generate("A model", context_policy="drop")
    assert caught.value.code == "input.option"


def test_a_conversation_that_fits_is_left_alone(engine: Engine) -> None:
    messages = conversation(1)
    whole, dropping = (
        engine.chat(messages, max_tokens=9, context_policy=policy, **GREEDY)
        for policy in ("stop", "drop")
    )
    assert dropping.token_ids == whole.token_ids
    assert dropping.dropped_turns == 0


def test_the_oldest_turns_are_dropped_until_the_answer_has_room(engine: Engine) -> None:
    messages = conversation(9)
    assert length(engine, messages) > engine.context
    with pytest.raises(InputError, match="the context holds 256"):
        engine.chat(messages, max_tokens=20)
    completion = engine.chat(messages, max_tokens=20, context_policy="drop", **GREEDY)
    dropped = completion.dropped_turns
    assert 0 < dropped < 9
    assert completion.usage.prompt_tokens == length(engine, without(messages, dropped))
    assert completion.usage.prompt_tokens + 20 <= engine.context
    assert length(engine, without(messages, dropped - 1)) + 20 > engine.context
    shorter = engine.chat(without(messages, dropped), max_tokens=20, **GREEDY)
    assert completion.token_ids == shorter.token_ids
    assert completion.to_json()["dropped_turns"] == dropped


def test_an_answer_that_outgrows_the_context_goes_on_without_the_oldest_turns(
    engine: Engine,
) -> None:
    messages = conversation(4, words=3)
    room = engine.context - length(engine, messages)
    asked: dict[str, Any] = {"max_tokens": 180, **GREEDY}
    assert room < 180
    generation = engine.submit_chat(messages, context_policy="drop", **asked)
    messages.clear()  # whoever asked may go on with the list
    pieces = list(generation)
    completion = generation.result()
    assert len(completion.token_ids) == 180
    assert sum((piece.token_ids for piece in pieces), ()) == completion.token_ids
    assert 0 < completion.dropped_turns <= 4
    assert not completion.context_full
    begun = engine.chat(conversation(4, words=3), **asked)
    assert begun.token_ids == completion.token_ids[: len(begun.token_ids)]
    assert (len(begun.token_ids), begun.context_full) == (room, True)


def test_turns_dropped_twice_are_counted_once(engine: Engine) -> None:
    messages = conversation(6, words=3)
    completion = engine.chat(messages, max_tokens=240, context_policy="drop", **GREEDY)
    assert 0 < completion.dropped_turns <= 6
    assert completion.usage.prompt_tokens == length(
        engine, without(messages, completion.dropped_turns)
    )


def test_where_nothing_can_be_dropped_the_text_ends(engine: Engine) -> None:
    messages = [{"role": "user", "content": "the weather " * 30}]
    room = engine.context - length(engine, messages)
    for policy in ("stop", "drop"):
        completion = engine.chat(messages, max_tokens=500, context_policy=policy, **GREEDY)
        assert (len(completion.token_ids), completion.finish_reason) == (room, "length")
        assert (completion.context_full, completion.dropped_turns) == (True, 0)


def test_a_last_turn_may_leave_as_little_room_as_one_token(engine: Engine) -> None:
    messages = conversation(2)
    messages[-1]["content"] = "x "
    while length(engine, without(messages, 2)) < engine.context - 1:
        messages[-1]["content"] += "x"
    completion = engine.chat(messages, max_tokens=9, context_policy="drop", **GREEDY)
    assert (len(completion.token_ids), completion.dropped_turns) == (1, 2)
    messages[-1]["content"] += "xxxx"
    with pytest.raises(InputError, match="last turn alone are too long: the context holds 256"):
        engine.chat(messages, max_tokens=9, context_policy="drop")


def test_choices_drop_turns_each_for_itself(engine: Engine) -> None:
    messages = conversation(4, words=3)
    asked: dict[str, Any] = {"max_tokens": 180, "seed": 1, "ignore_eos": True}
    choices = engine.submit_chat(messages, n=3, context_policy="drop", **asked).results()
    assert [len(choice.token_ids) for choice in choices] == [180] * 3
    alone = engine.chat(messages, context_policy="drop", **asked)
    assert choices[0].token_ids == alone.token_ids
    assert all(choice.dropped_turns for choice in choices)


@pytest.mark.parametrize("messages", ["Hello", ["Hello"], [], [7], [{"role": "user"}, None]])
def test_what_is_no_conversation_is_refused(engine: Engine, messages: Any) -> None:
    for policy in ("stop", "drop"):
        with pytest.raises(InputError) as caught:
            engine.chat(messages, context_policy=policy)
        assert caught.value.code in ("input.messages", "input.template")


LONG = "The weather was fine, and so it stayed. " * 50_000
"""Two million characters, where the context holds 256 tokens."""


@pytest.mark.parametrize("prompt", [LONG, ["short", LONG]], ids=["one", "a list"])
def test_a_prompt_too_long_by_its_characters_is_refused(engine: Engine, prompt: Any) -> None:
    with pytest.raises(InputError, match=r"2,000,000 characters, more than 256 tokens") as caught:
        engine.generate(prompt)
    assert caught.value.code == "input.context"


def test_a_conversation_too_long_by_its_characters_is_not_tokenized(engine: Engine) -> None:
    segments = engine._session.prompts._segments
    before = segments.tokenized
    with pytest.raises(InputError, match="characters, more than 256 tokens") as caught:
        engine.chat([{"role": "user", "content": LONG}])
    assert caught.value.code == "input.context"
    with pytest.raises(InputError, match="The system prompt and the last turn alone") as caught:
        engine.chat([{"role": "user", "content": LONG}], context_policy="drop")
    assert segments.tokenized == before


def test_turns_too_long_by_their_characters_are_dropped_untokenized(engine: Engine) -> None:
    segments = engine._session.prompts._segments
    messages = conversation(0)
    longer = [messages[0], {"role": "user", "content": LONG}, *conversation(1)[2:]]
    before = segments.tokenized
    dropped = engine.chat(longer, context_policy="drop", max_tokens=4, **GREEDY)
    assert dropped.dropped_turns == 1
    assert dropped.token_ids == engine.chat(messages, max_tokens=4, **GREEDY).token_ids
    assert segments.tokenized - before < 1000
