"""The evaluation of the demo model, and that its training text does not give it away."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tools.demo_corpus import generate
from tools.demo_eval import Case, Step, is_right, load, looping, repeated_share

QUESTIONS = load("edgewise")
DIALOGUES = load("dialogues")
RUN = 6


def _runs(text: str) -> Iterator[tuple[str, ...]]:
    words = re.findall(r"[a-z0-9']+", text.lower())
    return zip(*(words[start:] for start in range(RUN)), strict=False)


def _case(*groups: tuple[str, ...], least_words: int = 0) -> Case:
    return Case("test", (Step("?", groups),), least_words=least_words)


def test_there_are_60_questions_and_40_dialogues() -> None:
    assert len(QUESTIONS) == 60
    assert len(DIALOGUES) == 40
    assert all(any(step.accept for step in case.steps) for case in (*QUESTIONS, *DIALOGUES))


def test_nothing_is_asked_twice() -> None:
    asked = [tuple(step.user for step in case.steps) for case in (*QUESTIONS, *DIALOGUES)]
    assert len(set(asked)) == 100


@pytest.mark.parametrize(("first", "count"), [(0, 3000), (1_000_000, 3000)])
def test_no_six_words_in_a_row_of_the_evaluation_are_in_the_training_text(
    first: int, count: int
) -> None:
    said = [step.user for case in (*QUESTIONS, *DIALOGUES) for step in case.steps]
    said += [case.system for case in DIALOGUES if case.system]
    guarded = {run for text in said for run in _runs(text)}
    assert len(guarded) > 100
    # Seed 8 is the one that `train_demo` takes its text from.
    for index in range(first, first + count):
        for turn in generate(8, index).turns:
            assert guarded.isdisjoint(_runs(turn.text)), turn.text


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ("It is 15.", True),
        ("It is 150.", False),
        ("Fifteen!", True),
        ("Four-fifteen", True),
        ("", False),
    ],
)
def test_whole_words_are_looked_for(answer: str, right: bool) -> None:
    assert is_right(_case(("15", "fifteen")), [answer]) is right


def test_a_star_stands_for_any_ending() -> None:
    assert is_right(_case(("compil*",)), ["A compiler."])
    assert not is_right(_case(("compil",)), ["A compiler."])


def test_every_group_has_to_be_matched() -> None:
    case = _case(("cpu",), ("webgpu", "browser"))
    assert is_right(case, ["On a CPU, or in a browser."])
    assert not is_right(case, ["On a CPU."])


def test_a_story_may_not_be_too_short() -> None:
    assert not is_right(_case(("owl",), least_words=5), ["An owl."])
    assert is_right(_case(("owl",), least_words=5), ["There once was an owl."])


def test_loops_are_noticed() -> None:
    assert looping("I am a fox. " * 4)
    assert repeated_share("I am a fox. " * 4) > 0.5
    assert not looping("I am a fox, and you are a bear.")
    assert repeated_share("I am a fox, and you are a bear.") == 0
    assert repeated_share("Hi!") == 0
