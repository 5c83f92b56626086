"""Which columns ask what, options of all rows and of one, and cells that are neither."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel

from edgewise import EdgewiseError, InputError, SamplingOptions
from edgewise.ray.data.asking import Asking, Columns
from edgewise.ray.data.keys import digest_of, seed_of

PROMPT = Columns(prompt="q")
CHAT = Columns(messages="m", options="o")
MESSAGES = [{"role": "user", "content": "Hi"}]


class Town(BaseModel):
    """A town."""

    name: str


def weather(town: str) -> str:
    """Tell the weather.

    Args:
        town: where
    """
    return town


def test_a_prompt_is_text_or_token_ids() -> None:
    asking = Asking.of(PROMPT, {})
    assert asking.ask_of({"q": "Once"}).prompt == "Once"
    assert asking.ask_of({"q": [1, 2]}).prompt == [1, 2]


def test_messages_are_structs_or_their_json() -> None:
    asking = Asking.of(CHAT, {})
    for cell in (MESSAGES, json.dumps(MESSAGES)):
        assert asking.ask_of({"m": cell, "o": None}).messages == MESSAGES


def test_fields_that_only_other_rows_have_are_left_out_and_a_null_content_stays() -> None:
    call = {"id": "c", "function": {"name": "f", "arguments": "{}", "extra": None}}
    cell = [
        {"role": "user", "content": "Hi", "tool_calls": None},
        {"role": "assistant", "content": None, "tool_calls": [call]},
    ]
    ask = Asking.of(CHAT, {}).ask_of({"m": cell, "o": None})
    assert ask.messages == [
        {"role": "user", "content": "Hi"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}],
        },
    ]


@pytest.mark.parametrize("cell", [{"max_tokens": 3, "top_p": None}, '{"max_tokens": 3}'])
def test_the_options_of_a_row_come_before_those_of_all(cell: Any) -> None:
    asking = Asking.of(CHAT, {"max_tokens": 9, "temperature": 0.0})
    options = asking.ask_of({"m": MESSAGES, "o": cell}).options
    assert options == {"max_tokens": 3, "temperature": 0.0, "seed": 0}


def test_sampling_is_told_option_by_option_and_what_stands_beside_it_comes_first() -> None:
    asking = Asking.of(PROMPT, {"sampling": SamplingOptions(top_k=3, seed=4), "top_k": 5})
    assert asking.options == {"top_k": 5}
    assert asking.seed == 4


def test_classes_and_functions_are_told_as_json() -> None:
    asking = Asking.of(PROMPT, {"response_format": Town})
    assert asking.options["response_format"]["json_schema"]["schema"]["required"] == ["name"]
    called = Asking.of(CHAT, {"tool_choice": weather, "reasoning": "off"}, tools=[weather])
    assert called.options["tool_choice"] == {"type": "function", "function": {"name": "weather"}}
    assert called.options["reasoning"] == {"enabled": False}
    assert called.tools is not None
    assert called.tools[0]["function"]["name"] == "weather"
    json.dumps([asking.to_json(), called.to_json()])


def test_rows_with_a_key_have_seeds_of_their_own_and_others_that_of_all() -> None:
    keyed = Asking.of(Columns(prompt="q", key="id"), {"seed": 5})
    row = {"q": "Once", "id": 3}
    assert keyed.ask_of(row).options["seed"] == seed_of(5, digest_of(row, "id"))
    assert Asking.of(PROMPT, {"seed": 5}).ask_of(row).options["seed"] == 5


def test_a_row_may_say_its_seed_itself() -> None:
    asking = Asking.of(Columns(prompt="q", options="o", key="id"), {"seed": 5})
    assert asking.ask_of({"q": "Once", "o": {"seed": 8}, "id": 1}).options["seed"] == 8


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"m": None, "o": None}, "messages is None"),
        ({"m": 3, "o": None}, "messages is 3"),
        ({"m": ["Hi"], "o": None}, "list of messages"),
        ({"m": "no JSON", "o": None}, "not valid JSON"),
        ({"m": '[{"role": "user", "role": "user"}]', "o": None}, "appears twice"),
        ({"m": "[" * 100_000, "o": None}, "not valid JSON"),
        ({"m": "\ud800", "o": None}, "not valid JSON"),
        ({"m": MESSAGES, "o": 3}, "options is 3"),
        ({"m": MESSAGES, "o": "[]"}, r"options is '\[\]'"),
    ],
)
def test_cells_that_are_nothing_to_answer_are_refused(row: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        Asking.of(CHAT, {}).ask_of(row)
    assert caught.value.code.startswith("input.")


@pytest.mark.parametrize("cell", [None, 3, {"a": 1}])
def test_prompts_that_are_none_are_refused(cell: Any) -> None:
    with pytest.raises(InputError, match="prompt is"):
        Asking.of(PROMPT, {}).ask_of({"q": cell})


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"max_token": 3}, "input.sampling"),
        ({"temperature": -1}, "input.sampling"),
        ({"n": 2}, "input.n"),
        ({"response_format": {"type": "regex"}}, "input.response_format"),
        ({"tool_choice": "required"}, "input.tool_choice"),
    ],
)
def test_options_of_all_rows_are_checked_before_any_is_read(
    options: dict[str, Any], code: str
) -> None:
    with pytest.raises(EdgewiseError) as caught:
        Asking.of(PROMPT, options)
    assert caught.value.code == code


@pytest.mark.parametrize("named", [{}, {"prompt": "a", "messages": "b"}])
def test_there_is_one_column_to_answer(named: dict[str, str]) -> None:
    with pytest.raises(InputError, match="Name the column of one"):
        Columns(**named)


def test_a_column_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(InputError, match=r"no column 'm'\. There are 'a', 'b'") as caught:
        CHAT.check(["a", "b"])
    assert caught.value.code == "input.column"
