"""What ``bench/engine.py`` makes of the answers: medians, the figures to look at, and a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import median
from typing import NamedTuple

from engine_questions import BOTH, CLIENTS
from protocol import Answer

CLEAN = 0.9

Figures = Mapping[str, Mapping[str, float]]
"""Of one engine, by question and name."""


class Figure(NamedTuple):
    engine: str
    question: str
    name: str

    def among(self, figures: Mapping[str, Figures]) -> float | None:
        """Its value; None where the engine was not asked."""
        return figures.get(self.engine, {}).get(self.question, {}).get(self.name)


class Row(NamedTuple):
    """A figure of both engines, and where the ratio of the two is in `HEADLINE`, its name."""

    title: str
    question: str
    name: str
    digits: int
    ratio: str = ""


SPEEDS = {"": "decode_tok_s", "whole_": "whole_tok_s"}


def _both(question: str, name: str) -> tuple[Figure, Figure]:
    ours, peer = (Figure(engine, question, name) for engine in BOTH)
    return ours, peer


def _speeds() -> dict[str, tuple[Figure, ...]]:
    found: dict[str, tuple[Figure, ...]] = {}
    for whole, name in SPEEDS.items():
        one = Figure("ours", "clients_1", name)
        for n in CLIENTS[1:]:
            found[f"scaling_{whole}{n}"] = (Figure("ours", f"clients_{n}", name), one)
        for n in CLIENTS:
            found[f"vs_llama_{whole}{n}"] = _both(f"clients_{n}", name)
    return found


HEADLINE: dict[str, tuple[Figure, ...]] = {
    **_speeds(),
    "warm_over_cold": (Figure("ours", "prefix", "warm_over_cold"),),
    "llama_warm_over_cold": (Figure("peer", "prefix", "warm_over_cold"),),
    "vs_llama_cold": _both("prefix", "cold_s")[::-1],
    "vs_llama_warm": _both("prefix", "warm_s")[::-1],
    "short_behind_long": (Figure("ours", "short_behind_long", "short_over_alone"),),
    "short_behind_long_s": (Figure("ours", "short_behind_long", "short_s"),),
    "short_behind_long_steps": (Figure("ours", "short_behind_long", "short_steps"),),
    "long_beside_short": (Figure("ours", "short_behind_long", "long_over_alone"),),
    "llama_short_behind_long": (Figure("peer", "short_behind_long", "short_over_alone"),),
    "llama_long_beside_short": (Figure("peer", "short_behind_long", "long_over_alone"),),
    "vs_llama_short_behind_long": _both("short_behind_long", "short_s")[::-1],
    "itl_under_prefill": (Figure("ours", "long_prompt", "itl_under_prefill"),),
    "ttft_under_prefill": (Figure("ours", "long_prompt", "ttft_under_prefill"),),
    "evict_stall_ms": (Figure("ours", "evict", "evict_stall_ms"),),
    "host_us_per_token": (Figure("demo", "host_1", "host_us_per_token"),),
    "host_us_per_token_8": (Figure("demo", "host_8", "host_us_per_token"),),
    "kv_live": (Figure("ours", "mixed", "kv_live"),),
    "kv_preallocated": (Figure("ours", "mixed", "kv_preallocated"),),
}
"""The figures to look at first: one as it is, or the first of two over the second.

``scaling_n`` is tokens a second of n clients over those of one, ``vs_llama_n`` ours over the
peer's with n clients, both while all of them decode; with ``whole`` from the first request to the
last token. Seconds of the peer are over ours: more is better for us.
"""

ROWS = (
    *(
        Row(f"{n} clients, {name[:-6]} tok/s", f"clients_{n}", name, 1, f"vs_llama_{whole}{n}")
        for n in CLIENTS
        for whole, name in SPEEDS.items()
    ),
    *(Row(f"prefix, {n} s", "prefix", f"{n}_s", 3, f"vs_llama_{n}") for n in ("cold", "warm")),
    Row("short behind long, s", "short_behind_long", "short_s", 3, "vs_llama_short_behind_long"),
    Row("short behind long, most s", "short_behind_long", "short_longest_s", 3),
    Row("short alone, s", "short_behind_long", "short_alone_s", 3),
    Row("long beside short, s", "short_behind_long", "long_s", 3),
    Row("long alone, s", "short_behind_long", "long_alone_s", 3),
)


def clean(answers: Iterable[Answer]) -> list[Answer]:
    """Those that had the machine to themselves."""
    return [answer for answer in answers if answer["own"] >= CLEAN]


def summaries(answers: Mapping[str, list[Answer]]) -> dict[str, dict[str, float]]:
    return {key: summary(got) for key, got in answers.items()}


def summary(answers: list[Answer]) -> dict[str, float]:
    """Medians of the clean answers, or of all where none is clean; and how many there were."""
    best = clean(answers) or answers
    medians = {key: round(median(a[key] for a in best), 5) for key in best[0]}
    return {**medians, "samples": len(best), "asked": len(answers)}


def headline(figures: Mapping[str, Figures]) -> dict[str, float]:
    """Those of `HEADLINE` that were asked for, of the figures by engine."""
    found: dict[str, float] = {}
    for key, of in HEADLINE.items():
        values = [value for figure in of if (value := figure.among(figures)) is not None]
        if len(values) == len(of):
            found[key] = round(values[0] / values[1] if len(of) > 1 else values[0], 3)
    return found


def table(figures: Mapping[str, Figures]) -> str:
    """The result for people: engines side by side, then what stands for itself."""
    told = headline(figures)
    engines = [name for name in BOTH if name in figures]
    rows = [["", *engines, "ratio"]]
    for row in ROWS:
        values = [Figure(name, row.question, row.name).among(figures) for name in engines]
        if any(value is not None for value in values):
            cells = [_shown(value, row.digits) for value in values]
            rows.append([row.title, *cells, _shown(told.get(row.ratio))])
    rows += [[key, _shown(value)] for key, value in told.items()]
    return "\n".join(f"{row[0]:28}" + "".join(f"{cell:>10}" for cell in row[1:]) for row in rows)


def _shown(value: float | None, digits: int = 3) -> str:
    return "" if value is None else f"{value:.{digits}f}"
