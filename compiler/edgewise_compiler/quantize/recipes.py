"""Recipes: which scheme each tensor of a checkpoint gets, by rules over its name; and the presets.

A recipe knows names only. What they mean for a model's linears is `layouts.schemes`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from edgewise_compiler.quantize.codes import Scheme
from edgewise_compiler.quantize.schemes import SCHEMES
from edgewise_compiler.quantize.split import AnyScheme, Split
from edgewise_runtime.errors import UnsupportedError


@dataclass(frozen=True)
class Rule:
    """Tensors of a checkpoint that get a scheme.

    Attributes:
        tensors: globs over names such as ``model.layers.0.mlp.up_proj.weight``; case counts.
        scheme: of all their rows, or one for the first and one for the others.
    """

    tensors: tuple[str, ...]
    scheme: AnyScheme

    def matches(self, name: str) -> bool:
        """Whether one of the globs matches ``name``."""
        return any(fnmatchcase(name, pattern) for pattern in self.tensors)

    def __str__(self) -> str:
        return f"{', '.join(self.tensors)} -> {self.scheme.name}"


@dataclass(frozen=True)
class Recipe:
    """A scheme for every matrix of a checkpoint: that of the first rule that matches its name.

    Attributes:
        default: for what no rule matches; programs are named after its arithmetic.
        searched: scales are searched for what linears are given (`calibrate.codes`), unless who
            compiles says otherwise.

    Raises:
        UnsupportedError: integer schemes beside floats, which no program computes with together.
    """

    name: str
    default: Scheme
    rules: tuple[Rule, ...] = ()
    searched: bool = False

    def __post_init__(self) -> None:
        for rule in self.rules:
            if rule.scheme.integer != self.default.integer:
                raise UnsupportedError(
                    f"The recipe {self.name!r} has {self.default.name} as its default and the rule "
                    f"{rule}: integers and floats.",
                    remedy="Integer schemes go with each other, and floats with each other: "
                    f"{', '.join(s.name for s in SCHEMES.values() if s.integer)}; "
                    f"{', '.join(s.name for s in SCHEMES.values() if not s.integer)}.",
                    code="unsupported.recipe",
                )

    def scheme_of(self, name: str) -> AnyScheme:
        """The scheme of the checkpoint's tensor ``name``."""
        return next((rule.scheme for rule in self.rules if rule.matches(name)), self.default)


_ENDS = ("*embed_tokens.weight", "lm_head.weight")
"""The embedding table, and the head where it has a matrix of its own."""

_QKV = ("*.q_proj.weight", "*.k_proj.weight", "*.v_proj.weight")
"""What an error costs most in, weight for weight (docs/decisions/0013)."""

_ATTENDED = ("*.o_proj.weight",)
"""What an error costs least in (docs/decisions/0100)."""

_OFTEN = 16_384
"""The first tokens of a vocabulary, which most texts are made of (docs/decisions/0099)."""

_MIXED = (
    Recipe(
        "balanced",
        SCHEMES["q5_nl"],
        (
            Rule(_ENDS, Split(SCHEMES["q6_nl"], _OFTEN, SCHEMES["q5_nl"])),
            Rule(_ATTENDED, SCHEMES["q4_nl"]),
        ),
        searched=True,
    ),
    Recipe("small", SCHEMES["q4_nl"], (Rule(_QKV, SCHEMES["q5_nl"]),), searched=True),
)

PRESETS: Mapping[str, Recipe] = {
    **{scheme.name: Recipe(scheme.name, scheme) for scheme in SCHEMES.values()},
    **{recipe.name: recipe for recipe in _MIXED},
}
"""The recipes that have a name."""

DEFAULT_QUANT = "balanced"
"""The preset for checkpoints that are not quantized."""

AS_FILE = "as-file"
"""What the recipe is called that a checkpoint's own types make (`as_file.file_recipe`)."""

QUANTS = (*PRESETS, AS_FILE)
"""What ``--quant`` may name."""


def find_preset(name: str) -> Recipe:
    """The recipe that ``--quant`` calls ``name``; UnsupportedError naming those there are."""
    if name not in PRESETS:
        raise UnsupportedError(
            f"There is no weight scheme {name!r}.",
            remedy=f"Choose one of {', '.join(QUANTS)}.",
            code="unsupported.scheme",
        )
    return PRESETS[name]
