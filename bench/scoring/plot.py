"""A drawing of points by size and KL, in SVG: ours are discs, others diamonds, all with names."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import product

WIDTH, HEIGHT = 760, 460
LEFT, RIGHT, TOP, BOTTOM = 64, 24, 40, 48
FONT, LETTER = 12, 6.8  # pixels: the size of letters, and how wide one is at most on average
MARK = 5.0  # half a mark's width, pixels

STYLE = (
    "text{font:12px sans-serif;fill:#57606a}.title{font-weight:bold}"
    ".grid{stroke:#8c959f;stroke-opacity:.3}.ours{fill:#0969da}.theirs{fill:#bc4c00}"
    "text.ours,text.theirs{stroke:none}"
    "@media(prefers-color-scheme:dark){text{fill:#9198a1}.ours{fill:#4493f8}.theirs{fill:#f0883e}}"
)


@dataclass(frozen=True)
class Dot:
    """A point of the drawing: MiB and nats, both above zero."""

    name: str
    mib: float
    kl: float
    ours: bool


@dataclass(frozen=True)
class Box:
    """A rectangle in pixels."""

    left: float
    top: float
    right: float
    bottom: float

    def overlaps(self, other: Box) -> bool:
        """Whether both have an area in common."""
        beside = self.right <= other.left or other.right <= self.left
        return not (beside or self.bottom <= other.top or other.bottom <= self.top)


@dataclass(frozen=True)
class Axes:
    """From MiB, linear, and nats, logarithmic in whole decades, to pixels."""

    mib: tuple[float, float]
    decades: tuple[int, int]

    @staticmethod
    def around(dots: Sequence[Dot]) -> Axes:
        """Axes that hold all dots, with room for their names."""
        least, most = min(d.mib for d in dots), max(d.mib for d in dots)
        room = max((most - least) * 0.1, most * 0.02)
        low = math.floor(math.log10(min(d.kl for d in dots)))
        high = math.ceil(math.log10(max(d.kl for d in dots)))
        return Axes((least - room, most + room), (low, max(high, low + 1)))

    def x(self, mib: float) -> float:
        """Pixels from the left."""
        low, high = self.mib
        return LEFT + (WIDTH - LEFT - RIGHT) * (mib - low) / (high - low)

    def y(self, kl: float) -> float:
        """Pixels from the top."""
        low, high = self.decades
        return TOP + (HEIGHT - TOP - BOTTOM) * (high - math.log10(kl)) / (high - low)


def quality_svg(title: str, dots: Sequence[Dot]) -> str:
    """The drawing; its texts do not overlap each other or a mark."""
    axes = Axes.around(dots)
    places = labels(dots, axes)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(title)}">',
        f"<style>{STYLE}</style>",
        f'<text class="title" x="{LEFT}" y="20">{escape(title)}</text>',
        *_grid(axes),
    ]
    for dot, place in zip(dots, places, strict=True):
        kind = "ours" if dot.ours else "theirs"
        told = f"{dot.name}: {dot.mib:.1f} MiB, KL {dot.kl:.4g}"
        x, y = axes.x(dot.mib), axes.y(dot.kl)
        lines.append(f'<g class="{kind}"><title>{escape(told)}</title>{_mark(dot, x, y)}')
        lines.append(
            f'<text class="{kind}" x="{place.left:.1f}" y="{place.bottom - 3:.1f}" '
            f'textLength="{place.right - place.left:.1f}">{escape(dot.name)}</text></g>'
        )
    return "\n".join([*lines, *_legend(), "</svg>"]) + "\n"


def labels(dots: Sequence[Dot], axes: Axes) -> list[Box]:
    """Where each dot's name goes: as near as no other name, no mark and no edge of the drawing is.

    Names of the dots that come first have the first choice.
    """
    taken = [_around(axes.x(dot.mib), axes.y(dot.kl)) for dot in dots]
    inside = Box(LEFT, TOP, WIDTH - 4, HEIGHT - BOTTOM)
    found: list[Box] = []
    for dot in dots:
        x, y = axes.x(dot.mib), axes.y(dot.kl)
        width = LETTER * len(dot.name)
        fitting = (box for box in _candidates(x, y, width) if _within(box, inside))
        place = next((box for box in fitting if not any(map(box.overlaps, taken))), None)
        if place is None:
            raise ValueError(f"there is no room for the name {dot.name!r}")
        found.append(place)
        taken.append(place)
    return found


def _candidates(x: float, y: float, width: float) -> Iterator[Box]:
    """Boxes for a name around a mark, the nearest first; right and left before above and below."""
    height = FONT + 2
    for far, side in product(range(0, 90, 4), ("right", "left", "over", "under")):
        for way in (-1, 1):
            if side in ("right", "left"):
                left = x + MARK + 3 if side == "right" else x - MARK - 3 - width
                middle = y + way * far
            else:
                left = x - width / 2 + way * far
                middle = y + (MARK + 2 + height / 2) * (-1 if side == "over" else 1)
            yield Box(left, middle - height / 2, left + width, middle + height / 2)


def _within(box: Box, outer: Box) -> bool:
    beside = outer.left <= box.left and box.right <= outer.right
    return beside and outer.top <= box.top and box.bottom <= outer.bottom


def _around(x: float, y: float) -> Box:
    return Box(x - MARK, y - MARK, x + MARK, y + MARK)


def _mark(dot: Dot, x: float, y: float) -> str:
    if dot.ours:
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{MARK}"/>'
    side = MARK * 1.2
    return f'<path d="M{x:.1f} {y - side:.1f}l{side} {side}l-{side} {side}l-{side} -{side}z"/>'


def _grid(axes: Axes) -> Iterator[str]:
    low, high = axes.decades
    for decade in range(low, high + 1):
        y = axes.y(10.0**decade)
        yield f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>'
        yield f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{10.0**decade:g}</text>'
    for mib in _round_steps(*axes.mib):
        x = axes.x(mib)
        yield f'<path class="grid" d="M{x:.1f} {TOP}V{HEIGHT - BOTTOM}"/>'
        yield f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{mib:g}</text>'
    yield f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 8}" text-anchor="end">MiB of weights</text>'
    yield f'<text x="{LEFT}" y="{HEIGHT - 8}">KL, nats a token, upwards</text>'


def _round_steps(low: float, high: float) -> Iterable[float]:
    """About six round numbers between two."""
    rough = (high - low) / 6
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * by for by in (1, 2, 5, 10) if unit * by >= rough)
    return (round(step * i, 6) for i in range(math.ceil(low / step), int(high // step) + 1))


def _legend() -> Iterator[str]:
    for name, ours, x in (("edgewise", True, WIDTH - 220), ("llama.cpp", False, WIDTH - 120)):
        kind = "ours" if ours else "theirs"
        yield f'<g class="{kind}">{_mark(Dot(name, 1, 1, ours), x, 16)}'
        yield f'<text class="{kind}" x="{x + 12}" y="20">{name}</text></g>'
