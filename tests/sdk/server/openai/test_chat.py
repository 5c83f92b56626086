"""`POST /v1/chat/completions`, asked by the official client."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from openai import APIStatusError, OpenAI
from openai.types.chat import ChatCompletionChunk
from pydantic import BaseModel, Field

from edgewise import Engine
from tests.processes import eventually
from tests.sdk.server.client import Client
from tests.sdk.server.openai.conftest import KEY, MODEL, Served

QUESTION: list[Any] = [{"role": "user", "content": "1 + 2?"}]
HOT: dict[str, Any] = {"model": MODEL, "messages": QUESTION, "temperature": 1.0, "seed": 3}
STRAIGHT: dict[str, Any] = {**HOT, "reasoning_effort": "none", "max_completion_tokens": 160}
"""Without a thought, which this model would never end."""
FORECAST: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "forecast",
        "description": "Tell the weather.",
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": {"sky": {"type": "string", "enum": ["clear", "bewölkt"]}},
            "required": ["sky"],
            "additionalProperties": False,
        },
    },
}


class Person(BaseModel):
    name: str = Field(max_length=8)
    age: int = Field(ge=0, le=120)


def text_of(chunks: list[ChatCompletionChunk], index: int = 0) -> str:
    choices = [choice for chunk in chunks for choice in chunk.choices if choice.index == index]
    return "".join(choice.delta.content or "" for choice in choices)


def test_an_answer_is_what_the_engine_says(client: OpenAI, engine: Engine) -> None:
    done = client.chat.completions.create(**HOT, max_tokens=12, top_p=0.9)
    said = engine.chat(QUESTION, temperature=1.0, seed=3, max_tokens=12, top_p=0.9)
    [choice] = done.choices
    assert choice.message.role == "assistant"
    assert choice.message.content == said.text
    assert choice.finish_reason == said.finish_reason == "length"
    assert done.usage is not None
    assert done.usage.prompt_tokens == said.usage.prompt_tokens
    assert done.usage.completion_tokens == 12
    assert done.usage.total_tokens == said.usage.total_tokens
    assert done.object == "chat.completion"
    assert done.id.startswith("chatcmpl-")
    assert (done.model, choice.index, choice.logprobs) == (MODEL, 0, None)


def test_a_stream_says_the_same_in_pieces(client: OpenAI) -> None:
    done = client.chat.completions.create(**HOT, max_tokens=20)
    chunks = list(client.chat.completions.create(**HOT, max_tokens=20, stream=True))
    assert text_of(chunks) == done.choices[0].message.content
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-1].choices[0].finish_reason == done.choices[0].finish_reason
    assert {chunk.id for chunk in chunks} == {chunks[0].id}
    assert all(chunk.object == "chat.completion.chunk" for chunk in chunks)
    assert all(chunk.usage is None for chunk in chunks)


def test_the_end_of_a_stream_tells_what_was_used_where_asked(client: OpenAI) -> None:
    told = {**HOT, "max_tokens": 5, "stream_options": {"include_usage": True}}
    *chunks, last = client.chat.completions.create(**told, stream=True)
    assert last.choices == []
    assert last.usage is not None
    assert last.usage.completion_tokens == 5
    assert all(chunk.choices and chunk.usage is None for chunk in chunks)


def test_a_stream_ends_as_the_api_says(raw: Client) -> None:
    body = {**HOT, "max_tokens": 3, "stream": True}
    answer = raw.post("/v1/chat/completions", body, {"Authorization": f"Bearer {KEY}"})
    assert answer.headers["Content-Type"] == "text/event-stream; charset=utf-8"
    frames = answer.text.split("\n\n")
    assert frames[-2:] == ["data: [DONE]", ""]
    assert all(frame.startswith("data: {") for frame in frames[:-2])


def test_choices_differ_and_stream_beside_each_other(client: OpenAI, engine: Engine) -> None:
    told = {**HOT, "n": 3, "max_tokens": 8}
    done = client.chat.completions.create(**told)
    submitted = engine.submit_chat(QUESTION, temperature=1.0, seed=3, max_tokens=8, n=3)
    assert [c.message.content for c in done.choices] == [c.text for c in submitted.results()]
    assert [choice.index for choice in done.choices] == [0, 1, 2]
    assert done.usage is not None
    assert done.usage.completion_tokens == 24
    chunks = list(client.chat.completions.create(**told, stream=True))
    for choice in done.choices:
        assert text_of(chunks, choice.index) == choice.message.content


def test_an_answer_ends_at_a_stop_string(client: OpenAI) -> None:
    free = client.chat.completions.create(**HOT, max_tokens=30).choices[0].message.content or ""
    stop = free[5:7]
    for asked in (stop, [stop, "never comes"]):
        choice = client.chat.completions.create(**HOT, max_tokens=30, stop=asked).choices[0]
        assert choice.message.content == free[: free.index(stop)]
        assert choice.finish_reason == "stop"


def test_a_bias_makes_a_token_the_only_one(client: OpenAI, engine: Engine) -> None:
    done = client.chat.completions.create(**HOT, max_tokens=4, logit_bias={"70": 100})
    assert done.choices[0].message.content == engine.tokenizer.decode([70] * 4)


def test_tokens_come_with_how_likely_they_are(client: OpenAI) -> None:
    told = {**HOT, "max_tokens": 6, "logprobs": True, "top_logprobs": 2}
    choice = client.chat.completions.create(**told).choices[0]
    assert choice.logprobs is not None
    tokens = choice.logprobs.content or []
    assert len(tokens) == 6
    for token in tokens:
        assert token.logprob <= 0
        assert len(token.top_logprobs) == 2
        assert bytes(token.bytes or []).decode(errors="replace") == token.token
    written = b"".join(bytes(token.bytes or []) for token in tokens)
    assert (choice.message.content or "") in written.decode(errors="replace")
    chunks = client.chat.completions.create(**told, stream=True)
    likely = [chunk.choices[0].logprobs for chunk in chunks]
    streamed = [one for found in likely if found for one in found.content or []]
    assert streamed == tokens


def test_a_tool_that_has_to_be_called_is_called(client: OpenAI) -> None:
    told = {**STRAIGHT, "seed": 1, "tools": [FORECAST]}
    named = {"type": "function", "function": {"name": "forecast"}}
    for tool_choice in ("required", named):
        done = client.chat.completions.create(**told, tool_choice=tool_choice)
        choice = done.choices[0]
        assert choice.finish_reason == "tool_calls"
        assert choice.message.content is None
        call = (choice.message.tool_calls or [])[0]
        assert call.type == "function"
        assert call.function.name == "forecast"
        assert json.loads(call.function.arguments)["sky"] in ("clear", "bewölkt")


def test_what_a_tool_gave_goes_back(client: OpenAI) -> None:
    told = {**STRAIGHT, "tools": [FORECAST]}
    message = client.chat.completions.create(**told, tool_choice="required").choices[0].message
    results = [
        {"role": "tool", "tool_call_id": call.id, "content": [{"type": "text", "text": "Rain."}]}
        for call in message.tool_calls or []
    ]
    asked = {**told, "messages": [*QUESTION, message, *results], "tool_choice": "none"}
    done = client.chat.completions.create(**{**asked, "max_completion_tokens": 4})
    assert done.choices[0].message.tool_calls is None
    assert done.usage is not None
    assert done.usage.completion_tokens == 4


def test_a_call_streams_in_fragments(client: OpenAI) -> None:
    told = {**STRAIGHT, "seed": 1, "tools": [FORECAST], "tool_choice": "required"}
    whole = client.chat.completions.create(**told).choices[0].message.tool_calls or []
    with client.chat.completions.stream(**told) as stream:
        events = list(stream)
        [choice] = stream.get_final_completion().choices
    streamed = choice.message.tool_calls or []
    assert [call.function.arguments for call in streamed if call.type == "function"] == [
        call.function.arguments for call in whole if call.type == "function"
    ]
    assert choice.finish_reason == "tool_calls"
    assert any(event.type == "tool_calls.function.arguments.done" for event in events)


def test_calls_come_one_at_a_time_where_that_is_asked(client: OpenAI) -> None:
    several = 0
    for seed in range(30):
        told = {**STRAIGHT, "seed": seed, "tools": [FORECAST], "tool_choice": "required"}
        calls = client.chat.completions.create(**told).choices[0].message.tool_calls or []
        if len(calls) < 2:
            continue
        several += 1
        alone = {**told, "parallel_tool_calls": False}
        [only] = client.chat.completions.create(**alone).choices[0].message.tool_calls or []
        assert only.type == calls[0].type == "function"
        assert only.function == calls[0].function
        chunks = client.chat.completions.create(**alone, stream=True)
        deltas = [one for chunk in chunks for one in chunk.choices[0].delta.tool_calls or []]
        assert {delta.index for delta in deltas} == {0}
    assert several


def test_an_answer_is_of_a_schema(client: OpenAI) -> None:
    done = client.chat.completions.parse(**STRAIGHT, response_format=Person)
    assert isinstance(done.choices[0].message.parsed, Person)
    with client.chat.completions.stream(**STRAIGHT, response_format=Person) as stream:
        assert stream.get_final_completion().choices[0].message.parsed == (
            done.choices[0].message.parsed
        )


def test_an_answer_is_an_object(client: OpenAI) -> None:
    done = client.chat.completions.create(
        **{**STRAIGHT, "logit_bias": {"125": 5}}, response_format={"type": "json_object"}
    )
    assert (done.choices[0].message.content or "").startswith("{")


def test_thoughts_are_told_apart_from_what_is_said(client: OpenAI) -> None:
    told = {
        **HOT,
        "max_tokens": 12,
        "extra_body": {"chat_template_kwargs": {"enable_thinking": True}},
    }
    done = client.chat.completions.create(**told)
    thought = done.choices[0].message.model_extra or {}
    assert thought["reasoning_content"]
    chunks = client.chat.completions.create(**told, stream=True)
    extras = [chunk.choices[0].delta.model_extra or {} for chunk in chunks]
    assert (
        "".join(one.get("reasoning_content", "") for one in extras)
        == (thought["reasoning_content"])
    )


def test_a_developer_speaks_as_the_system(client: OpenAI) -> None:
    texts = [
        client.chat.completions.create(
            **{**HOT, "max_tokens": 8, "messages": [{"role": role, "content": "Be."}, *QUESTION]}
        ).choices[0].message.content
        for role in ("system", "developer")
    ]  # fmt: skip
    assert texts[0] == texts[1]


def test_a_prompt_that_was_seen_is_not_computed_again(client: OpenAI) -> None:
    messages = [{"role": "user", "content": "Say something of the sea, and of its fish. " * 3}]
    told = {**HOT, "messages": messages, "max_tokens": 2}
    for salt, cached in (("a", False), ("a", True), ("b", False)):
        usage = client.chat.completions.create(**told, extra_body={"cache_salt": salt}).usage
        assert usage is not None
        assert usage.prompt_tokens_details is not None
        assert bool(usage.prompt_tokens_details.cached_tokens) == cached


def test_forty_ask_at_once(served: Served, client: OpenAI) -> None:
    alone = client.chat.completions.create(**HOT, max_tokens=6).choices[0].message.content

    async def ask() -> list[str | None]:
        async with served.asynchronous() as client:
            asked = [client.chat.completions.create(**HOT, max_tokens=6) for _ in range(40)]
            return [one.choices[0].message.content for one in await asyncio.gather(*asked)]

    assert asyncio.run(ask()) == [alone] * 40


def test_a_stream_comes_to_asyncio(served: Served, client: OpenAI) -> None:
    alone = client.chat.completions.create(**HOT, max_tokens=6).choices[0].message.content

    async def ask() -> list[ChatCompletionChunk]:
        async with served.asynchronous() as client:
            stream = await client.chat.completions.create(**HOT, max_tokens=6, stream=True)
            return [chunk async for chunk in stream]

    assert text_of(asyncio.run(ask())) == alone


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_ends_its_request(served: Served, raw: Client, stream: bool) -> None:
    def cancelled() -> int:
        return int(served.engine.metrics()["request_success_total"]["cancelled"])

    before = cancelled()
    body = json.dumps({**HOT, "n": 64, "max_tokens": 200, "ignore_eos": True, "stream": stream})
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {KEY}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}"
    )
    with raw.connect() as connection:
        connection.sendall(head.encode())
        assert eventually(lambda: served.engine.metrics()["num_requests_running"] > 0)
    assert eventually(lambda: cancelled() >= before + 1)


IMAGE = {"type": "image_url", "image_url": {"url": "http://169.254.169.254/"}}


@pytest.mark.parametrize(
    ("given", "status", "code", "param", "said"),
    [
        ({"model": "other"}, 404, "model_not_found", "model", "There is no model"),
        ({"messages": []}, 400, "input.body", "messages", "at least 1 item"),
        ({"messages": [{"role": "function", "content": ""}]}, 400, "input.body", "messages.0",
         "'developer'"),
        ({"messages": [{"role": "user", "content": [IMAGE]}]}, 400, "unsupported.content", None,
         "messages.0.content.0 is of type 'image_url'; this bundle reads text only."),
        ({"messages": [{"role": "user", "content": "a" * 4000}]}, 400, "context_length_exceeded",
         "messages", "256"),
        ({"functions": [{"name": "f"}]}, 400, "unsupported.parameter", None, "Use tools."),
        ({"store": True}, 400, "unsupported.parameter", None, "store is True"),
        ({"modalities": ["text", "audio"]}, 400, "unsupported.parameter", None, "modalities"),
        ({"temperature": 101}, 400, "input.sampling", None, "temperature"),
        ({"temperature": "1"}, 400, "input.body", "temperature", "valid number"),
        ({"n": 65}, 400, "input.sampling", None, "n is 65"),
        ({"top_logprobs": 2}, 400, "input.body", None, "top_logprobs is 2 without logprobs."),
        ({"logit_bias": {"a": 1}}, 400, "input.body", None, "'a'"),
        ({"logit_bias": {"99999": 1}}, 400, "input.token", None, "99999"),
        ({"response_format": {"type": "morse"}}, 400, "unsupported.response_format",
         "response_format", "morse"),
        ({"tool_choice": "required"}, 400, "input.tool_choice", "tool_choice", "no tools"),
        ({"tools": [{"type": "custom"}]}, 400, "unsupported.tool", "tools", "custom"),
        ({"reasoning_effort": "high"}, 400, "unsupported.reasoning", "reasoning_effort", "effort"),
        ({"reasoning_effort": "a lot"}, 400, "input.reasoning", "reasoning_effort", "a lot"),
        ({"max_tokens": 1 << 31}, 400, "input.body", "max_tokens", "less than or equal"),
        ({"seed": 1 << 64}, 400, "input.body", "seed", "less than"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("stream", [False, True])
def test_what_cannot_be_answered_is_said_in_the_api_s_words(
    client: OpenAI, given: dict[str, Any], status: int, code: str, param: str | None, said: str,
    stream: bool,
) -> None:  # fmt: skip
    with pytest.raises(APIStatusError) as raised:
        client.chat.completions.create(
            model=MODEL, messages=QUESTION, stream=stream, extra_body=given
        )
    error: Any = raised.value
    assert (error.status_code, error.code, error.param) == (status, code, param)
    assert error.type == "invalid_request_error"
    assert said in error.body["message"]


@pytest.mark.parametrize(
    "given",
    [
        {"user": "ada", "metadata": {"a": "b"}, "service_tier": "auto", "store": False},
        {"safety_identifier": "x", "prompt_cache_key": "y", "functions": [], "tools": []},
        {"tool_choice": "auto", "modalities": ["text"], "stop": None, "n": None, "unknown": 1},
    ],
)
def test_what_changes_no_answer_is_taken(client: OpenAI, given: dict[str, Any]) -> None:
    told = {"model": MODEL, "messages": QUESTION, "max_tokens": 1}
    assert client.chat.completions.create(**told, extra_body=given).usage


def test_without_a_key_nobody_is_answered(served: Served) -> None:
    other = OpenAI(base_url=served.base_url, api_key="other", max_retries=0)
    with other as client, pytest.raises(APIStatusError) as raised:
        client.models.list()
    assert raised.value.status_code == 401
