"""What a chat template does about thoughts is found out by asking it; answers are parted."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from edgewise_runtime.errors import InputError
from edgewise_runtime.text import ChatTemplate
from edgewise_runtime.text.template import Message
from edgewise_runtime.text.thinking import Thinking, ThoughtStream, parted, thinking_of

CASES = json.loads((Path(__file__).parents[2] / "text/templates.json").read_text("utf-8"))


def of(source: str) -> Thinking:
    template = ChatTemplate(source, CASES["special_tokens"])
    return thinking_of(lambda messages, variables: template.render(messages, **variables))


@pytest.mark.parametrize(
    ("name", "switchable", "by_default", "opened", "forgets"),
    [
        ("chatml", False, True, (False, False), False),
        ("dated", False, True, (False, False), False),
        ("thinking", True, True, (False, False), True),
        ("opening", True, True, (True, False), True),
        ("always", False, True, (True, True), True),
        ("asked", True, False, (True, False), False),
    ],
)
def test_a_template_is_told_by_what_it_writes_as_in_a_tab(
    name: str, switchable: bool, by_default: bool, opened: tuple[bool, bool], forgets: bool
) -> None:
    found = of(CASES["templates"][name])
    assert found == Thinking(switchable, by_default, *opened, forgets)


def test_one_that_refuses_every_conversation_is_taken_for_one_that_knows_nothing() -> None:
    assert of("{{ raise_exception('no') }}") == Thinking(False, True, False, False, False)


def test_one_that_writes_the_time_is_not_taken_for_one_that_can_be_switched() -> None:
    times = iter(range(9))

    def render(messages: Sequence[Message], variables: Mapping[str, Any]) -> str:
        return f"{next(times)}"

    assert not thinking_of(render).switchable


def test_another_error_of_a_renderer_is_its_own() -> None:
    def render(messages: Sequence[Message], variables: Mapping[str, Any]) -> str:
        if variables:
            raise InputError("no variables")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        thinking_of(render)


@pytest.mark.parametrize(
    ("name", "wanted", "opened"),
    [
        ("chatml", None, False),
        ("opening", None, True),
        ("opening", True, True),
        ("opening", False, False),
        ("always", False, True),  # it has no choice
        ("asked", None, False),
        ("asked", True, True),
    ],
)
def test_whether_an_answer_begins_in_a_thought(
    name: str, wanted: bool | None, opened: bool
) -> None:
    assert of(CASES["templates"][name]).opened(wanted) is opened


PARTED = [
    ("plain", "", "plain"),
    ("<think>\nhm\n</think>\n\nyes", "hm", "yes"),
    (" \n<think>hm</think>yes", "hm", "yes"),
    ("<think>still", "still", ""),
    ("hm\n</think>\nyes", "hm", "yes"),  # the prompt had opened it
    ("a </think> in a line", "", "a </think> in a line"),
    ("say <think>no</think> more", "", "say <think>no</think> more"),
    ("", "", ""),
]


@pytest.mark.parametrize(("text", "thought", "said"), PARTED)
def test_an_answer_is_parted_into_what_was_thought_and_said(
    text: str, thought: str, said: str
) -> None:
    assert parted(text) == (thought, said)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
@pytest.mark.parametrize(
    ("text", "thought", "said"),
    [
        *(case for case in PARTED if not case[0].startswith("hm")),
        ("<thin ice", "", "<thin ice"),
        ("  indented", "", "  indented"),
        ("<think>a < b </thin> c</think>d</think>", "a < b </thin> c", "d</think>"),
        ("<think>ends </thi", "ends </thi", ""),
        ("<", "", "<"),
    ],
)
def test_a_stream_is_parted_alike_however_it_is_cut(
    text: str, thought: str, said: str, size: int
) -> None:
    stream = ThoughtStream()
    found = [part for i in range(0, len(text), size) for part in stream.push(text[i : i + size])]
    found += stream.finish()
    assert "".join(part for is_thought, part in found if is_thought).strip() == thought
    assert "".join(part for is_thought, part in found if not is_thought) == said


def test_what_may_become_a_mark_is_held_back_and_nothing_else() -> None:
    stream = ThoughtStream()
    assert stream.push("<thi") == []
    assert stream.push("nk>\nhm </th") == [(True, "hm ")]
    assert stream.push("i") == []
    assert stream.push("m") == [(True, "</thim")]
    assert stream.push("</think>\n\n") == []
    assert stream.push("\nyes </think>") == [(False, "yes </think>")]
    assert stream.finish() == []
