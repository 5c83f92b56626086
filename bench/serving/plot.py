"""Lines of figures over a load, in SVG: ours solid with discs, others dashed with diamonds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape

WIDTH, HEIGHT = 640, 360
LEFT, RIGHT, TOP, BOTTOM = 64, 24, 44, 48
TICKS = 5
MARK = 4.0  # half a mark's width, pixels
OURS = "edgewise"

STYLE = (
    "text{font:12px sans-serif;fill:#57606a}.title{font-weight:bold}"
    ".grid{stroke:#8c959f;stroke-opacity:.3}.line{fill:none;stroke-width:2}"
    ".ours{fill:#0969da;stroke:#0969da}.theirs{fill:#bc4c00;stroke:#bc4c00;stroke-dasharray:5 3}"
    ".line.ours,.line.theirs{fill:none}text.ours,text.theirs{stroke:none}"
    "@media(prefers-color-scheme:dark){text{fill:#9198a1}.ours{fill:#4493f8;stroke:#4493f8}"
    ".theirs{fill:#f0883e;stroke:#f0883e}.line.ours,.line.theirs{fill:none}}"
)

Line = Sequence[tuple[float, float]]


def lines_svg(title: str, across: str, up: str, lines: Mapping[str, Line]) -> str:
    """A drawing of lines by name, from zero up; points that are not finite are left out.

    ``across`` and ``up`` say what the axes are. Values across stand at even distances.
    """
    points = {name: [p for p in line if math.isfinite(p[1])] for name, line in lines.items()}
    places = sorted({x for line in points.values() for x, _ in line})
    step, most = _scale(max((y for line in points.values() for _, y in line), default=0.0))

    def x_of(value: float) -> float:
        inner = WIDTH - LEFT - RIGHT
        return LEFT + inner * (places.index(value) + 0.5) / len(places)

    def y_of(value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / most

    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(title)}">',
        f"<style>{STYLE}</style>",
        f'<text class="title" x="{LEFT}" y="20">{escape(title)}</text>',
    ]
    for value in (step * i for i in range(round(most / step) + 1)):
        y = y_of(value)
        drawn.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
        drawn.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>')
    for value in places:
        x, y = x_of(value), HEIGHT - BOTTOM + 18
        drawn.append(f'<text x="{x:.1f}" y="{y}" text-anchor="middle">{value:g}</text>')
    drawn += [
        f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 8}" text-anchor="end">{escape(across)}</text>',
        f'<text x="{LEFT}" y="{HEIGHT - 8}">{escape(up)}, upwards</text>',
    ]
    for number, (name, line) in enumerate(points.items()):
        at = [(x_of(x), y_of(y), x, y) for x, y in sorted(line)]
        drawn += _line(name, at, WIDTH - RIGHT - 110 * (len(points) - number))
    return "\n".join([*drawn, "</svg>"]) + "\n"


def _line(
    name: str, at: Sequence[tuple[float, float, float, float]], legend: float
) -> Iterator[str]:
    kind = "ours" if name == OURS else "theirs"
    if len(at) > 1:
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y, _, _ in at)
        yield f'<path class="line {kind}" d="M{path}"/>'
    for x, y, across, up in at:
        told = escape(f"{name}: {up:.4g} at {across:g}")
        yield f'<g class="{kind}"><title>{told}</title>{_mark(kind, x, y)}</g>'
    yield f'<g class="{kind}">{_mark(kind, legend, 32)}'
    yield f'<text class="{kind}" x="{legend + 10:.1f}" y="36">{escape(name)}</text></g>'


def _mark(kind: str, x: float, y: float) -> str:
    if kind == "ours":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{MARK}"/>'
    return f'<path d="M{x:.1f} {y - MARK:.1f}l{MARK} {MARK}l-{MARK} {MARK}l-{MARK} -{MARK}z"/>'


def _scale(most: float) -> tuple[float, float]:
    """A round step, and a multiple of it that holds all values."""
    if most <= 0:
        return 1.0, 1.0
    rough = most / TICKS
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * by for by in (1, 2, 5, 10) if unit * by >= rough)
    return step, step * math.ceil(most / step)
