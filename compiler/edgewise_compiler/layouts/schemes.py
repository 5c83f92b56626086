"""The scheme of each packed linear: what a recipe says about the tensors that it is made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches

from edgewise_compiler.models.base import LinearSpec, ParamSpec
from edgewise_compiler.quantize import (
    AnyScheme,
    Recipe,
    Rule,
    Scheme,
    Split,
    find_scheme,
    schemes_of,
)
from edgewise_runtime.errors import InputError, UnsupportedError
from edgewise_runtime.format.abi import GROUP

Schemes = Mapping[str, AnyScheme]
"""By the canonical name of a linear, or of an embedding table."""


def linears_of(params: Iterable[ParamSpec]) -> list[LinearSpec]:
    """What has a scheme among the parameters of a model."""
    return [param for param in params if isinstance(param, LinearSpec)]


def recipe_of(
    name: str,
    linears: Iterable[LinearSpec],
    schemes: Mapping[str, Scheme],
    *,
    searched: bool = False,
) -> Recipe:
    """The recipe by which linears get ``schemes``; its default is that of most weights."""
    tensors: dict[str, list[str]] = {}
    weights: Counter[str] = Counter()
    for linear in linears:
        scheme = schemes[linear.name].name
        tensors.setdefault(scheme, []).extend(linear.sources)
        weights[scheme] += linear.weights
    (default, _), *_ = weights.most_common(1)
    rules = (
        Rule(tuple(names), find_scheme(scheme))
        for scheme, names in tensors.items()
        if scheme != default
    )
    return Recipe(name, find_scheme(default), tuple(rules), searched)


def linear_schemes(recipe: Recipe, params: Iterable[ParamSpec]) -> Schemes:
    """The scheme of every linear among ``params``.

    Raises:
        InputError: a rule that matches none of their tensors.
        UnsupportedError: tensors of one linear that get different schemes, one whose groups do not
            fill their columns, or a split of a matrix that is one with others.
    """
    linears = linears_of(params)
    names = tuple(dict.fromkeys(source for linear in linears for source in linear.sources))
    for rule in recipe.rules:
        if not any(map(rule.matches, names)):
            raise _matches_nothing(recipe, rule, names)
    return {linear.name: _fitting(_scheme_of(recipe, linear), linear) for linear in linears}


def _fitting(scheme: AnyScheme, linear: LinearSpec) -> AnyScheme:
    """``scheme``, unless its groups do not fill the linear's columns; of a matrix that ends before
    its second part the first."""
    if isinstance(scheme, Split) and max(linear.rows) <= scheme.rows:
        scheme = scheme.first
    if isinstance(scheme, Split) and (linear.experts is not None or len(linear.sources) > 1):
        raise UnsupportedError(
            f"The recipe has {linear.name} in two schemes by rows; it is made of "
            f"{len(linear.sources)} matrices, which are computed as one.",
            remedy="Give it one scheme, or the first rows of a table, a head, an o_proj or a "
            "down_proj another than the rest.",
            code="unsupported.recipe",
        )
    for one in schemes_of(scheme):
        if one.columns > GROUP and linear.k % one.columns:
            raise UnsupportedError(
                f"{linear.name} has {linear.k} columns; in {one.name} {one.columns} of them "
                "share their numbers.",
                remedy="Give it a scheme of 32, such as q4a.",
                code="unsupported.recipe",
            )
    return scheme


def _scheme_of(recipe: Recipe, linear: LinearSpec) -> AnyScheme:
    found = {source: recipe.scheme_of(source) for source in linear.sources}
    if len({scheme.name for scheme in found.values()}) > 1:
        parts = ", ".join(f"{source} {scheme.name}" for source, scheme in found.items())
        raise UnsupportedError(
            f"The recipe {recipe.name!r} gives parts of {linear.name} different schemes: {parts}.",
            remedy="They are computed as one matrix: give them one scheme.",
            code="unsupported.recipe",
        )
    return found[linear.sources[0]]


def _matches_nothing(recipe: Recipe, rule: Rule, names: Sequence[str]) -> InputError:
    near = get_close_matches(rule.tensors[0], names, cutoff=0.0)
    return InputError(
        f"The recipe {recipe.name!r} has the rule {rule}, which matches no matrix of the model.",
        remedy=f"The nearest names are {', '.join(near)}. Vectors stay float32, and the head of a "
        "model with tied embeddings is its embedding table.",
        code="input.recipe",
    )
