"""The option tool_choice: which values there are, and that it names a tool that is there."""

from __future__ import annotations

from typing import Any

import pytest

from edgewise.tool_choice import ToolChoice, tool_choice_of
from edgewise.tools import tool_of, tools_of
from edgewise_runtime.errors import InputError
from tests.sdk.tool_functions import forecast, nothing

TOOLS = tools_of([forecast, nothing])
NAMED = {"type": "function", "function": {"name": "forecast"}}


@pytest.mark.parametrize(
    ("value", "choice"),
    [
        (None, ToolChoice("auto")),
        ("auto", ToolChoice("auto")),
        ("none", ToolChoice("none")),
        ("required", ToolChoice("required")),
        (NAMED, ToolChoice("named", "forecast")),
        (forecast, ToolChoice("named", "forecast")),
        (tool_of(nothing), ToolChoice("named", "nothing")),
    ],
    ids=["left out", "auto", "none", "required", "named", "function", "tool"],
)
def test_a_choice_is_read(value: Any, choice: ToolChoice) -> None:
    assert tool_choice_of(value, TOOLS) == choice


@pytest.mark.parametrize("tools", [None, ()])
def test_without_tools_there_is_nothing_to_call(tools: Any) -> None:
    assert tool_choice_of(None, tools) == ToolChoice("none")
    assert tool_choice_of("auto", tools) == ToolChoice("auto")
    for value, said in (("required", "no tools to call"), (NAMED, "'forecast', which is not")):
        with pytest.raises(InputError, match=said) as caught:
            tool_choice_of(value, tools)
        assert caught.value.code == "input.tool_choice"


@pytest.mark.parametrize(
    "wrong",
    [
        "any",
        "named",
        "forecast",
        7,
        True,
        [],
        {},
        {"type": "function"},
        {"type": "function", "function": {"name": 7}},
        {"type": "function", "function": {"name": "other"}},
        {"type": "allowed_tools", "allowed_tools": {}},
        print,
    ],
    ids=repr,
)
def test_what_is_no_choice_is_refused(wrong: Any) -> None:
    with pytest.raises(InputError, match="tool_choice") as caught:
        tool_choice_of(wrong, TOOLS)
    assert caught.value.code == "input.tool_choice"
    assert caught.value.remedy
