"""Requests of Anthropic's API as what a model is asked."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from edgewise.server.anthropic.request import MessagesRequest
from edgewise_runtime.errors import EdgewiseError
from tests.sdk.server.anthropic.conftest import FORECAST, MODEL, QUESTION

BASE: dict[str, Any] = {"model": MODEL, "max_tokens": 5, "messages": QUESTION}
SUN = {"type": "tool_use", "id": "a1", "name": "forecast", "input": {"sky": "bewölkt"}}
RAIN = {"type": "tool_use", "id": "a2", "name": "forecast", "input": {}}


def asked(**given: Any) -> Any:
    return MessagesRequest.model_validate({**BASE, **given}).ask()


def messages(*given: dict[str, Any], **others: Any) -> list[Any]:
    return list(asked(messages=list(given), **others).messages)


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said, "cache_control": {"type": "ephemeral"}}


def result(of: str, content: Any = None, **others: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": of, "content": content, **others}


def called(id_: str, arguments: str) -> dict[str, Any]:
    function = {"name": "forecast", "arguments": arguments}
    return {"id": id_, "type": "function", "function": function}


def answered(id_: str, content: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id_, "name": "forecast", "content": content}


@pytest.mark.parametrize("system", ["Be.\nBrief.", [text("Be."), text("Brief.")]])
def test_what_the_system_says_comes_first(system: Any) -> None:
    assert messages(*QUESTION, system=system) == [
        {"role": "system", "content": "Be.\nBrief."},
        {"role": "user", "content": "1 + 2?"},
    ]


def test_turns_of_one_role_are_one() -> None:
    assert messages(user(text("a")), {"role": "user", "content": "b"}, assistant(text("c")),
                    assistant(text("d")), user(text("e"))) == [
        {"role": "user", "content": "a\nb"},
        {"role": "assistant", "content": "cd"},
        {"role": "user", "content": "e"},
    ]  # fmt: skip


def test_calls_and_what_they_gave_stand_as_templates_read_them() -> None:
    found = messages(
        *QUESTION,
        assistant(
            {"type": "thinking", "thinking": "Look.", "signature": "x"},
            {"type": "redacted_thinking", "data": "zzz"},
            text("I look."),
            SUN,
            RAIN,
        ),
        user(result("a2", [text("Rain."), text("Wind.")]), result("a1", "Sun."), text("Well?")),
    )
    assert found[1:] == [
        {
            "role": "assistant",
            "content": "I look.",
            "reasoning_content": "Look.",
            "tool_calls": [called("a1", '{"sky": "bewölkt"}'), called("a2", "{}")],
        },
        answered("a2", "Rain.\nWind."),
        answered("a1", "Sun."),
        {"role": "user", "content": "Well?"},
    ]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (result("a1"), ""),
        (result("a1", "No net.", is_error=True), "Error: No net."),
        (result("a1", "Error: no net.", is_error=True), "Error: no net."),
        (result("a1", is_error=True), "Error"),
    ],
)
def test_a_result_may_be_an_error(given: dict[str, Any], said: str) -> None:
    found = messages(*QUESTION, assistant(SUN), user(given))
    assert found[1]["content"] is None
    assert found[2:] == [answered("a1", said)]


def test_tools_are_in_openai_s_form() -> None:
    [tool] = asked(tools=[{**FORECAST, "cache_control": {"type": "ephemeral"}}]).tools
    assert tool == {
        "type": "function",
        "function": {
            "name": "forecast",
            "description": "Tell the weather.",
            "parameters": FORECAST["input_schema"],
        },
    }
    assert asked(tools=[]).tools is None


@pytest.mark.parametrize(
    ("given", "name", "value"),
    [
        ({"tool_choice": {"type": "auto"}}, "tool_choice", "auto"),
        ({"tool_choice": {"type": "any"}}, "tool_choice", "required"),
        ({"tool_choice": {"type": "none"}}, "tool_choice", "none"),
        ({"tool_choice": {"type": "tool", "name": "forecast"}}, "tool_choice",
         {"type": "function", "function": {"name": "forecast"}}),
        ({"tool_choice": {"type": "auto"}, "tools": []}, "tool_choice", None),
        ({"tool_choice": {"type": "any"}, "tools": []}, "tool_choice", "required"),
        ({}, "reasoning", None),
        ({"thinking": {"type": "adaptive"}}, "reasoning", None),
        ({"thinking": {"type": "disabled"}}, "reasoning", {"enabled": False}),
        ({"thinking": {"type": "enabled", "budget_tokens": 9}}, "reasoning",
         {"enabled": True, "budget": 9}),
        ({"output_config": {"effort": "max"}}, "reasoning", {"effort": "xhigh"}),
        ({"thinking": {"type": "disabled"}, "output_config": {"effort": "low"}}, "reasoning",
         {"enabled": False}),
        ({"output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}},
         "response_format",
         {"type": "json_schema", "json_schema": {"name": "answer", "schema": {"type": "object"}}}),
        ({"stop_sequences": ["a", "b"]}, "stop", ["a", "b"]),
        ({"stop_sequences": []}, "stop", None),
        ({"temperature": 1}, "temperature", 1),
        ({"top_p": 0.5}, "top_p", 0.5),
        ({"top_k": 3}, "top_k", 3),
        ({}, "max_tokens", 5),
    ],
)  # fmt: skip
def test_parameters_are_options_of_the_engine(given: dict[str, Any], name: str, value: Any) -> None:
    assert asked(**{"tools": [FORECAST], **given}).options[name] == value


IMAGE = {"type": "image", "source": {"type": "url", "url": "http://169.254.169.254/"}}
DOCUMENT = {"type": "document", "source": {"type": "base64", "data": "AAAA"}}


def test_a_last_message_of_the_assistant_is_what_its_answer_begins_with() -> None:
    begun = [*QUESTION, assistant(text("The ans")), assistant(text("wer is"))]
    request = MessagesRequest.model_validate(
        {"model": "m", "max_tokens": 5, "messages": begun, "thinking": {"type": "disabled"}}
    )
    assert request.begins == "The answer is"
    assert (
        request.ask().messages
        == MessagesRequest.model_validate({"model": "m", "max_tokens": 5, "messages": QUESTION})
        .ask()
        .messages
    )
    assert MessagesRequest.model_validate(
        {"model": "m", "max_tokens": 5, "messages": [*begun, user(text("So?"))]}
    ).begins == ""  # fmt: skip


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        ({"messages": [user(text("See"), IMAGE)]}, "unsupported.content",
         "messages.0.content.1 is of type 'image'; this bundle reads text only."),
        ({"messages": [user(DOCUMENT)]}, "unsupported.content", "'document'; this bundle reads"),
        ({"messages": [user({"type": "search_result", "content": []})]}, "unsupported.content",
         "'search_result', which is not supported."),
        ({"messages": [*QUESTION, assistant(SUN), user(result("a1", [IMAGE]))]},
         "unsupported.content", "messages.2.content.0.content.0 is of type 'image'"),
        ({"system": [IMAGE]}, "unsupported.content", "system.0 is of type 'image'"),
        ({"messages": [user(SUN)]}, "input.messages", "messages.0.content.0 is of type 'tool_use'"),
        ({"messages": [*QUESTION, assistant(result("a1"))]}, "input.messages", "'tool_result'"),
        ({"messages": [user(result("a1"))]}, "input.messages", "'a1', which the message before"),
        ({"messages": [*QUESTION, assistant(SUN), user(text("So"), result("a1"))]},
         "input.messages", "comes after text"),
        ({"messages": [*QUESTION, assistant(text("I look"), SUN)]}, "input.messages",
         "The last message is the assistant's and has tool_use"),
        ({"messages": [assistant(text("The answer is"))]}, "input.messages", "All messages are"),
        ({"messages": [*QUESTION, assistant(text("It is"))],
          "thinking": {"type": "enabled", "budget_tokens": 9}}, "input.messages",
         "begins with a thought"),
        ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "unsupported.tool",
         "tools.0 is of type 'web_search_20250305'"),
        ({"tools": [{"name": "forecast"}]}, "input.tools", "tools.0 has no input_schema"),
        ({"thinking": {"type": "enabled"}}, "input.body", "budget_tokens"),
    ],
)  # fmt: skip
def test_what_is_not_supported_is_refused_by_name(
    given: dict[str, Any], code: str, said: str
) -> None:
    with pytest.raises(EdgewiseError, match=said) as raised:
        asked(**given)
    assert raised.value.code == code


@pytest.mark.parametrize(
    "given",
    [
        {"messages": []},
        {"messages": [{"role": "robot", "content": "Hi"}]},
        {"messages": [user({"type": "text"})]},
        {"messages": [user({"type": "text", "text": 1})]},
        {"messages": [user(3)]},
        {"messages": [{"role": "user", "content": None}]},
        {"messages": [user(*[text("a")] * 5000)]},
        {"max_tokens": None},
        {"max_tokens": -1},
        {"max_tokens": 1 << 31},
        {"tool_choice": {"type": "all"}},
        {"tool_choice": {"type": "tool"}},
        {"thinking": {"type": "sometimes"}},
        {"stop_sequences": ["a"] * 65},
        {"tools": [FORECAST] * 513},
        {"temperature": "1"},
    ],
)
def test_what_is_no_request_is_told_from_one(given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        asked(**given)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
BLOCKS = st.one_of(
    st.builds(text, st.text(max_size=5)),
    st.just(SUN),
    st.builds(result, st.sampled_from(["a1", "a3"]), st.text(max_size=5) | st.none()),
    st.dictionaries(st.sampled_from(["type", "text", "id", "input", "content"]), JSON),
    JSON,
)
TURNS = st.fixed_dictionaries(
    {
        "role": st.sampled_from(["user", "assistant", "system"]),
        "content": st.lists(BLOCKS, max_size=4) | st.text(max_size=5),
    }
)


@given(st.lists(TURNS, max_size=6))
def test_a_conversation_is_read_or_refused_and_nothing_else(turns: list[Any]) -> None:
    try:
        found = messages(*turns)
    except (ValidationError, EdgewiseError):
        return
    assert found
    assert json.loads(json.dumps(found, allow_nan=False)) == found
