"""Which scheme each linear gets where all may take so many bits a weight."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from edgewise_compiler.quantize.codes import Scheme
from edgewise_compiler.quantize.scales import scale_words
from edgewise_runtime.errors import InputError
from edgewise_runtime.format.abi import GROUP


def stored_bits(scheme: Scheme, columns: int) -> float:
    """Bits a weight of a scheme of integers in rows of so many, its numbers included."""
    groups = -(-columns // GROUP)
    numbers = 32 * scale_words(groups) if scheme.bytes else 16 * len(scheme.groups) * groups
    return int(scheme.code.removeprefix("uint")) + numbers / columns


@dataclass(frozen=True)
class Size:
    """How many weights a linear has, and how many are a row."""

    weights: int
    columns: int

    def bits(self, scheme: Scheme) -> float:
        """Of all of it."""
        return stored_bits(scheme, self.columns) * self.weights


def spend(
    bits: float,
    schemes: Sequence[Scheme],
    costs: Mapping[str, Mapping[str, float]],
    sizes: Mapping[str, Size],
) -> dict[str, Scheme]:
    """The schemes of the least cost in all that take at most ``bits`` a weight on average.

    All begin with the smallest; the next step is the one that saves most for each bit it takes,
    until none fits.

    Args:
        schemes: each with more bits than the one before.
        costs: of each linear in each scheme, by their names.

    Raises:
        InputError: fewer bits than the smallest scheme has.
    """
    least = schemes[0]
    weights = sum(size.weights for size in sizes.values())
    fewest = sum(size.bits(least) for size in sizes.values()) / weights
    left = (bits - fewest) * weights
    if not left >= 0:  # Nor is what is no number.
        raise InputError(
            f"{bits:g} bits a weight are fewer than {least.name}'s {_up(fewest):g}.",
            remedy=f"Allow for at least {_up(fewest):g}.",
            code="input.bits",
        )
    chosen = dict.fromkeys(costs, least)
    while True:
        steps = [
            ((costs[name][now.name] - costs[name][more.name]) / taken, taken, name, more)
            for name, now in chosen.items()
            for more in schemes
            if 0 < (taken := sizes[name].bits(more) - sizes[name].bits(now)) <= left
        ]
        if not steps:
            return chosen
        saved, taken, name, more = max(steps, key=lambda step: step[0])
        if saved <= 0:
            return chosen
        chosen[name], left = more, left - taken


def _up(bits: float) -> float:
    """To two digits, not below."""
    return math.ceil(bits * 100 - 1e-9) / 100
