"""The loss of a training run as a drawing."""

from __future__ import annotations

from collections.abc import Sequence

_WIDTH, _HEIGHT = 640, 320
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 16, 20, 44
_POINTS = 160
_HIGHEST = 4.0
_STYLE = 'font-family="sans-serif" font-size="12" fill="#808080"'


def loss_svg(losses: Sequence[float]) -> str:
    """Return an SVG of `losses`, nats per token at each step, averaged over short stretches.

    What lies above 4 nats, the first few dozen steps, is cut off.
    """
    inner_width = _WIDTH - _LEFT - _RIGHT
    inner_height = _HEIGHT - _TOP - _BOTTOM
    stretch = max(1, len(losses) // _POINTS)

    def place(step: float, loss: float) -> str:
        x = _LEFT + inner_width * step / len(losses)
        y = _TOP + inner_height * (1 - min(loss, _HIGHEST) / _HIGHEST)
        return f"{x:.1f},{y:.1f}"

    points = []
    for start in range(0, len(losses), stretch):
        part = losses[start : start + stretch]
        points.append(place(start + len(part) / 2, sum(part) / len(part)))
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        'role="img" aria-label="Training loss by step">'
    ]
    for nats in range(int(_HIGHEST) + 1):
        y = float(place(0, nats).split(",")[1])
        lines.append(
            f'<path d="M{_LEFT} {y}H{_WIDTH - _RIGHT}" stroke="#808080" stroke-opacity=".25"/>'
        )
        lines.append(f'<text x="{_LEFT - 8}" y="{y + 4}" text-anchor="end" {_STYLE}>{nats}</text>')
    for quarter in range(5):
        step = len(losses) * quarter // 4
        x = float(place(step, 0).split(",")[0])
        y = _HEIGHT - _BOTTOM + 18
        lines.append(f'<text x="{x}" y="{y}" text-anchor="middle" {_STYLE}>{step}</text>')
    middle = _LEFT + inner_width / 2
    lines.append(
        f'<text x="{middle}" y="{_HEIGHT - 8}" text-anchor="middle" {_STYLE}>step</text>'
        f'<text x="{_LEFT}" y="12" {_STYLE}>nats per token of the assistant</text>'
    )
    lines.append(
        f'<polyline points="{" ".join(points)}" fill="none" stroke="#3b82f6" stroke-width="2"/>'
    )
    return "\n".join([*lines, "</svg>"]) + "\n"
