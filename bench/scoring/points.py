"""The ways to store a model's weights that are compared: our presets, and llama.cpp's types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from edgewise_compiler.quantize import chooses
from edgewise_compiler.quantize.recipes import PRESETS, Recipe

REFERENCE = "f32"
CALIBRATED, PURE = "+calibrate", "+pure"


@dataclass(frozen=True)
class Point:
    """One way, ours or llama.cpp's.

    Attributes:
        kind: a preset of ``--quant``, or a type of llama.cpp's quantizer.
        option: ``+calibrate``: compiled with ``--calibrate``; ``+pure``: every matrix in that type.
    """

    kind: str
    ours: bool
    option: str = ""

    @property
    def name(self) -> str:
        """What the command line and the figures call it."""
        return self.kind + self.option


def _searched(recipe: Recipe) -> bool:
    """Whether a calibration has anything to choose."""
    schemes = (recipe.default, *(rule.scheme for rule in recipe.rules))
    return any(map(chooses, schemes))


def _ours() -> list[Point]:
    found = []
    for name, recipe in PRESETS.items():
        if name != REFERENCE:
            found.append(Point(name, ours=True))
            found += [Point(name, ours=True, option=CALIBRATED)] if _searched(recipe) else []
    return found


def _by_name(points: list[Point]) -> Mapping[str, Point]:
    return {point.name: point for point in points}


OURS = _by_name(_ours())
PEERS = _by_name(
    [
        Point("Q4_0", ours=False, option=PURE),
        *(
            Point(kind, ours=False)
            for kind in ("Q4_0", "Q4_1", "IQ4_NL", "Q4_K_M", "Q5_K_M", "Q6_K", "Q8_0")
        ),
    ]
)
POINTS = {**OURS, **PEERS}
