"""A recipe for so many bits a weight: those that matter more get more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from edgewise_compiler.calibrate.codes import read_calibration
from edgewise_compiler.calibrate.sensitivity import sensitivities
from edgewise_compiler.checkpoint import Checkpoint
from edgewise_compiler.models.base import LinearSpec
from edgewise_compiler.quantize import SCHEMES, Recipe, Rule
from edgewise_compiler.quantize.budget import spend

CHOICE = tuple(SCHEMES[name] for name in ("q4", "q5", "q6", "q8"))


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
    linears = {
        spec.name: spec
        for spec in checkpoint.family.params(checkpoint.model)
        if isinstance(spec, LinearSpec)
    }
    weights = {name: sum(spec.rows) * spec.k for name, spec in linears.items()}
    nothing = {name: dict.fromkeys((scheme.name for scheme in CHOICE), 0.0) for name in linears}
    spend(bits, CHOICE, nothing, weights)  # Refuses before anything takes long.
    text = read_calibration(checkpoint, None, searched=True)
    costs = sensitivities(checkpoint, CHOICE, text.tokens, progress)
    chosen = spend(bits, CHOICE, costs, weights)
    sizes = Counter[str]()
    for name, scheme in chosen.items():
        sizes[scheme.name] += weights[name]
    default = SCHEMES[sizes.most_common(1)[0][0]]
    rules = tuple(
        Rule(sources, scheme)
        for scheme in CHOICE
        if scheme != default
        and (
            sources := tuple(
                s for n, c in chosen.items() if c == scheme for s in linears[n].sources
            )
        )
    )
    return Recipe(f"bits-{bits:g}", default, rules, searched=True)
