"""Recipes give each tensor of a checkpoint a scheme by its name."""

from __future__ import annotations

import pytest

from edgewise_compiler.quantize import PRESETS, SCHEMES, Recipe, Rule, find_preset
from edgewise_runtime.errors import UnsupportedError

F32, F16, Q8, Q4 = (SCHEMES[name] for name in ("f32", "f16", "q8", "q4"))


@pytest.mark.parametrize(
    ("name", "scheme"),
    [
        ("model.layers.3.mlp.down_proj.weight", "q8"),
        ("model.layers.13.mlp.down_proj.weight", "q4"),
        ("model.layers.3.mlp.up_proj.weight", "q4"),
        ("lm_head.weight", "q8"),
        ("LM_HEAD.weight", "q4"),
    ],
)
def test_the_first_rule_that_matches_a_name_decides_and_else_the_default(
    name: str, scheme: str
) -> None:
    rules = (
        Rule(("*.up_proj.weight",), Q4),
        Rule(("model.layers.[0-9].mlp.*", "lm_head.weight"), Q8),
    )
    assert Recipe("mixed", Q4, rules).scheme_of(name).name == scheme


def test_every_scheme_alone_is_a_preset_of_its_name() -> None:
    for name, scheme in SCHEMES.items():
        assert find_preset(name) == PRESETS[name] == Recipe(name, scheme)


@pytest.mark.parametrize(
    ("preset", "end", "qkv", "o", "down", "up"),
    [
        ("balanced", "q6_nl[:16384]+q5_nl", "q5_nl", "q4_nl", "q5_nl", "q5_nl"),
        ("small", "q4_nl", "q5_nl", "q4_nl", "q4_nl", "q4_nl"),
    ],
)
def test_presets_give_more_bits_to_what_an_error_costs_more_in(
    preset: str, end: str, qkv: str, o: str, down: str, up: str
) -> None:
    recipe = find_preset(preset)
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        assert recipe.scheme_of(name).name == end
    assert recipe.scheme_of("model.layers.0.self_attn.k_proj.weight").name == qkv
    assert recipe.scheme_of("model.layers.0.self_attn.o_proj.weight").name == o
    assert recipe.scheme_of("model.layers.0.mlp.down_proj.weight").name == down
    assert recipe.scheme_of("model.layers.0.mlp.up_proj.weight").name == up


def test_a_preset_there_is_not_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="q3") as caught:
        find_preset("q3")
    assert caught.value.code == "unsupported.scheme"
    assert "q4" in caught.value.remedy


@pytest.mark.parametrize(("default", "other"), [("q4", "f16"), ("f32", "q8")])
def test_integers_and_floats_do_not_go_together(default: str, other: str) -> None:
    with pytest.raises(UnsupportedError, match=rf"'odd' has {default}.*\*head\* -> {other}") as it:
        Recipe("odd", SCHEMES[default], (Rule(("*head*",), SCHEMES[other]),))
    assert it.value.code == "unsupported.recipe"


def test_schemes_of_one_kind_do_go_together() -> None:
    assert Recipe("floats", F32, (Rule(("*",), F16),)).scheme_of("x") == F16
