"""Tools and calls of them are rendered as transformers renders them, however they are passed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from edgewise_runtime.errors import InputError
from edgewise_runtime.text import ChatTemplate
from edgewise_runtime.text.json_text import read_json
from edgewise_runtime.text.tool_calls import MAX_CALLS, CallForm, has_calls, with_calls
from tests.runtime.text.conversations import SPECIAL_TOKENS, assistant, user
from tests.runtime.text.tool_conversations import (
    CONVERSATIONS,
    TEMPLATES,
    WANT_TEXT,
    call,
    spelled,
)

GOLDENS = Path(__file__).parent / "goldens"
EXPECTED: dict[str, list[str | None]] = json.loads((GOLDENS / "tools.json").read_text("ascii"))[
    "rendered"
]
COMPILED = {name: ChatTemplate(source, SPECIAL_TOKENS) for name, source in TEMPLATES.items()}


@pytest.mark.parametrize("index", range(len(CONVERSATIONS)))
@pytest.mark.parametrize("name", TEMPLATES)
def test_calls_are_rendered_as_transformers_renders_them(name: str, index: int) -> None:
    template, chat, expected = COMPILED[name], CONVERSATIONS[index], EXPECTED[name][index]
    for given in (chat, spelled(chat)):
        messages = with_calls(given.messages, template.call_form)
        if expected is None:
            with pytest.raises(InputError, match="refuses these messages"):
                template.render(messages, tools=chat.tools)
        else:
            assert template.render(messages, tools=chat.tools) == expected


@pytest.mark.parametrize("name", TEMPLATES)
def test_templates_that_join_arguments_to_text_are_found(name: str) -> None:
    assert COMPILED[name].call_form.text == (name in WANT_TEXT)


LOOKING = (
    "{% for m in messages %}{{ m['content'] + '' }}{{ m.tool_calls | tojson if m.tool_calls }}"
    "{% endfor %}"
)
KNOWING_NOTHING = "{% for m in messages %}{{ m.role + m.content }}{% endfor %}"


@pytest.mark.parametrize(
    ("source", "form"),
    [
        (
            "{% for m in messages %}{{ m.tool_calls | default('') }}{% endfor %}",
            CallForm(text=True),
        ),
        (LOOKING, CallForm(content=True)),
        (KNOWING_NOTHING, CallForm(content=True)),
        ("{{ raise_exception('No.') }}", CallForm()),
        ("Hello", CallForm()),
    ],
)
def test_the_form_of_calls_is_found_by_rendering(source: str, form: CallForm) -> None:
    assert ChatTemplate(source).call_form == form


def test_a_content_that_is_not_there_is_empty_where_a_template_looks_into_it() -> None:
    bare = assistant(None, tool_calls=[call("f", {})])
    [message] = with_calls([bare], CallForm(content=True))
    assert message["content"] == ""
    [message] = with_calls([{**bare, "content": "x"}], CallForm(content=True))
    assert message["content"] == "x"


def told(calls: Any, *, as_text: bool = False) -> Any:
    [message] = with_calls([assistant(None, tool_calls=calls)], CallForm(text=as_text))
    return message.get("tool_calls")


def arguments(given: Any, *, as_text: bool = False) -> Any:
    return told([call("f", given)], as_text=as_text)[0]["function"]["arguments"]


@pytest.mark.parametrize("written", ['{"a":  1}', '{"b": "\\u003cx>"}', "{}"])
def test_text_stays_as_it_was_written_where_text_is_wanted(written: str) -> None:
    assert arguments(written, as_text=True) == written
    assert arguments(written) == json.loads(written)


def test_objects_become_text_where_text_is_wanted() -> None:
    assert arguments({"city": "Zürich"}, as_text=True) == '{"city": "Zürich"}'


@pytest.mark.parametrize("empty", [None, "", {}])
def test_a_call_without_arguments_has_an_empty_object(empty: Any) -> None:
    assert arguments(empty) == {}
    assert arguments(empty, as_text=True) == "{}"
    assert told([{"function": {"name": "f"}}]) == [
        {"type": "function", "function": {"name": "f", "arguments": {}}}
    ]


def test_a_call_may_be_only_what_it_calls() -> None:
    bare = {"id": "1", "name": "f", "arguments": '{"x": 1}'}
    assert told([bare]) == [
        {"type": "function", "id": "1", "function": {"name": "f", "arguments": {"x": 1}}}
    ]


def test_other_messages_and_what_else_a_call_has_stay() -> None:
    others = ["x", user("Hi"), assistant("Yes."), {"role": "tool", "content": "4"}]
    assert with_calls(others, CallForm(content=True)) == others
    assert not has_calls(others)
    assert has_calls([*others, assistant(None, tool_calls=[])])
    assert told(None) is None
    assert told([{**call("f", {}), "index": 3}])[0]["index"] == 3


def test_a_message_with_no_calls_is_one_without_any() -> None:
    assert with_calls([assistant("Hi", tool_calls=[])], CallForm()) == [assistant("Hi")]


@pytest.mark.parametrize(
    "wrong",
    ["x", {"a": 1}, 7, [7], ["x"], [{}], [{"function": 7}], [{"function": {"name": ""}}]],
    ids=repr,
)
def test_what_is_no_call_is_refused(wrong: Any) -> None:
    with pytest.raises(InputError, match="call") as caught:
        told(wrong)
    assert caught.value.code == "input.tool_calls"


@pytest.mark.parametrize(
    "wrong",
    ["{", "[]", "7", "null", '{"a": NaN}', '{"a": 1} x', 7, [], "[" * 200_000, "x" * (1 << 21)],
    ids=lambda wrong: repr(wrong)[:12],
)
@pytest.mark.parametrize("as_text", [False, True])
def test_arguments_that_are_no_object_are_refused(wrong: Any, as_text: bool) -> None:
    with pytest.raises(InputError, match="arguments of the call of 'f'") as caught:
        arguments(wrong, as_text=as_text)
    assert caught.value.code == "input.tool_calls"


def test_arguments_that_have_no_text_are_refused() -> None:
    endless: dict[str, Any] = {}
    endless["a"] = endless
    for wrong in ({"a": {1, 2}}, {"a": float("nan")}, endless):
        with pytest.raises(InputError, match="arguments of the call"):
            arguments(wrong, as_text=True)


def test_more_calls_than_any_answer_has_are_refused() -> None:
    assert len(told([call("f", {})] * MAX_CALLS)) == MAX_CALLS
    with pytest.raises(InputError, match="a list of up to 256"):
        told([call("f", {})] * (MAX_CALLS + 1))


def test_of_a_key_that_comes_twice_the_last_counts() -> None:
    assert read_json('{"a": 1, "a": 2}') == {"a": 2}
