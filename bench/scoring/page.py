"""What docs/quality.md tells of docs/quality.json: tables between marks, and drawings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from scoring.models import MODELS
from scoring.plot import Dot, quality_svg

Figures = Mapping[str, Any]

MIB = 1 << 20
END = "<!-- end -->"
MOST_BITS = 12
"""What takes more a weight is in the table alone: a drawing with it has no room for the others."""


def filled(text: str, data: Mapping[str, Mapping[str, Figures]]) -> str:
    """A page with the figures of ``{model: {point: figures}}`` between its marks.

    A model's stand between ``<!-- figures of MODEL -->`` and ``<!-- end -->``. Raises ValueError
    where a model has no such place.
    """
    for key, points in data.items():
        begin = f"<!-- figures of {key} -->\n"
        before, mark, rest = text.partition(begin)
        _, end, after = rest.partition(END)
        if not (mark and end):
            raise ValueError(f"the page has no place for the figures of {key}")
        text = before + mark + "\n".join(_figures(key, points)) + "\n" + end + after
    return text


def drawing(key: str, points: Mapping[str, Figures]) -> str:
    """The drawing of one model's points."""
    dots = [
        Dot(name, found["weight_bytes"] / MIB, found["kl"]["mean"], found["ours"])
        for name, found in by_size(points)
        if found["bits_per_weight"] <= MOST_BITS
    ]
    return quality_svg(f"{MODELS[key].title}: KL by size", dots)


def by_size(points: Mapping[str, Figures]) -> list[tuple[str, Figures]]:
    """Points from the smallest to the largest."""
    return sorted(points.items(), key=lambda item: (item[1]["weight_bytes"], item[0]))


def reference(points: Mapping[str, Figures]) -> Figures:
    """What all points were compared with; ValueError where that is not the same for all."""
    found = [dict(figures["reference"]) for figures in points.values()]
    for other in found:
        same = [other[key] == found[0][key] for key in ("context", "windows", "scored_tokens")]
        close = abs(other["perplexity"] / found[0]["perplexity"] - 1) < 1e-4
        if not (all(same) and close):
            raise ValueError(f"points were compared with {found[0]} and with {other}")
    return found[0]


def _figures(key: str, points: Mapping[str, Figures]) -> Iterator[str]:
    exact = reference(points)
    dates = sorted({found["date"] for found in points.values()})
    yield f"\n![KL by size](quality-{key}.svg)\n"
    yield (
        f"{exact['windows']} windows, {exact['scored_tokens']:,} tokens scored; measured "
        f"{' to '.join(dict.fromkeys((dates[0], dates[-1])))}.\n"
    )
    yield "| | MiB | bits | on disk | perplexity | KL mean | median | 99.9% | same top-1 |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for name, found in by_size(points):
        kl = found["kl"]
        yield (
            f"| {_title(name, found)} | {found['weight_bytes'] / MIB:.1f} "
            f"| {found['bits_per_weight']:.2f} | {found['stored_bytes'] / MIB:.1f} "
            f"| {found['perplexity']:.3f} | {_nats(kl['mean'])} | {_nats(kl['median'])} "
            f"| {_nats(kl['p999'])} | {found['same_top1']:.1%} |"
        )
    yield (
        f"| `f32`, the reference | {exact['weight_bytes'] / MIB:.1f} | 32.00 "
        f"| {exact['stored_bytes'] / MIB:.1f} | {exact['perplexity']:.3f} | | | | |\n"
    )


def _title(name: str, found: Figures) -> str:
    return f"**`{name}`**" if found["ours"] else f"llama.cpp {name}"


def _nats(value: float) -> str:
    return f"{value:.3f}" if value >= 0.1 else f"{value:.2g}" if value >= 1e-4 else f"{value:.0e}"
