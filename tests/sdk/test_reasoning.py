"""The option reasoning, and what a template is asked for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from edgewise.reasoning import MAX_BUDGET, Reasoning, reasoning_of, variables_of
from edgewise_runtime.errors import InputError, UnsupportedError
from edgewise_runtime.text import ChatTemplate

ON, OFF = Reasoning(enabled=True), Reasoning(enabled=False)


@pytest.mark.parametrize(
    ("value", "reasoning"),
    [
        (None, Reasoning()),
        (True, ON),
        ("on", ON),
        (False, OFF),
        ("off", OFF),
        ("none", OFF),
        ("high", Reasoning(effort="high")),
        (0, Reasoning(budget=0)),
        (512, Reasoning(budget=512)),
        ({}, Reasoning()),
        ({"enabled": True, "budget": MAX_BUDGET}, Reasoning(enabled=True, budget=MAX_BUDGET)),
        ({"effort": "low", "budget": None}, Reasoning(effort="low")),
        (OFF, OFF),
    ],
    ids=repr,
)
def test_reasoning_is_read(value: Any, reasoning: Reasoning) -> None:
    assert reasoning_of(value) == reasoning


@pytest.mark.parametrize(
    "wrong",
    [
        "yes",
        "",
        -1,
        MAX_BUDGET + 1,
        1.5,
        [],
        {"enabled": 1},
        {"effort": "huge"},
        {"effort": ["low"]},
        {"budget": True},
        {"budget": "9"},
        {"tokens": 9},
        {"enabled": False, "budget": 9},
        {"enabled": False, "effort": "low"},
    ],
    ids=repr,
)
def test_what_cannot_be_asked_is_refused(wrong: Any) -> None:
    with pytest.raises(InputError, match="reasoning") as caught:
        reasoning_of(wrong)
    assert caught.value.code == "input.reasoning"


SWITCHED = "{{ messages[0].content }}{% if enable_thinking is false %}<think></think>{% endif %}"
DEFAULTS = "{% if thinking %}<think>{% else %}</think>{% endif %}"
WITH_EFFORT = "Reasoning: {{ reasoning_effort | default('medium') }}"
PLAIN = "{{ messages[0].content }}"


def variables(source: str, **asked: Any) -> dict[str, Any]:
    template = ChatTemplate(source)

    def render(messages: Sequence[Mapping[str, Any]], given: Mapping[str, Any]) -> str:
        return template.render(messages, **given)

    return variables_of(Reasoning(**asked), render)


@pytest.mark.parametrize("source", [SWITCHED, DEFAULTS])
@pytest.mark.parametrize("on", [True, False])
def test_a_switch_has_one_of_two_names(source: str, on: bool) -> None:
    assert variables(source, enabled=on) == {"enable_thinking": on, "thinking": on}


def test_an_effort_has_a_name_of_its_own() -> None:
    assert variables(WITH_EFFORT, effort="medium") == {"reasoning_effort": "medium"}


def test_a_template_is_asked_nothing_where_nobody_asks() -> None:
    assert variables("{{ raise_exception('No.') }}", budget=9) == {}


@pytest.mark.parametrize(
    ("source", "asked", "said"),
    [
        (PLAIN, {"enabled": False}, "no switch for thoughts, and reasoning.enabled is False"),
        (WITH_EFFORT, {"enabled": True}, "no switch for thoughts"),
        (SWITCHED, {"effort": "high"}, "no effort of thoughts, and reasoning.effort is 'high'"),
        ("{{ raise_exception('No.') }}", {"enabled": True}, "no switch"),
    ],
)
def test_what_a_template_does_not_know_is_refused_by_name(
    source: str, asked: dict[str, Any], said: str
) -> None:
    with pytest.raises(UnsupportedError, match=said) as caught:
        variables(source, **asked)
    assert caught.value.code == "unsupported.reasoning"
