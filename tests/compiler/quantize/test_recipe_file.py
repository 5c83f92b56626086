"""Recipes in TOML files read as they are written, or are refused by the rule that is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgewise_compiler.quantize import SCHEMES, Recipe, Rule, Split, read_recipe
from edgewise_compiler.quantize.recipe_file import MAX_BYTES
from edgewise_runtime.errors import EdgewiseError

HEAD = 'name = "mine"\ndefault = "q4"\n'


def written(folder: Path, text: str | bytes) -> Path:
    path = folder / "mine.toml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_a_file_says_name_default_and_rules_in_order(tmp_path: Path) -> None:
    text = f"""{HEAD}
[[rule]]
tensors = ["*embed_tokens.weight", "lm_head.weight"]
scheme = "q8"

[[rule]]
tensors = "*.down_proj.weight"
scheme = "q4"
"""
    rules = (
        Rule(("*embed_tokens.weight", "lm_head.weight"), SCHEMES["q8"]),
        Rule(("*.down_proj.weight",), SCHEMES["q4"]),
    )
    assert read_recipe(written(tmp_path, text)) == Recipe("mine", SCHEMES["q4"], rules)


def test_a_rule_may_give_the_first_rows_another_scheme_than_the_others(tmp_path: Path) -> None:
    text = f'{HEAD}[[rule]]\ntensors = "a"\nscheme = "q6"\nrows = 16384\nrest = "q5"\n'
    (found,) = read_recipe(written(tmp_path, text)).rules
    assert found == Rule(("a",), Split(SCHEMES["q6"], 16384, SCHEMES["q5"]))


def test_a_file_needs_no_rules(tmp_path: Path) -> None:
    assert read_recipe(written(tmp_path, HEAD)) == Recipe("mine", SCHEMES["q4"])


def test_a_file_may_ask_for_a_search(tmp_path: Path) -> None:
    searched = read_recipe(written(tmp_path, f"{HEAD}searched = true\n"))
    assert searched == Recipe("mine", SCHEMES["q4"], searched=True)


SPLIT = 'tensors = "b"\nscheme = "q6"\nrows = {rows}\nrest = "{rest}"'


def rule(text: str) -> str:
    return f'{HEAD}[[rule]]\ntensors = "a"\nscheme = "q8"\n[[rule]]\n{text}\n'


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ('default = "q4"', "input.missing", "name"),
        ('name = "mine"', "input.missing", "default"),
        (HEAD.replace("mine", "../mine"), "input.name", "mine"),
        (HEAD.replace("mine", "q8"), "input.recipe", "q8"),
        (HEAD.replace("q4", "q3"), "unsupported.scheme", "q3"),
        (HEAD + "searched = 1", "input.type", "searched"),
        (rule(f"scheme = 'q8'\ntensors = ['{'a' * 257}']"), "input.type", "rule 2"),
        ("a." * 6000 + "a = 1", "input.recipe", "32 parts"),
        ('["a"' + ".\t'b'" * 6000 + "]", "input.recipe", "32 parts"),
        (HEAD + "bits = 4", "input.unknown_field", "bits"),
        (HEAD + "rule = 3", "input.type", "rule"),
        (HEAD + "rule = [3]", "input.type", "rule 1 3"),
        (HEAD + "[[rule]\n", "input.recipe", "mine.toml"),
        (b"name = '\xff'", "input.recipe", "mine.toml"),
        (HEAD + "x = " + "[" * 100_000, "input.recipe", "mine.toml"),
        ("#" * (MAX_BYTES + 1), "storage.size", "mine.toml"),
        (rule('scheme = "q8"'), "input.missing", "rule 2"),
        (rule('tensors = "b"'), "input.missing", "rule 2 .*'b'"),
        (rule('tensors = "b"\nscheme = "q3"'), "unsupported.scheme", "rule 2 .*'b'.*q3"),
        (rule('tensors = "b"\nscheme = 4'), "input.type", "rule 2"),
        (rule('tensors = []\nscheme = "q8"'), "input.type", "rule 2"),
        (rule('tensors = ["b", 1]\nscheme = "q8"'), "input.type", "rule 2"),
        (rule('tensors = ""\nscheme = "q8"'), "input.type", "rule 2"),
        (rule('tensors = "b"\nscheme = "q8"\nbits = 8'), "input.unknown_field", "rule 2 .*bits"),
        (rule('tensors = "b"\nscheme = "f16"'), "unsupported.recipe", "b -> f16"),
        (rule(SPLIT.format(rows=100, rest="q5")), "unsupported.recipe", "rule 2 .*100 first rows"),
        (rule(SPLIT.format(rows=63, rest="q5")), "input.range", "rule 2 .*64.*63"),
        (rule(SPLIT.format(rows=10**30, rest="q5")), "input.range", "rule 2"),
        (rule(SPLIT.format(rows="'64'", rest="q5")), "input.type", "rule 2"),
        (rule(SPLIT.format(rows=64, rest="q3")), "unsupported.scheme", "rule 2 .*q3"),
        (rule(SPLIT.format(rows=64, rest="f32")), "unsupported.recipe", "q6 beside f32"),
        (rule('tensors = "b"\nscheme = "q6"\nrows = 64'), "input.missing", "rule 2 .*rest"),
        (rule('tensors = "b"\nscheme = "q6"\nrest = "q5"'), "input.missing", "rule 2 .*rows"),
    ],
)
def test_what_is_wrong_is_refused_by_name(
    tmp_path: Path, text: str | bytes, code: str, said: str
) -> None:
    with pytest.raises(EdgewiseError, match=said) as caught:
        read_recipe(written(tmp_path, text))
    assert caught.value.code == code
    assert len(caught.value.message) < 500


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EdgewiseError, match=r"none\.toml") as caught:
        read_recipe(tmp_path / "none.toml")
    assert caught.value.code.startswith("storage.")
