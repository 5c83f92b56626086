"""Which scheme each linear gets where all may take so many bits a weight."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from edgewise_compiler.quantize.codes import Scheme
from edgewise_runtime.errors import InputError
from edgewise_runtime.format.abi import GROUP


def stored_bits(scheme: Scheme) -> float:
    """Bits a weight of a scheme of integers, those of its group's numbers included, a row's not."""
    numbers = 8 if scheme.bytes else 16 * len(scheme.groups)
    return int(scheme.code.removeprefix("uint")) + numbers / GROUP


def spend(
    bits: float,
    schemes: Sequence[Scheme],
    costs: Mapping[str, Mapping[str, float]],
    weights: Mapping[str, int],
) -> dict[str, Scheme]:
    """The schemes of the least cost in all that take at most ``bits`` a weight on average.

    All begin with the smallest; the next step is the one that saves most for each bit it takes,
    until none fits.

    Args:
        costs: of each linear in each scheme, by their names.
        weights: how many each linear has.

    Raises:
        InputError: fewer bits than the smallest scheme has.
    """
    sizes = {scheme.name: stored_bits(scheme) for scheme in schemes}
    by_size = sorted(schemes, key=stored_bits)
    least = by_size[0].name
    left = (bits - sizes[least]) * sum(weights.values())
    if not left >= 0:  # Nor is what is no number.
        raise InputError(
            f"{bits:g} bits a weight are fewer than {least}'s {sizes[least]:g}.",
            remedy=f"Allow for at least {sizes[least]:g}.",
            code="input.bits",
        )
    chosen = dict.fromkeys(costs, by_size[0])
    while True:
        steps = [
            ((costs[name][now.name] - costs[name][more.name]) / taken, taken, name, more)
            for name, now in chosen.items()
            for more in by_size
            if 0 < (taken := (sizes[more.name] - sizes[now.name]) * weights[name]) <= left
        ]
        if not steps:
            return chosen
        saved, taken, name, more = max(steps, key=lambda step: step[0])
        if saved <= 0:
            return chosen
        chosen[name], left = more, left - taken
