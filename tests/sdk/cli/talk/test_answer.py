"""How an answer looks in a terminal and elsewhere, and what is said of one that was cut."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from edgewise import Engine
from edgewise.cli.talk.answer import AnswerView, cut

THOUGHT = "<think>\nwhat " + "is it " * 20 + "then?\n</think>\n\nIt is fine. " + "So they say. " * 9


def show(console: Console, text: str, before: str = "") -> None:
    view = AnswerView(console, before)
    for character in text:
        view.push(character)
    view.finish()


def test_in_a_terminal_words_wrap_and_a_thought_comes_first(
    console: Console, shown: io.StringIO
) -> None:
    show(console, THOUGHT)
    lines = shown.getvalue().splitlines()
    assert max(map(len, lines)) < 60
    assert min(map(len, [line for line in lines[:2] if line])) > 50
    blank = lines.index("")
    assert " ".join(lines[:blank]).split() == ["what", *["is", "it"] * 20, "then?"]
    assert " ".join(lines[blank:]).split() == f"It is fine. {'So they say. ' * 9}".split()


def test_a_thought_is_dim(shown: io.StringIO) -> None:
    console = Console(file=shown, force_terminal=True, color_system="standard", width=60)
    show(console, "<think>hm</think>yes")
    assert shown.getvalue() == "\x1b[2;3mhm\x1b[0m\n\nyes\n"


def test_elsewhere_it_is_printed_letter_for_letter_without_the_thought(shown: io.StringIO) -> None:
    text = "It is fine. " * 40 + "\x1b[1m\t[bold]:smile:[/bold]"
    show(Console(file=shown, width=60), f"<think>hm</think>\n{text}")
    assert shown.getvalue() == f"{text}\n"


@pytest.mark.parametrize(
    ("before", "text", "said"),
    [
        ("<think>\n", "hm</think>yes", "yes\n"),
        ("<think>\nhm", "</think>yes", "yes\n"),
        ("<think>\nhm\n</think>\n\nye", "s", "s\n"),
        ("", "", ""),
    ],
)
def test_what_an_answer_has_begun_with_is_not_shown_again(
    shown: io.StringIO, before: str, text: str, said: str
) -> None:
    show(Console(file=shown), text, before)
    assert shown.getvalue() == said


@pytest.mark.parametrize(
    ("before", "text", "said"),
    [
        ("One.\nTwo thr", "ee and so on.", "Two three and so on.\n"),
        ("One.\n", "Two.", "Two.\n"),
        ("So they say. " * 6, "And on.", "say. So they say. And on.\n"),
        ("```\nx = 1", " + 1\n" + "y" * 90, f"x = 1 + 1\n{'y' * 90}\n"),
        ("<think>\nhm\n</think>\n\nye", "s", "yes\n"),
        ("<think>\nfirst\nsec", "ond</think>yes", "second\n\nyes\n"),
    ],
)
def test_in_a_terminal_the_line_that_goes_on_is_shown_again(
    console: Console, shown: io.StringIO, before: str, text: str, said: str
) -> None:
    show(console, text, before)
    assert shown.getvalue() == said


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"finish_reason": "stop"}, None),
        ({"finish_reason": "cancelled"}, ("stopped", "stopped")),
        ({"finish_reason": "length"}, ("limit", "cut after 3 tokens")),
        (
            {"finish_reason": "length", "context_full": True},
            ("full", "cut: the context of 4,096 tokens is full"),
        ),
        (
            {"finish_reason": "cancelled", "token_ids": ()},
            ("nothing", "stopped before anything came"),
        ),
    ],
)
def test_why_an_answer_was_cut(
    engine: Engine, changes: dict[str, Any], expected: tuple[str, str] | None
) -> None:
    completion = engine.generate("Hello", max_tokens=3, ignore_eos=True)
    assert cut(replace(completion, **changes), 4096) == expected
