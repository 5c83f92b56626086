"""Rounds of questions to engines that take turns, and what the answers come to."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from statistics import median

from machine import wait_until_idle
from protocol import Answer, Driver

CLEAN = 0.9


@dataclass(frozen=True)
class Sample:
    """One thing measured: the question, and the tokens that its answer's seconds produced."""

    question: str
    tokens: int


@dataclass(frozen=True)
class Effort:
    """How often to measure: wanted clean rounds, most rounds, fresh processes, seconds to wait."""

    rounds: int
    most: int
    cold: int
    idle_wait: float


def interleave(
    drivers: Mapping[str, Driver],
    samples: Mapping[str, Sample],
    effort: Effort,
    clean: float = CLEAN,
    without: Collection[tuple[str, str]] = (),
    between: Callable[[], None] = lambda: None,
) -> dict[tuple[str, str], list[Answer]]:
    """Asks until every (engine, sample) has enough clean answers, or for the most rounds.

    Args:
        without: pairs of them that are not asked.
        between: called before each round.
    """
    got: dict[tuple[str, str], list[Answer]] = {
        (name, key): [] for name in drivers for key in samples if (name, key) not in without
    }
    for driver in drivers.values():
        driver.ask("prefill 32")
    for turn in range(effort.most):
        between()
        for key, sample in samples.items():
            asked = [name for name in drivers if (name, key) in got]
            enough = (
                sum(a["util"] >= clean for a in got[name, key]) >= effort.rounds for name in asked
            )
            if turn >= effort.rounds and all(enough):
                continue
            for name in in_turn(asked, turn):
                idle = wait_until_idle(effort.idle_wait)
                answer = drivers[name].ask(sample.question)
                got[name, key].append({**answer, "idle_before": idle})
                print(f"\r{turn + 1}: {name} {key}      ", end="", file=sys.stderr)
    print(file=sys.stderr)
    return got


def in_turn(names: Iterable[str], turn: int) -> list[str]:
    """Engines take turns in going first."""
    ordered = list(names)
    return ordered if turn % 2 == 0 else ordered[::-1]


def speeds(answers: Iterable[Answer], sample: Sample) -> list[float]:
    """Tokens a second of the clean answers, or of all where none is clean."""
    got = list(answers)
    best = [a for a in got if a["util"] >= CLEAN] or got
    return [sample.tokens / a["seconds"] for a in best]


def figures(answers: list[Answer], sample: Sample) -> dict[str, float]:
    rates = speeds(answers, sample)
    return {
        "tok_s": round(median(rates), 2),
        "best": round(max(rates), 2),
        "worst": round(min(rates), 2),
        "samples": len(rates),
        "asked": len(answers),
        "util": round(median(a["util"] for a in answers), 3),
        "idle_before": round(median(a["idle_before"] for a in answers), 3),
    }
