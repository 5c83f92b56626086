"""Requests of Ollama's API become requests of an engine, and what it says its lines."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from edgewise.deltas import Arguments, CallBegins, CallEnds, Content, NoCall, Reasoning
from edgewise.hosting.base import Call, Ended, Event, Facts, Said, TokenSaid
from edgewise.server.ollama.answers import Part, Reply, error_of, lines, no_more, whole
from edgewise.server.ollama.chat import chat_of, chat_part
from edgewise.server.ollama.generate import generate_part
from edgewise.server.ollama.keeping import FOREVER, LONGEST, seconds_of
from edgewise.server.ollama.messages import messages_of
from edgewise.server.ollama.models import (
    details_of,
    digest_of,
    parameters_of,
    shown_of,
)
from edgewise.server.ollama.names import named
from edgewise.server.ollama.options import format_of, reasoning_of, sampling_of, warning_of
from edgewise.server.ollama.requests import ChatRequest, Message
from edgewise_runtime.engine.completion import Usage
from edgewise_runtime.errors import EdgewiseError, EngineError, InputError, UnsupportedError

FACTS = Facts(
    name="tiny",
    family="qwen3",
    parameters=596_049_920,
    quant="q4",
    bytes=400_000_000,
    context=4096,
    hidden=64,
    vocab=151_936,
    program="cpu-w4a8",
    device="CPU",
    template="{{ messages }}",
    capabilities=("completion", "chat", "tools", "thinking"),
    defaults={"temperature": 0.6, "top_k": 20, "repetition_penalty": 1.1, "min_tokens": 3},
    end_tokens=("<|im_end|>",),
)
NAMES = ["tiny", "base:latest", "hf:org/model:Q4_K_M", "org/folder"]


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("tiny", "tiny"),
        ("tiny:latest", "tiny"),
        ("tiny:0.6b", "tiny"),
        ("base", "base:latest"),
        ("base:latest", "base:latest"),
        ("hf:org/model:Q4_K_M", "hf:org/model:Q4_K_M"),
        ("org/folder:latest", "org/folder"),
    ],
)
def test_a_name_means_a_model(asked: str, found: str) -> None:
    assert named(asked, NAMES) == found


@pytest.mark.parametrize("asked", ["", "nope", "Tiny", "tiny:x:y", "base:8b", "../tiny", "model"])
def test_other_names_are_not_found(asked: str) -> None:
    with pytest.raises(InputError, match="not found") as refused:
        named(asked, NAMES)
    assert refused.value.code == "input.model"


@pytest.mark.parametrize(
    ("given_", "seconds"),
    [
        (None, None),
        (0, 0),
        (0.5, 0.5),
        (300, 300),
        (-1, FOREVER),
        (1e300, FOREVER),
        ("5m", 300),
        ("1h30m", 5400),
        ("1.5h", 5400),
        ("300ms", 0.3),
        ("0", 0),
        ("0s", 0),
        ("-1", FOREVER),
        ("-1m", FOREVER),
        ("60", 60),
        ("999999999h", FOREVER),
    ],
)
def test_how_long_a_model_stays(given_: float | str | None, seconds: float | None) -> None:
    assert seconds_of(given_) == (None if seconds is None else pytest.approx(seconds))


@pytest.mark.parametrize("given_", ["", "m", "5x", "5 m", "--5m", "nan", "inf", "1e9", "9" * 99])
def test_what_is_no_duration_is_refused(given_: str) -> None:
    with pytest.raises(InputError) as refused:
        seconds_of(given_)
    assert refused.value.code == "input.keep_alive"


@given(st.text(max_size=80) | st.floats() | st.integers())
def test_any_duration_is_seconds_or_refused(given_: float | str) -> None:
    with suppress(InputError):
        seconds = seconds_of(given_)
        assert seconds is not None
        assert seconds == FOREVER or 0 <= seconds <= LONGEST


@pytest.mark.parametrize(
    ("options", "found", "ignored"),
    [
        ({}, {"max_tokens": 4096}, ()),
        ({"num_predict": -1}, {"max_tokens": 4096}, ()),
        ({"num_predict": -2}, {"max_tokens": 4096}, ()),
        ({"num_predict": 0}, {"max_tokens": 0}, ()),
        ({"num_predict": 7}, {"max_tokens": 7}, ()),
        ({"num_predict": 10**12}, {"max_tokens": 4096}, ()),
        ({"num_ctx": 2048}, {"max_tokens": 4096}, ()),
        ({"num_ctx": 8192}, {"max_tokens": 4096}, ("num_ctx",)),
        (
            {"temperature": 0, "top_k": 40, "top_p": 0.9, "min_p": 0.05, "seed": 1},
            {
                "max_tokens": 4096,
                "temperature": 0,
                "top_k": 40,
                "top_p": 0.9,
                "min_p": 0.05,
                "seed": 1,
            },
            (),
        ),
        ({"repeat_penalty": 1.1}, {"max_tokens": 4096, "repetition_penalty": 1.1}, ()),
        ({"repeat_penalty": 1.1, "repeat_last_n": 0}, {"max_tokens": 4096}, ()),
        ({"repeat_last_n": 64}, {"max_tokens": 4096}, ("repeat_last_n",)),
        ({"repeat_last_n": -1}, {"max_tokens": 4096}, ()),
        ({"stop": "x"}, {"max_tokens": 4096, "stop": "x"}, ()),
        ({"stop": ["x", "y"]}, {"max_tokens": 4096, "stop": ["x", "y"]}, ()),
        ({"seed": None}, {"max_tokens": 4096}, ()),
        ({"num_gpu": 1, "typical_p": 1.0}, {"max_tokens": 4096}, ("num_gpu", "typical_p")),
    ],
)
def test_options_are_the_engines(
    options: dict[str, Any], found: dict[str, Any], ignored: tuple[str, ...]
) -> None:
    assert sampling_of(options, 4096) == (found, ignored)


@pytest.mark.parametrize(
    "options",
    [
        {"temperature": "hot"},
        {"temperature": True},
        {"top_k": 1.5},
        {"num_predict": "7"},
        {"seed": [1]},
        {"stop": 7},
        {"stop": ["a", 7]},
        {"num_ctx": {}},
    ],
)
def test_values_of_another_kind_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"The option {next(iter(options))} is") as refused:
        sampling_of(options, 4096)
    assert refused.value.code == "input.option"


@pytest.mark.parametrize(
    ("ignored", "said"),
    [
        ((), None),
        (("num_gpu",), '199 - "Ignored: num_gpu"'),
        (("a\r\nSet-Cookie: b", "é", "x" * 99), '199 - "Ignored: 3 more"'),
        (
            tuple("abcdefghijklmnopqrst"),
            '199 - "Ignored: a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, 4 more"',
        ),
    ],
)
def test_what_is_ignored_is_a_header_of_plain_words(
    ignored: tuple[str, ...], said: str | None
) -> None:
    assert warning_of(ignored).get("Warning") == said


@pytest.mark.parametrize(
    ("format_", "found"),
    [
        (None, None),
        ("", None),
        ("json", {"type": "json_object"}),
        (
            {"type": "object"},
            {"type": "json_schema", "json_schema": {"schema": {"type": "object"}}},
        ),
    ],
)
def test_a_format_is_the_engines(format_: Any, found: Any) -> None:
    assert format_of(format_) == found


def test_another_format_is_refused() -> None:
    with pytest.raises(InputError, match="xml"):
        format_of("xml")


@pytest.mark.parametrize(
    ("think", "thinks", "found"),
    [
        (None, True, None),
        (True, True, True),
        (False, True, False),
        ("low", True, "low"),
        (None, False, None),
        (False, False, None),
    ],
)
def test_thoughts_are_asked_for(think: Any, thinks: bool, found: Any) -> None:
    assert reasoning_of(think, facts(thinks)) == found


@pytest.mark.parametrize(
    ("think", "thinks", "error"),
    [(True, False, UnsupportedError), ("high", False, UnsupportedError), ("x", True, InputError)],
)
def test_thoughts_that_there_are_not_are_refused(
    think: Any, thinks: bool, error: type[EdgewiseError]
) -> None:
    with pytest.raises(error):
        reasoning_of(think, facts(thinks))


def facts(thinks: bool) -> Facts:
    return FACTS if thinks else replace(FACTS, capabilities=("completion", "chat"))


def test_a_conversation_that_is_too_long_loses_its_oldest_turns_unless_it_may_not() -> None:
    def policy(**more: Any) -> Any:
        ask, _ = chat_of(ChatRequest(model="tiny", messages=[], **more), FACTS)
        return ask.options["context_policy"]

    assert policy() == policy(truncate=True) == "drop"
    assert policy(truncate=False) == "error"


def test_results_belong_to_the_calls_that_they_are_of() -> None:
    def called(*names: str) -> dict[str, Any]:
        calls = [{"function": {"name": name, "arguments": {"x": 1}}} for name in names]
        return {"role": "assistant", "thinking": "Hm", "tool_calls": calls}

    given_ = [
        {"role": "user", "content": "?"},
        called("add", "sub", "add"),
        {"role": "tool", "tool_name": "sub", "content": "1"},
        {"role": "tool", "tool_name": "add", "content": "2"},
        {"role": "tool", "content": "3"},
        called("add"),
        {"role": "tool", "content": "4", "tool_name": "other"},
    ]
    found = messages_of([Message.model_validate(one) for one in given_])
    ids = [[call["id"] for call in one["tool_calls"]] for one in (found[1], found[5])]
    assert ids == [["call00000", "call00001", "call00002"], ["call00003"]]
    results = [(one.get("tool_call_id"), one.get("name")) for one in found if one["role"] == "tool"]
    assert results == [
        ("call00001", "sub"),
        ("call00000", "add"),
        ("call00002", "add"),
        (None, "other"),
    ]
    assert found[1]["reasoning_content"] == "Hm"
    assert found[1]["tool_calls"][0]["function"] == {"name": "add", "arguments": '{"x": 1}'}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
MESSAGE = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "tool"]) | JSON},
    optional={
        "content": st.text(max_size=8) | JSON,
        "tool_calls": st.lists(
            st.fixed_dictionaries(
                {
                    "function": st.fixed_dictionaries(
                        {"name": st.sampled_from(["a", "b"])}, optional={"arguments": JSON}
                    )
                }
            ),
            max_size=3,
        ),
        "tool_name": st.sampled_from(["a", "b"]) | JSON,
        "tool_call_id": st.sampled_from(["call00000", "x"]) | JSON,
    },
)
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "messages": st.lists(MESSAGE, max_size=5) | JSON,
        "options": st.dictionaries(st.sampled_from(["seed", "stop", "top_k", "num_ctx", "x"]), JSON)
        | JSON,
        "format": st.just("json") | JSON,
        "think": st.just("low") | JSON,
        "tools": JSON,
        "logprobs": JSON,
    },
)


@given(FIELDS)
def test_any_body_is_a_request_or_refused(fields: dict[str, Any]) -> None:
    with suppress(ValidationError, EdgewiseError):
        ask, options = chat_of(ChatRequest.model_validate({"model": "tiny", **fields}), FACTS)
        json.dumps([ask.messages, ask.tools, dict(ask.options)], allow_nan=False)
        assert all(header.isascii() for header in warning_of(options.ignored).values())


USAGE = Usage(9, 4)


def end(**more: Any) -> Ended:
    told: dict[str, Any] = {
        "index": 0,
        "text": "Hi",
        "reasoning": "",
        "calls": (),
        "token_ids": (5, 6, 7, 1),
        "finish_reason": "stop",
        "usage": USAGE,
        "timings": {"prefill_s": 0.25, "decode_s": 0.5},
        "seed": 1,
    }
    return Ended(**{**told, **more})


def token(text: str) -> TokenSaid:
    return TokenSaid(7, text, text.encode(), -0.5, ((text, text.encode(), -0.5),))


async def events(*found: Event) -> AsyncGenerator[Event, None]:
    for event in found:
        yield event


def written(reply: Reply, *found: Event) -> list[dict[str, Any]]:
    async def read() -> list[dict[str, Any]]:
        return [json.loads(one) async for one in lines(reply, events(*found), no_more)]

    return asyncio.run(read())


CHAT, GENERATE = Reply("tiny", chat_part, 0, 5), Reply("tiny", generate_part, 0, 5)


def test_the_last_line_says_what_an_answer_took() -> None:
    last = written(GENERATE, end(finish_reason="length"))[-1]
    assert last.pop("total_duration") > 0
    assert last.pop("created_at").endswith("Z")
    assert last == {
        "model": "tiny",
        "response": "",
        "done": True,
        "done_reason": "length",
        "load_duration": 5,
        "prompt_eval_count": 9,
        "prompt_eval_duration": 250_000_000,
        "eval_count": 4,
        "eval_duration": 500_000_000,
    }


def test_thoughts_and_texts_are_fields_of_a_line() -> None:
    said = Said((Reasoning("Hm"), Content("A")))
    thought = {"role": "assistant", "content": "A", "thinking": "Hm"}
    assert written(CHAT, said, end())[0]["message"] == thought
    generated = written(GENERATE, said, end())[0]
    assert (generated["response"], generated["thinking"]) == ("A", "Hm")


def test_a_call_comes_whole_when_it_has_ended() -> None:
    found = written(
        CHAT,
        Said((Content("So"), CallBegins(0, "abc", "add"), Arguments(0, '{"x":'))),
        Said((Arguments(0, " 1}"),)),
        Said((CallEnds(0),)),
        end(finish_reason="tool_calls"),
    )
    call = {"id": "abc", "function": {"index": 0, "name": "add", "arguments": {"x": 1}}}
    messages = [one["message"] for one in found]
    assert [one["content"] for one in messages] == ["So", "", ""]
    assert [one.get("tool_calls") for one in messages] == [None, [call], None]
    assert found[-1]["done_reason"] == "stop"


def test_what_is_no_call_after_all_is_text() -> None:
    found = written(CHAT, Said((CallBegins(0, "a", "add"), NoCall(0, "<tool", "cut"))), end())
    assert found[0]["message"]["content"] == "<tool"


def test_tokens_wait_for_their_text() -> None:
    reply = Reply("tiny", chat_part, 0, 0, logprobs=True)
    found = written(
        reply,
        Said((), tokens=(token("a"),)),
        Said((Content("ab"),), tokens=(token("b"),)),
        Said((), tokens=(token("c"),)),
        end(),
    )
    assert [[one["token"] for one in line["logprobs"]] for line in found] == [["a", "b"], ["c"]]
    assert found[0]["logprobs"][0]["top_logprobs"] == [
        {"token": "a", "logprob": -0.5, "bytes": [97]}
    ]


def test_a_whole_answer_is_one_object() -> None:
    done = end(reasoning="Hm", calls=(Call("abc", "add", "{}"),), finish_reason="tool_calls")
    found = asyncio.run(whole(CHAT, events(Said((Content("H"),)), done), no_more))
    call = {"id": "abc", "function": {"index": 0, "name": "add", "arguments": {}}}
    message = {"role": "assistant", "content": "Hi", "thinking": "Hm", "tool_calls": [call]}
    assert (found["message"], found["done"]) == (message, True)


def test_an_answer_without_an_end_is_an_error() -> None:
    with pytest.raises(EngineError):
        asyncio.run(whole(CHAT, events(Said((Content("H"),))), no_more))


def test_a_model_that_only_loads_says_nothing() -> None:
    found = CHAT.nothing("load")
    assert (found["message"]["content"], found["done"], found["done_reason"]) == ("", True, "load")
    assert chat_part(Part()) == {"message": {"role": "assistant", "content": ""}}


def test_an_error_is_what_happened_and_what_to_do() -> None:
    assert error_of(InputError("It is wrong.", remedy="Right it.")) == {
        "error": "It is wrong. Right it.",
        "code": "input",
    }


def test_a_model_is_shown_in_ollamas_words() -> None:
    shown = shown_of(FACTS)
    assert shown["details"] == {
        "parent_model": "",
        "format": "edgewise",
        "family": "qwen3",
        "families": ["qwen3"],
        "parameter_size": "596.0M",
        "quantization_level": "q4",
    }
    assert shown["capabilities"] == ["completion", "tools", "thinking"]
    assert [line.split() for line in parameters_of(FACTS).splitlines()] == [
        ["temperature", "0.6"],
        ["top_k", "20"],
        ["repeat_penalty", "1.1"],
        ["stop", '"<|im_end|>"'],
    ]


def test_of_a_model_that_is_not_loaded_little_is_known() -> None:
    assert details_of(None)["family"] == ""
    assert digest_of("a", None) != digest_of("b", None)
    assert len(digest_of("a", FACTS)) == 64
