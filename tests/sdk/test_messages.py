"""Conversations: contents in parts, and several conversations in one call."""

from __future__ import annotations

from typing import Any

import pytest

from edgewise import Engine
from edgewise.messages import conversation, each_conversation
from edgewise_runtime.errors import InputError, UnsupportedError

GREEDY: dict[str, Any] = {"max_tokens": 8, "temperature": 0, "ignore_eos": True}


def said(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def part(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


@pytest.mark.parametrize("parts", [[part("Hello")], [part("Hel"), part(""), part("lo")]])
def test_parts_of_text_are_one_text(engine: Engine, parts: list[dict[str, str]]) -> None:
    assert engine.render([said(parts)]) == engine.render([said("Hello")])
    for policy in ("stop", "drop"):
        asked = {**GREEDY, "context_policy": policy}
        whole = engine.chat([said("Hello")], **asked)
        assert engine.chat([said(parts)], **asked).token_ids == whole.token_ids
        assert engine.submit_chat([said(tuple(parts))], **asked).result().text == whole.text


def test_what_else_a_message_has_stays() -> None:
    message = {"role": "tool", "content": [part("4")], "name": "sum"}
    assert conversation([message]) == [{"role": "tool", "content": "4", "name": "sum"}]
    assert message["content"] == [part("4")]


@pytest.mark.parametrize(
    ("wrong", "shown"),
    [
        ({"type": "tool_use"}, "a part of 'tool_use'; only parts of text are read"),
        ({"type": "text"}, "a part of 'text'"),
        ({"type": "text", "text": 7}, "a part of 'text'"),
        ({"text": "Hello"}, "a part of None"),
        ("Hello", "a part of 'Hello'"),
        (None, "a part of None"),
    ],
)
def test_a_part_that_is_no_text_is_refused(engine: Engine, wrong: Any, shown: str) -> None:
    for ask in (engine.chat, engine.submit_chat, engine.render):
        with pytest.raises(InputError, match=shown) as caught:
            ask([said("Hi"), said([part("x"), wrong])])
        assert caught.value.code == "input.content"
        assert '{"type": "text", "text": "Hello"}' in caught.value.remedy


@pytest.mark.parametrize(
    "seen",
    [
        {"type": "image_url", "image_url": {"url": "x"}},
        {"type": "image", "image": object()},
        {"type": "input_audio", "input_audio": {}},
    ],
)
def test_of_an_image_it_is_said_that_bundles_read_text_only(engine: Engine, seen: Any) -> None:
    asked = [said([part("What is this?"), seen])]
    for ask in (engine.chat, engine.submit_chat, engine.render, lambda one: engine.chat([one])):
        with pytest.raises(UnsupportedError, match=rf"'{seen['type']}'.*reads text only") as caught:
            ask(asked)
        assert caught.value.code == "unsupported.content"
        assert '{"type": "text", "text": "Hello"}' in caught.value.remedy


def test_a_list_of_conversations_gives_what_each_gives_alone(engine: Engine) -> None:
    conversations = [
        [said(f"Question {number}")]
        if number % 2
        else [{"role": "system", "content": "S"}, said("x")]
        for number in range(engine.model.max_batch + 3)
    ]
    together = engine.chat(conversations, **GREEDY)
    alone = [engine.chat(one, **GREEDY) for one in conversations]
    assert [done.token_ids for done in together] == [done.token_ids for done in alone]


def test_one_conversation_in_a_list_gives_a_list(engine: Engine) -> None:
    [done] = engine.chat([[said("Hello")]], **GREEDY)
    assert done.token_ids == engine.chat([said("Hello")], **GREEDY).token_ids


def test_what_takes_one_conversation_refuses_several(engine: Engine) -> None:
    several: Any = [[said("A")], [said("B")]]
    for ask in (
        lambda: engine.chat(several, stream=True),
        lambda: engine.submit_chat(several),
        lambda: engine.render(several),
    ):
        with pytest.raises(InputError, match="one conversation, not a list of 2") as caught:
            ask()
        assert caught.value.code == "input.stream"


@pytest.mark.parametrize("wrong", ["Hello", b"Hello", 7, None, said("Hello"), {said("x")["role"]}])
def test_what_is_no_list_of_messages_is_refused(wrong: Any) -> None:
    with pytest.raises(InputError, match="is no conversation") as caught:
        each_conversation(wrong)
    assert caught.value.code == "input.messages"


def test_a_conversation_among_messages_is_no_message(engine: Engine) -> None:
    mixed: Any = [said("A"), [said("B")]]
    with pytest.raises(InputError, match="is not a message") as caught:
        engine.chat(mixed)
    assert caught.value.code == "input.messages"


def test_one_conversation_that_is_wrong_starts_none(engine: Engine) -> None:
    before = engine.metrics()["request_success_total"]
    with pytest.raises(InputError, match="conversation is empty"):
        engine.chat([[said("A")], []])
    assert engine.metrics()["request_success_total"] == before


def test_an_answer_that_goes_on_belongs_to_one_conversation(engine: Engine) -> None:
    whole = engine.chat([said("A")], **GREEDY).token_ids
    begun, options = whole[:3], {**GREEDY, "max_tokens": len(whole) - 3}
    assert engine.chat([said("A")], begun=begun, **options).token_ids == whole
    with pytest.raises(InputError, match="there are 2 conversations") as caught:
        engine.chat([[said("A")], [said("B")]], begun=begun, **options)
    assert caught.value.code == "input.option"
