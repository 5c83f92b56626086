"""What was measured, as a table and as drawings."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from serving.plot import OURS, lines_svg

PEER = "llama.cpp"
DRAWN = {
    "output_tok_s": "output tokens/s",
    "ttft_p50_s": "median TTFT, s",
    "ttft_p95_s": "p95 TTFT, s",
    "itl_p50_s": "median ITL, s",
    "goodput": "share of requests within the SLO",
}
"""Figures that are drawn, and what their axis says."""


@dataclass(frozen=True)
class Column:
    """A figure in the table: what it is called, its width, digits, and what it is counted in."""

    figure: str
    title: str
    width: int
    digits: int
    unit: float = 1.0

    def of(self, figures: Mapping[str, float]) -> str:
        """The figure of a load."""
        return f"{figures[self.figure] / self.unit:{self.width}.{self.digits}f}"


COLUMNS = (
    Column("output_tok_s", "tok/s", 7, 1),
    *(Column(f"ttft_{q}_s", f"TTFT {q}", 8, 3) for q in ("p50", "p95", "p99")),
    *(Column(f"itl_{q}_s", f"ITL {q}", 7, 1, 1e-3) for q in ("p50", "p95", "p99")),
    Column("gap_p99_s", "gap p99", 7, 0, 1e-3),
    Column("goodput", "goodput", 7, 2),
    Column("goodput_req_s", "/s", 6, 2),
    Column("prefix_hit", "known", 5, 2),
    Column("failed", "failed", 6, 0),
    Column("client_cores", "client", 6, 2),
    Column("own", "own", 4, 2),
)
Loads = Mapping[str, Mapping[str, Any]]


def table(loads: Loads) -> str:
    """A line for each load and server: TTFT in seconds, ITL and gaps in milliseconds."""
    titles = " ".join(f"{one.title:>{one.width}}" for one in COLUMNS)
    lines = [f"{'load':19} {'server':9} {titles}"]
    for load, of in loads.items():
        for name in (one for one in (OURS, PEER) if one in of):
            lines.append(f"{load:19} {name:9} {' '.join(one.of(of[name]) for one in COLUMNS)}")
        if ratios := of.get("ratios"):
            told = ", ".join(f"{key} {value:.2f}" for key, value in ratios.items())
            lines.append(f"{load:19} {'ratio':9} {told}")
    return "\n".join(lines)


def plots(loads: Loads) -> Iterator[tuple[str, str]]:
    """Names and drawings: each figure of a shape and a loop over its streams or rates."""
    for shape, loop in dict.fromkeys(tuple(load.split(" ")[:2]) for load in loads):
        across = "streams" if loop == "closed" else "sessions/s"
        of_kind = {
            float(load.rpartition(" ")[2]): of
            for load, of in loads.items()
            if load.startswith(f"{shape} {loop} ")
        }
        for figure, up in DRAWN.items():
            lines = {name: _line(of_kind, name, figure) for name in (OURS, PEER)}
            there = {name: line for name, line in lines.items() if line}
            title = f"{shape}, {loop} loop: {up}"
            yield f"{shape}-{loop}-{figure}.svg", lines_svg(title, across, up, there)


def _line(
    loads: Mapping[float, Mapping[str, Any]], name: str, figure: str
) -> Sequence[tuple[float, float]]:
    return [(value, of[name][figure]) for value, of in loads.items() if name in of]


def as_json(value: Any) -> Any:
    """The same with null for times without end, which JSON has no number for."""
    if isinstance(value, Mapping):
        return {key: as_json(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
