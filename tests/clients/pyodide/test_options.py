"""Options by Python's names become TypeScript's, or are refused by name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from edgewise.async_engine import AsyncEngine
from edgewise.options import OPTIONS
from edgewise_client import EdgewiseError, InputError, TabEngine, UnsupportedError
from edgewise_client.engine import ABSENT
from edgewise_client.javascript import json_of, to_js
from edgewise_client.options import CHAT_NAMES, JS_NAMES, REFUSED, js_options

WEB = Path(__file__).parents[3] / "web"


def test_every_option_of_the_sdk_is_either_taken_or_refused_with_a_remedy() -> None:
    taken = (JS_NAMES | CHAT_NAMES).keys() - {"tools", "variables"}
    assert taken | REFUSED.keys() == OPTIONS.keys()
    assert not taken & REFUSED.keys()


def test_names_are_those_of_the_engine_in_typescript() -> None:
    text = (WEB / "client/types.ts").read_text("utf-8")
    declared = set(re.findall(r"readonly (\w+)\??:", text))
    assert set((JS_NAMES | CHAT_NAMES).values()) <= declared


def test_every_method_of_the_sdk_is_either_there_or_refused_with_a_remedy() -> None:
    methods = {name for name in vars(AsyncEngine) if not name.startswith("_")}
    assert {name for name in methods if not hasattr(TabEngine, name)} == ABSENT.keys()


def test_what_is_none_is_left_to_the_model() -> None:
    given = {"max_tokens": 3, "stop": None, "begun": [1]}
    assert js_options(given, chat=True) == {"maxTokens": 3, "begun": [1]}


@pytest.mark.parametrize(
    ("name", "kind", "code"),
    [
        ("n", UnsupportedError, "unsupported.tab"),
        ("timeout_s", UnsupportedError, "unsupported.tab"),
        ("begun", InputError, "input.option"),
        ("maxTokens", InputError, "input.sampling"),
    ],
)
def test_an_option_that_there_is_not_is_refused_by_name(
    name: str, kind: type[EdgewiseError], code: str
) -> None:
    with pytest.raises(kind, match=name) as caught:
        js_options({name: 5}, chat=False)
    assert caught.value.code == code
    assert caught.value.remedy


def test_an_absent_method_says_what_to_do_and_hasattr_is_false() -> None:
    engine = TabEngine(object())
    assert not hasattr(engine, "embed")
    with pytest.raises(UnsupportedError, match="embed") as caught:
        engine.embed("a text")
    assert caught.value.code == "unsupported.tab"
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        engine.nothing_of_the_kind()


@pytest.mark.parametrize("value", [len, float("nan"), {1: {2}}])
def test_what_is_not_plain_data_is_refused(value: object) -> None:
    with pytest.raises(InputError, match="tools is") as caught:
        json_of("tools", value)
    assert caught.value.code == "input.value"


def test_outside_of_javascript_it_says_so() -> None:
    with pytest.raises(UnsupportedError, match="does not run in JavaScript") as caught:
        to_js("prompt", "Hello")
    assert caught.value.code == "unsupported.python"
