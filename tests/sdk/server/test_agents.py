"""Lines that agents change are replaced in system prompts, and nothing else is."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.server.agents import AGENT_CONTEXT, CHANGING, steady, too_small_for_agents

HEADER = "x-anthropic-billing-header: cc_version=2.1.101.e51; cc_entrypoint=cli; cch={};"
REST = "You are an agent. version=1; is kept."


def system(content: Any, role: str = "system") -> list[dict[str, Any]]:
    return [{"role": role, "content": content}, {"role": "user", "content": "Hello"}]


def twice(text: str) -> tuple[Any, Any]:
    """What two requests become that differ in what changes."""
    return tuple(steady(system(text.format(cch)))[0] for cch in ("a5145", "0fae1"))  # type: ignore[return-value]


@pytest.mark.parametrize(
    "text",
    [
        HEADER,
        f"{HEADER}\n{REST}",
        f"{HEADER}{REST}",
        f"{REST}\n{HEADER}\n{REST}",
        "x-anthropic-billing-header: cc_version=2.1.29; cch={}",
        "x-anthropic-billing-header:cch={};new_field=1;\nrest",
        f"{HEADER}\r\n{REST}",
    ],
)
def test_prompts_that_differ_in_a_known_line_become_the_same(text: str) -> None:
    first, second = twice(text)
    assert first == second
    assert first[0]["content"].count(REST) == text.count(REST)
    assert steady(first)[0] == first


def test_the_agent_is_named_and_the_messages_of_the_caller_stay() -> None:
    messages = system(f"{HEADER}\n{REST}")
    before = [dict(message) for message in messages]
    steadied, changed = steady(messages)
    assert changed == ("claude-code",)
    assert messages == before
    assert steadied[0]["content"] == f"x-anthropic-billing-header: -;\n{REST}"
    assert steadied[1] is messages[1]


@pytest.mark.parametrize("role", ["system", "developer"])
def test_parts_of_text_are_looked_at_too(role: str) -> None:
    parts = [{"type": "text", "text": HEADER}, {"type": "text", "text": REST}, 7]
    steadied, changed = steady(system(parts, role))
    assert changed == ("claude-code",)
    assert steadied[0]["content"] == [
        {"type": "text", "text": "x-anthropic-billing-header: -;"},
        *parts[1:],
    ]


@pytest.mark.parametrize(
    "messages",
    [
        system(HEADER, "user"),
        system(HEADER, "assistant"),
        system(f"It begins with {HEADER}"),
        system("x-anthropic-billing-header: none of what is known"),
        system(f"x-anthropic-billing-header: cch={'a' * 500};"),
        system("Today is Monday. Current date and time: 2026-03-09 06:00:31. session_id=12;"),
        system(None),
        system(12),
        [None, 3, "text", {"role": "system"}],
        [],
    ],
)
def test_whatever_else_there_is_stays_the_very_same(messages: Any) -> None:
    steadied, changed = steady(messages)
    assert steadied is messages
    assert changed == ()


@given(st.text(alphabet='x-anthropic-billing-header: c=;\n\t"1A', max_size=300), st.text())
def test_only_the_line_itself_is_replaced(before: str, after: str) -> None:
    text = f"{before}\n{HEADER.format('1')}\n{after}"
    steadied, _ = steady(system(text))
    content = steadied[0]["content"]
    assert content.endswith(
        f"\nx-anthropic-billing-header: -;\n{steady(system(after))[0][0]['content']}"
    )


@given(st.integers(1, 40))
def test_long_hostile_texts_take_no_time(length: int) -> None:
    text = "x-anthropic-billing-header:" + "a=;" * length * 1000 + "\n" * length * 1000
    steady(system(text))


def test_every_pattern_is_anchored_and_stays_what_it_became() -> None:
    for known in CHANGING:
        assert known.pattern.pattern.startswith("^")
        assert steady(system(known.instead))[0][0]["content"] == known.instead


def test_a_small_context_is_said_with_what_agents_need() -> None:
    assert too_small_for_agents(AGENT_CONTEXT) is None
    said = too_small_for_agents(2048)
    assert said is not None
    assert "2,048" in said
    assert "32,768" in said
