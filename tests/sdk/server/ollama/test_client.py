"""Ollama's own client: what it asks is answered, in the shapes that it reads."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from ollama import AsyncClient, ChatResponse, ResponseError
from pydantic import BaseModel, Field

from tests.sdk.server.ollama.conftest import CALLER, MODEL, PLAIN, Served

MESSAGES = [{"role": "user", "content": "Hello"}]
FEW = {"num_predict": 12, "seed": 5, "temperature": 1.0}


class Person(BaseModel):
    name: str = Field(max_length=8)
    age: int = Field(ge=0, le=120)


def add(x: int, y: int) -> int:
    """Add two numbers.

    Args:
        x: the first.
        y: the second.
    """
    return x + y


def test_a_conversation_is_answered_in_one_piece(served: Served) -> None:
    done = served.client.chat(MODEL, MESSAGES, options=FEW)
    assert (done.model, done.done, done.done_reason) == (MODEL, True, "length")
    assert done.message.role == "assistant"
    assert done.message.content
    assert done.eval_count == 12
    assert done.prompt_eval_count
    spent = (done.total_duration, done.eval_duration, done.prompt_eval_duration)
    assert all(isinstance(one, int) and one > 0 for one in spent)
    assert done.load_duration is not None


def test_the_pieces_of_a_stream_are_the_whole(served: Served) -> None:
    whole = served.client.chat(MODEL, MESSAGES, options=FEW)
    pieces = list(served.client.chat(MODEL, MESSAGES, options=FEW, stream=True))
    assert "".join(piece.message.content or "" for piece in pieces) == whole.message.content
    assert [piece.done for piece in pieces] == [False] * (len(pieces) - 1) + [True]
    assert pieces[-1].eval_count == whole.eval_count
    assert pieces[-1].done_reason == "length"


async def asynchronous(url: str) -> str:
    async with AsyncClient(url) as client:
        parts = await client.chat(MODEL, MESSAGES, options=FEW, stream=True)
        return "".join([part.message.content or "" async for part in parts])


def test_the_asynchronous_client_reads_the_same(served: Served) -> None:
    whole = served.client.chat(MODEL, MESSAGES, options=FEW)
    assert asyncio.run(asynchronous(served.url)) == whole.message.content


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_follows_a_schema(served: Served, stream: bool) -> None:
    asked: dict[str, Any] = {
        "format": Person.model_json_schema(),
        "options": {"seed": 3, "temperature": 1.0, "num_predict": 200},
        "think": False,
    }
    if stream:
        parts = served.client.chat(MODEL, MESSAGES, stream=True, **asked)
        text = "".join(part.message.content or "" for part in parts)
    else:
        text = served.client.chat(MODEL, MESSAGES, **asked).message.content or ""
    assert 0 <= Person.model_validate_json(text).age <= 120


def test_an_answer_that_shall_be_json_is_an_object(served: Served) -> None:
    done = served.client.generate(
        PLAIN, "Hello", format="json", options={"num_predict": 200, "seed": 1, "temperature": 0}
    )
    assert (done.response or "").lstrip().startswith("{")


@pytest.mark.parametrize("stream", [False, True])
def test_tools_are_called_and_what_they_give_goes_back(served: Served, stream: bool) -> None:
    asked: dict[str, Any] = {
        "tools": [add],
        "options": {"seed": 3, "temperature": 0, "num_predict": 200},
        "think": False,
    }
    found: list[ChatResponse] = (
        list(served.client.chat(CALLER, MESSAGES, stream=True, **asked))
        if stream
        else [served.client.chat(CALLER, MESSAGES, **asked)]
    )
    calls = [call for part in found for call in part.message.tool_calls or []]
    assert {call.function.name for call in calls} == {"add"}
    assert set(calls[0].function.arguments) == {"x", "y"}
    assert found[-1].done_reason == "stop"
    told: list[dict[str, Any]] = [
        *MESSAGES,
        {"role": "assistant", "tool_calls": calls},
        {"role": "tool", "tool_name": "add", "content": "3"},
    ]
    again = served.client.chat(MODEL, told, options=FEW)
    assert (again.prompt_eval_count or 0) > (found[-1].prompt_eval_count or 0)


@pytest.mark.parametrize("stream", [False, True])
def test_thoughts_stand_beside_the_answer(served: Served, stream: bool) -> None:
    found: list[ChatResponse] = (
        list(served.client.chat(MODEL, MESSAGES, think=True, options=FEW, stream=True))
        if stream
        else [served.client.chat(MODEL, MESSAGES, think=True, options=FEW)]
    )
    assert "".join(part.message.thinking or "" for part in found)
    assert not "".join(part.message.content or "" for part in found)
    done = served.client.generate(MODEL, "Hello", think=True, options=FEW)
    assert done.thinking
    assert not done.response


def test_log_probabilities_come_with_their_tokens(served: Served) -> None:
    asked: dict[str, Any] = {"options": FEW, "logprobs": True, "top_logprobs": 2, "think": False}
    whole = served.client.chat(MODEL, MESSAGES, **asked)
    parts = list(served.client.chat(MODEL, MESSAGES, stream=True, **asked))
    assert whole.logprobs is not None
    assert len(whole.logprobs) == whole.eval_count
    assert all(len(one.top_logprobs or ()) == 2 and one.logprob <= 0 for one in whole.logprobs)
    assert [one for part in parts for one in part.logprobs or ()] == list(whole.logprobs)


def test_a_prompt_is_continued_whole_and_in_pieces(served: Served) -> None:
    whole = served.client.generate(MODEL, "Hello", system="Be brief", options=FEW)
    parts = list(
        served.client.generate(MODEL, "Hello", system="Be brief", options=FEW, stream=True)
    )
    assert "".join(part.response or "" for part in parts) == whole.response
    assert parts[-1].context == whole.context
    assert (whole.done_reason, whole.eval_count) == ("length", 12)
    chatted = served.client.chat(
        MODEL, [{"role": "system", "content": "Be brief"}, *MESSAGES], options=FEW
    )
    assert chatted.prompt_eval_count == whole.prompt_eval_count


def test_a_raw_prompt_is_taken_as_it_is(served: Served) -> None:
    raw = served.client.generate(MODEL, "Hello", raw=True, options=FEW)
    templated = served.client.generate(MODEL, "Hello", options=FEW)
    assert (raw.prompt_eval_count or 0) < (templated.prompt_eval_count or 0)
    assert raw.context is None


def test_a_context_goes_on_with_the_conversation(served: Served) -> None:
    first = served.client.generate(MODEL, "Hello", options=FEW)
    assert first.context is not None
    second = served.client.generate(MODEL, "And now?", context=first.context, options=FEW)
    assert second.context is not None
    assert list(second.context[: len(first.context)]) == list(first.context)
    text = served.http.post("/detokenize", {"model": MODEL, "tokens": list(second.context)})
    assert json.loads(text.body)["content"] == (
        f"<|user|>Hello<|end|><|assistant|>{first.response}<|end|>"
        f"<|user|>And now?<|end|><|assistant|>{second.response}"
    )


def test_models_are_listed_shown_and_running(served: Served) -> None:
    listed = served.client.list().models
    assert [one.model for one in listed] == [MODEL, CALLER, PLAIN]
    assert all(one.size and one.digest and one.modified_at for one in listed)
    assert listed[0].details is not None
    assert listed[0].details.family == "llama"
    shown = served.client.show(MODEL)
    assert shown.template == served.models.hosted(MODEL).facts.template
    assert shown.capabilities == ["completion", "tools", "thinking", "embedding"]
    assert shown.modelinfo is not None
    assert shown.modelinfo["llama.context_length"] == served.models.hosted(MODEL).facts.context
    assert "temperature                    0.7" in (shown.parameters or "")
    running = served.client.ps().models
    assert [one.model for one in running] == [MODEL, CALLER, PLAIN]
    assert running[0].expires_at is not None
    assert running[0].size_vram == 0


def test_without_a_prompt_a_model_is_loaded_or_leaves(served: Served) -> None:
    assert served.client.generate(MODEL).done_reason == "load"
    assert served.client.chat(MODEL, []).done_reason == "load"
    assert served.client.generate(MODEL, keep_alive=0).done_reason == "unload"
    assert served.client.chat(MODEL, [], keep_alive="0s").done_reason == "unload"


@pytest.mark.parametrize("name", ["tiny", "tiny:latest", "tiny:1b", "caller", "caller:latest"])
def test_a_name_is_found_with_and_without_a_tag(served: Served, name: str) -> None:
    assert served.client.chat(name, MESSAGES, options=FEW).model == name


SEEN = [{"role": "user", "content": "What is this?", "images": [b"png"]}]
REFUSED: list[tuple[Any, int, str]] = [
    (lambda client: client.chat("nope", MESSAGES), 404, "not found"),
    (lambda client: client.show("nope"), 404, "not found"),
    (lambda client: client.generate(PLAIN, "Hi", think=True), 400, "does not support thinking"),
    (lambda client: client.generate(PLAIN, "Hi", suffix="Ho"), 400, "suffix"),
    (lambda client: client.generate(PLAIN, "Hi", template="{{ .Prompt }}"), 400, "template"),
    (lambda client: client.generate(PLAIN, "Hi", images=[b"png"]), 400, "reads text only"),
    (lambda client: client.chat(PLAIN, SEEN), 400, "Images are not read: this bundle reads text"),
    (lambda client: client.generate(PLAIN, "Hi", raw=True, system="Hi"), 400, "raw"),
    (lambda client: client.chat(PLAIN, MESSAGES, options={"top_p": 7}), 400, "top_p"),
    (lambda client: client.chat(PLAIN, [{"role": "god", "content": ""}]), 400, "god"),
    (lambda client: client.pull("org/model"), 400, "edgewise pull org/model"),
    (lambda client: client.push("org/model"), 400, "not sent"),
    (lambda client: client.create("mine", from_=PLAIN), 400, "edgewise compile"),
    (lambda client: client.copy(PLAIN, "mine"), 400, "not copied"),
    (lambda client: client.delete(PLAIN), 400, "edgewise rm"),
]


@pytest.mark.parametrize(("ask", "status", "said"), REFUSED)
def test_what_there_is_not_is_refused_by_name(
    served: Served, ask: Any, status: int, said: str
) -> None:
    with pytest.raises(ResponseError, match=said) as refused:
        ask(served.client)
    assert refused.value.status_code == status


def test_a_stream_that_cannot_begin_has_a_status(served: Served) -> None:
    with pytest.raises(ResponseError, match="top_p") as refused:
        list(served.client.chat(MODEL, MESSAGES, options={"top_p": 7}, stream=True))
    assert refused.value.status_code == 400


def test_options_that_are_not_followed_are_named(served: Served) -> None:
    asked = {
        "model": MODEL,
        "messages": MESSAGES,
        "options": {**FEW, "num_gpu": 1, "mirostat": 2, "num_ctx": 1 << 20, "a\r\nb": 1},
        "stream": False,
    }
    answer = served.http.post("/api/chat", asked)
    assert answer.status == 200
    said = '199 - "Ignored: num_gpu, mirostat, num_ctx, 1 more"'
    assert answer.headers["Warning"] == said


def test_the_version_is_ours(served: Served) -> None:
    assert json.loads(served.http.get("/api/version").body) == {"version": "0.1.0"}


def test_a_stream_is_lines_of_json(served: Served) -> None:
    answer = served.http.post("/api/generate", {"model": MODEL, "prompt": "Hi", "options": FEW})
    assert answer.headers["Content-Type"].startswith("application/x-ndjson")
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert [line["done"] for line in lines][-2:] == [False, True]
