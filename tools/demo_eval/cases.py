"""Cases of the evaluation, and how answers to them are judged."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
_WORD = re.compile(r"[a-z0-9']+")


@dataclass(frozen=True)
class Step:
    """One message of the user, and what its answer must have.

    Every group of `accept` has to be matched by one of its phrases: whole words, or the beginning
    of a word where the phrase ends in `*`.
    """

    user: str
    accept: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True)
class Case:
    """One conversation; it is right when each of its answers is."""

    topic: str
    steps: tuple[Step, ...]
    system: str | None = None
    least_words: int = 0


def load(name: str) -> tuple[Case, ...]:
    """Return the cases of `name`.jsonl, in order."""
    text = (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8")
    return tuple(_case(json.loads(line)) for line in text.splitlines())


def _case(data: dict[str, Any]) -> Case:
    turns = data.get("turns") or [{"user": data["ask"], "accept": data["accept"]}]
    steps = tuple(
        Step(turn["user"], tuple(tuple(group) for group in turn.get("accept", ())))
        for turn in turns
    )
    return Case(data["topic"], steps, data.get("system"), data.get("least_words", 0))


def is_right(case: Case, answers: list[str]) -> bool:
    """Return whether `answers`, one for each step, are all accepted."""
    long_enough = len(_words(answers[0])) >= case.least_words
    return long_enough and all(
        _has(answer, group)
        for step, answer in zip(case.steps, answers, strict=True)
        for group in step.accept
    )


def _has(answer: str, group: tuple[str, ...]) -> bool:
    return any(re.search(_pattern(phrase), answer.lower()) for phrase in group)


def _pattern(phrase: str) -> str:
    end = "" if phrase.endswith("*") else r"(?!\w)"
    return rf"(?<!\w){re.escape(phrase.rstrip('*'))}{end}"


def repeated_share(answer: str) -> float:
    """Return the share of an answer's runs of four words that stood in it before."""
    runs = _runs(answer)
    return 1 - len(set(runs)) / len(runs) if runs else 0.0


def looping(answer: str) -> bool:
    """Return whether some run of four words comes three times."""
    return max(Counter(_runs(answer)).values(), default=0) >= 3


def _runs(text: str) -> list[tuple[str, ...]]:
    words = _words(text)
    return [tuple(words[start : start + 4]) for start in range(len(words) - 3)]


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())
