"""A recipe for so many bits a weight: those that matter more get more."""

from __future__ import annotations

from collections.abc import Callable

from edgewise_compiler.calibrate.codes import read_calibration
from edgewise_compiler.calibrate.sensitivity import sensitivities
from edgewise_compiler.checkpoint import Checkpoint
from edgewise_compiler.layouts.schemes import linears_of, recipe_of
from edgewise_compiler.quantize import SCHEMES, Recipe
from edgewise_compiler.quantize.budget import Size, spend

CHOICE = tuple(SCHEMES[name] for name in ("q4_nl", "q5_nl", "q6_nl", "q8"))


def budget_recipe(
    checkpoint: Checkpoint, bits: float, progress: Callable[[int, int], None]
) -> Recipe:
    """The recipe of the least loss that takes at most ``bits`` a weight on average.

    What is lost is measured with a little of the neutral text, scales searched.

    Args:
        progress: told how many linears of how many are measured.

    Raises:
        InputError: fewer bits than the smallest scheme has.
        CheckpointError: a weight that is not finite, or a text that the tokenizer cannot encode.
        UnsupportedError: an operation that `interpret` does not have.
    """
    linears = linears_of(checkpoint.family.params(checkpoint.model))
    sizes = {linear.name: Size(linear.weights, linear.k) for linear in linears}
    nothing = {name: dict.fromkeys((scheme.name for scheme in CHOICE), 0.0) for name in sizes}
    spend(bits, CHOICE, nothing, sizes)  # Refuses before anything takes long.
    text = read_calibration(checkpoint, None, searched=True)
    costs = sensitivities(checkpoint, CHOICE, text.tokens, progress)
    chosen = spend(bits, CHOICE, costs, sizes)
    return recipe_of(f"bits-{bits:g}", linears, chosen, searched=True)
