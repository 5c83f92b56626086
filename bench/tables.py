"""What ``bench/cpu.py`` found, for people."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

MIB = 1 << 20
BUSY = ("busy_thread", "busy_thread_oversubscribed")

Figures = Mapping[str, Any]
Row = tuple[str, Callable[[Figures], str]]


def _find(found: Any, *path: str) -> Any:
    """What lies in nested dictionaries, None where there is no such thing."""
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def _row(label: str, form: str, *path: str, unit: float = 1.0) -> Row:
    """A figure of every engine; empty where it has none."""

    def shown(engine: Figures) -> str:
        found = _find(engine, *path)
        return "" if found is None else format(found / unit, form)

    return label, shown


def _rows(samples: Collection[str]) -> Iterator[Row]:
    yield _row("KL on SmolLM2", ".4f", "quality", "kl", "mean")
    yield _row("same top-1 there", ".1%", "quality", "same_top1")
    yield _row("weights there MiB", ".1f", "quality", "weight_bytes", unit=MIB)
    for key in samples:
        yield _row(f"{key} tok/s", ".1f", key, "tok_s")
    for key in samples:
        yield _row(f"{key} of median read", ".1%", key, "of_median")
        yield _row(f"{key} of best read", ".1%", key, "of_best")
    yield _row("memory MiB", ".0f", "peak_mib")
    for key in ("load", "ready", "first_token"):
        yield _row(f"{key} s", ".2f", key)


def table(result: Figures, samples: Collection[str]) -> str:
    """Engines side by side, then each of ours over each peer, then what stands for itself.

    What no engine has is left out.
    """
    return "\n".join([*_engines(result, samples), "", *_ratios(result), *_others(result)])


def _engines(result: Figures, samples: Collection[str]) -> Iterator[str]:
    engines = result["engines"]
    yield _line("", engines)
    for label, shown in _rows(samples):
        cells = [shown(engine) for engine in engines.values()]
        if any(cells):
            yield _line(label, cells)


def _ratios(result: Figures) -> Iterator[str]:
    """A line a pair of engines would be too wide; a column for each, under ours and then theirs."""
    pairs = [(mine, other) for mine, others in result["ratios"].items() for other in others]
    if pairs:
        yield _line("better by", [mine for mine, _ in pairs])
        yield _line("than", [other for _, other in pairs])
        keys = dict.fromkeys(key for a, b in pairs for key in result["ratios"][a][b])
        for key in keys:
            found = [result["ratios"][mine][other].get(key) for mine, other in pairs]
            yield _line(key, ["" if value is None else f"{value:.2f}" for value in found])
        yield ""


def _others(result: Figures) -> Iterator[str]:
    for pace, rate in result["read_gb_s"].items():
        yield _line(f"{pace} reading GB/s", [f"{rate:.1f}"])
    for key in BUSY:
        yield _line(key, [f"{result[key]:.2f}"])


def _line(label: str, cells: Iterable[str]) -> str:
    return f"{label:28}" + "".join(f"{cell:>16}" for cell in cells)
