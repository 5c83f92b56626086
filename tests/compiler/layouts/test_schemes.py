"""Recipes over a model's parameters: a scheme for each linear, or an error that names the rule."""

from __future__ import annotations

import pytest

from edgewise_compiler.layouts.schemes import linear_schemes
from edgewise_compiler.models.base import LinearSpec, ParamSpec, VectorSpec
from edgewise_compiler.quantize import SCHEMES, Recipe, Rule, Split
from edgewise_runtime.errors import InputError, UnsupportedError

PARAMS: tuple[ParamSpec, ...] = (
    LinearSpec("embed", ("model.embed_tokens.weight",), (320,), 64),
    VectorSpec("layers.0.attn_norm", "model.layers.0.input_layernorm.weight", 64),
    LinearSpec("layers.0.qkv", ("l0.q_proj.weight", "l0.k_proj.weight"), (64, 32), 64),
    LinearSpec("layers.0.down", ("l0.down_proj.weight",), (64,), 128),
)


def recipe(*rules: tuple[str, str]) -> Recipe:
    made = tuple(Rule((tensors,), SCHEMES[scheme]) for tensors, scheme in rules)
    return Recipe("mine", SCHEMES["q4"], made)


def test_each_linear_has_the_scheme_of_its_tensors() -> None:
    found = linear_schemes(recipe(("*.embed_tokens.*", "q8"), ("l0.[qk]_*", "q8")), PARAMS)
    assert {name: scheme.name for name, scheme in found.items()} == {
        "embed": "q8",
        "layers.0.qkv": "q8",
        "layers.0.down": "q4",
    }


def test_parts_of_one_linear_with_different_schemes_are_refused() -> None:
    said = r"layers\.0\.qkv.*l0\.q_proj\.weight q4, l0\.k_proj\.weight q8"
    with pytest.raises(UnsupportedError, match=said) as caught:
        linear_schemes(recipe(("*.k_proj.*", "q8")), PARAMS)
    assert caught.value.code == "unsupported.recipe"


@pytest.mark.parametrize("tensors", ["l0.donw_proj.weight", "*.input_layernorm.weight"])
def test_a_rule_that_matches_no_matrix_is_refused_with_the_nearest_names(tensors: str) -> None:
    with pytest.raises(InputError) as caught:
        linear_schemes(recipe(("*", "q8"), (tensors, "q8")), PARAMS)
    assert caught.value.code == "input.recipe"
    assert f"{tensors} -> q8" in caught.value.message
    assert "l0.down_proj.weight" in caught.value.remedy


def test_a_scheme_whose_groups_do_not_fill_the_columns_is_refused_by_name() -> None:
    with pytest.raises(
        UnsupportedError, match=r"layers\.0\.down has 128 columns; in q4k 256"
    ) as caught:
        linear_schemes(recipe(("*.down_proj.*", "q4k")), PARAMS)
    assert caught.value.code == "unsupported.recipe"
    assert "q4a" in caught.value.remedy


def split_at(rows: int, tensors: str, rest: str = "q4") -> Recipe:
    rule = Rule((tensors,), Split(SCHEMES["q8"], rows, SCHEMES[rest]))
    return Recipe("mine", SCHEMES["q4"], (rule,))


@pytest.mark.parametrize(
    ("rows", "found"), [(64, "q8[:64]+q4"), (256, "q8[:256]+q4"), (320, "q8"), (1024, "q8")]
)
def test_a_matrix_that_ends_before_its_second_scheme_is_in_the_first(rows: int, found: str) -> None:
    schemes = linear_schemes(split_at(rows, "*.embed_tokens.*"), PARAMS)
    assert schemes["embed"].name == found


def test_matrices_that_are_computed_as_one_are_not_split() -> None:
    params = (LinearSpec("layers.0.qkv", ("l0.q_proj.weight", "l0.k_proj.weight"), (128, 32), 64),)
    with pytest.raises(UnsupportedError, match=r"layers\.0\.qkv.*2 matrices") as caught:
        linear_schemes(split_at(64, "*_proj.*"), params)
    assert caught.value.code == "unsupported.recipe"
    assert linear_schemes(split_at(128, "*_proj.*"), params)["layers.0.qkv"].name == "q8"


def test_the_groups_of_both_schemes_of_a_matrix_have_to_fill_its_columns() -> None:
    with pytest.raises(UnsupportedError, match="embed has 64 columns; in q4k 256"):
        linear_schemes(split_at(64, "*.embed_tokens.*", "q4k"), PARAMS)
