"""`/v1/responses`, asked by the official client."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from openai import APIStatusError, OpenAI
from openai.types.responses import ResponseFunctionToolCall, ResponseStreamEvent
from pydantic import BaseModel, Field

from edgewise import Engine
from edgewise.server.openai.responses.store import Store
from edgewise_runtime.errors import InputError
from tests.sdk.server.openai.conftest import MODEL, Served

HOT: dict[str, Any] = {
    "model": MODEL,
    "input": "1 + 2?",
    "temperature": 1.0,
    "max_output_tokens": 12,
    "extra_body": {"seed": 3},
}
STRAIGHT: dict[str, Any] = {
    **HOT,
    "max_output_tokens": 160,
    "reasoning": {"effort": "none"},
    "extra_body": {"seed": 1},
}
"""Without a thought, which this model would never end."""
FORECAST: dict[str, Any] = {
    "type": "function",
    "name": "forecast",
    "description": "Tell the weather.",
    "strict": True,
    "parameters": {
        "type": "object",
        "properties": {"sky": {"type": "string", "enum": ["clear", "bewölkt"]}},
        "required": ["sky"],
        "additionalProperties": False,
    },
}
THINKS: dict[str, Any] = {"seed": 3, "chat_template_kwargs": {"enable_thinking": True}}


class Person(BaseModel):
    name: str = Field(max_length=8)
    age: int = Field(ge=0, le=120)


def streamed(client: OpenAI, **told: Any) -> list[ResponseStreamEvent]:
    return list(client.responses.create(**told, stream=True))


def test_a_response_is_what_the_engine_says(client: OpenAI, engine: Engine) -> None:
    done = client.responses.create(**HOT, instructions="Be.")
    messages = [{"role": "system", "content": "Be."}, {"role": "user", "content": "1 + 2?"}]
    said = engine.chat(messages, temperature=1.0, seed=3, max_tokens=12)
    assert done.output_text == said.text
    assert (done.object, done.status, done.model) == ("response", "incomplete", MODEL)
    assert done.incomplete_details is not None
    assert done.incomplete_details.reason == "max_output_tokens"
    assert done.usage is not None
    assert done.usage.input_tokens == said.usage.prompt_tokens
    assert (done.usage.output_tokens, done.instructions) == (12, "Be.")


def test_events_build_the_response_that_comes_whole(client: OpenAI) -> None:
    whole = client.responses.create(**HOT)
    events = streamed(client, **HOT)
    assert [event.type for event in events[:4]] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
    ]
    assert [event.type for event in events[-4:]] == [
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.incomplete",
    ]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert "".join(deltas) == whole.output_text
    [last] = [event.response for event in events if event.type == "response.incomplete"]
    assert last.output_text == whole.output_text
    assert last.usage is not None
    assert whole.usage is not None
    assert last.usage.total_tokens == whole.usage.total_tokens


def test_a_function_is_called_and_what_it_gave_goes_back(client: OpenAI) -> None:
    told = {**STRAIGHT, "tools": [FORECAST]}
    named = {"type": "function", "name": "forecast"}
    done = client.responses.create(**told, tool_choice=named)
    [call] = done.output
    assert isinstance(call, ResponseFunctionToolCall)
    assert call.name == "forecast"
    assert json.loads(call.arguments)["sky"] in ("clear", "bewölkt")
    assert done.status == "completed"
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "Rain."}
    short = {**told, "max_output_tokens": 4, "tool_choice": "none"}
    after = client.responses.create(**{**short, "input": [result]}, previous_response_id=done.id)
    items = [{"role": "user", "content": "1 + 2?"}, call.model_dump(), result]
    again = client.responses.create(**{**short, "input": items})
    assert after.output_text == again.output_text
    assert after.usage is not None
    assert again.usage is not None
    assert after.usage.input_tokens == again.usage.input_tokens


def test_a_call_streams_in_fragments(client: OpenAI) -> None:
    told = {**STRAIGHT, "tools": [FORECAST], "tool_choice": "required"}
    whole = [one for one in client.responses.create(**told).output if one.type == "function_call"]
    with client.responses.stream(**told) as stream:
        events = list(stream)
        final = stream.get_final_response()
    calls = [one for one in final.output if one.type == "function_call"]
    assert [call.arguments for call in calls] == [call.arguments for call in whole]
    deltas = [e.delta for e in events if e.type == "response.function_call_arguments.delta"]
    assert "".join(deltas) == "".join(call.arguments for call in calls)


def test_an_answer_is_of_a_schema(client: OpenAI) -> None:
    done = client.responses.parse(**STRAIGHT, text_format=Person)
    assert isinstance(done.output_parsed, Person)
    with client.responses.stream(**STRAIGHT, text_format=Person) as stream:
        assert stream.get_final_response().output_parsed == done.output_parsed


def test_thoughts_are_an_item_of_their_own(client: OpenAI) -> None:
    told = {**HOT, "extra_body": THINKS}
    done = client.responses.create(**told)
    [item] = done.output
    assert item.type == "reasoning"
    assert item.content is not None
    assert item.content[0].text
    assert done.usage is not None
    assert done.usage.output_tokens_details.reasoning_tokens > 0
    events = streamed(client, **told)
    deltas = [event.delta for event in events if event.type == "response.reasoning_text.delta"]
    assert "".join(deltas) == item.content[0].text


def test_tokens_come_with_how_likely_they_are(client: OpenAI) -> None:
    told = {**HOT, "include": ["message.output_text.logprobs"], "top_logprobs": 2}
    [item] = client.responses.create(**told).output
    assert item.type == "message"
    [part] = item.content
    assert part.type == "output_text"
    tokens = part.logprobs or []
    assert len(tokens) == 12
    assert all(len(token.top_logprobs) == 2 for token in tokens)
    written = b"".join(bytes(token.bytes) for token in tokens)
    assert part.text in written.decode(errors="replace")


def test_a_conversation_goes_on_from_what_was_kept(client: OpenAI) -> None:
    first = client.responses.create(**HOT, instructions="Be.")
    second = client.responses.create(**{**HOT, "input": "More."}, previous_response_id=first.id)
    items = [
        {"role": "user", "content": [{"type": "input_text", "text": "1 + 2?"}]},
        {"role": "assistant", "content": [{"type": "output_text", "text": first.output_text}]},
        {"role": "user", "content": "More."},
    ]
    assert client.responses.create(**{**HOT, "input": items}).output_text == second.output_text
    assert client.responses.retrieve(first.id).output_text == first.output_text
    client.responses.delete(first.id)
    for gone in (first.id, client.responses.create(**HOT, store=False).id):
        with pytest.raises(APIStatusError) as raised:
            client.responses.retrieve(gone)
        assert (raised.value.status_code, raised.value.code) == (404, "input.response")
        with pytest.raises(APIStatusError):
            client.responses.create(**HOT, previous_response_id=gone)


def test_a_stream_comes_to_asyncio(served: Served, client: OpenAI) -> None:
    alone = client.responses.create(**HOT).output_text

    async def ask() -> str:
        async with served.asynchronous() as client:
            stream = await client.responses.create(**HOT, stream=True)
            events = [event async for event in stream]
            return "".join(e.delta for e in events if e.type == "response.output_text.delta")

    assert asyncio.run(ask()) == alone


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        ({"input": []}, "input.body", "input"),
        ({"input": [{"type": "item_reference"}]}, "unsupported.item", "'item_reference'"),
        ({"input": [{"role": "user"}]}, "input.body", "input.0.content is missing."),
        ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]},
         "unsupported.content", "'input_image'; this bundle reads text only."),
        ({"input": [{"type": "function_call", "name": "a"}]}, "input.body", "arguments is missing"),
        ({"tools": [{"type": "web_search"}]}, "unsupported.tool", "'web_search'"),
        ({"tool_choice": {"type": "file_search"}}, "unsupported.tool", "'file_search'"),
        ({"background": True}, "unsupported.parameter", "background is True"),
        ({"conversation": "conv_1"}, "unsupported.parameter", "previous_response_id"),
        ({"max_tokens": 3}, "unsupported.parameter", "max_output_tokens"),
        ({"n": 2}, "unsupported.parameter", "n is 2"),
        ({"text": {"format": {"type": "morse"}}}, "unsupported.response_format", "morse"),
        ({"reasoning": {"effort": "high"}}, "unsupported.reasoning", "effort"),
        ({"input": "a" * 4000}, "context_length_exceeded", "256"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("stream", [False, True])
def test_what_cannot_be_answered_is_refused(
    client: OpenAI, given: dict[str, Any], code: str, said: str, stream: bool
) -> None:
    with pytest.raises(APIStatusError) as raised:
        client.responses.create(model=MODEL, input="a", stream=stream, extra_body=given)
    error: Any = raised.value
    assert (error.status_code, error.code) == (400, code)
    assert said in error.body["message"]


def test_a_conversation_may_leave_out_what_is_oldest(client: OpenAI) -> None:
    turns = [{"role": role, "content": "a b c " * 8} for role in ("user", "assistant") * 8]
    told = {**HOT, "input": [*turns, {"role": "user", "content": "?"}], "max_output_tokens": 4}
    with pytest.raises(APIStatusError):
        client.responses.create(**told)
    assert client.responses.create(**told, truncation="auto").usage


def test_what_is_kept_is_bounded_and_the_oldest_goes() -> None:
    store = Store(most=3, most_bytes=1000)
    for name in "abcd":
        store.keep({"id": name}, [])
    assert store.get("b").response == {"id": "b"}
    with pytest.raises(InputError, match="There is no response 'a'"):
        store.get("a")
    store.keep({"id": "e"}, [{"content": "x" * 900}])
    with pytest.raises(InputError):
        store.get("b")
    store.keep({"id": "f"}, [{"content": "x" * 2000}])
    assert store.bytes == 0
    with pytest.raises(InputError):
        store.drop("f")
