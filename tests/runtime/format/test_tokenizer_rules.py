"""What a tokenizer.json may ask for is checked before the tokenizers package sees it."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from edgewise_runtime.errors import CheckpointError, EdgewiseError
from edgewise_runtime.format.tokenizer import open_tokenizer
from edgewise_runtime.format.tokenizer_rules import check_rules

ROOT = Path(__file__).parents[3]
CASES: list[dict[str, Any]] = json.loads((ROOT / "tests/format/tokenizer-rules.json").read_text())
BASE: dict[str, Any] = json.loads(
    (ROOT / "tests/runtime/text/goldens/one_digit/tokenizer.json").read_text()
)
BYTE_FALLBACK: dict[str, Any] = json.loads(
    (ROOT / "tests/runtime/text/goldens/byte_fallback/tokenizer.json").read_text()
)


def changed(at: list[str], value: Any) -> dict[str, Any]:
    tokenizer = deepcopy(BASE)
    inner: Any = tokenizer
    *path, last = at
    for key in path:
        inner = inner[int(key) if isinstance(inner, list) else key]
    inner[int(last) if isinstance(inner, list) else last] = value
    return tokenizer


def opened(tokenizer: dict[str, Any]) -> Any:
    return open_tokenizer(json.dumps(tokenizer).encode(), "tokenizer.json")


@pytest.mark.parametrize("case", CASES, ids=[case["what"] for case in CASES])
def test_rules_are_taken_or_refused(case: dict[str, Any]) -> None:
    tokenizer = changed(case["at"], case["value"])
    if case["error"]:
        with pytest.raises(EdgewiseError) as caught:
            opened(tokenizer)
        assert caught.value.code == case["error"]
        return
    backend = opened(tokenizer).backend
    assert backend.padding is None
    assert backend.truncation is None
    assert len(backend.encode("a").ids) <= 20


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"model": {}, "model": {}}', "key twice"),
        ("[" * 1_500_000, "more values"),
        ("[" + "0," * 3_500_000 + "0]", "more values"),
        ("[" * 100_000, "recursion"),
        ('{"model": {"type": "BPE", "vocab": {}, "merges": []}, "version": NaN}', "expected value"),
    ],
    ids=["a key twice", "many lists", "many numbers", "lists in each other", "not a number"],
)
def test_what_is_no_tokenizer_is_refused(text: str, said: str) -> None:
    with pytest.raises(CheckpointError, match=said) as caught:
        open_tokenizer(text.encode(), "tokenizer.json")
    assert caught.value.code == "checkpoint.tokenizer"


def test_as_many_values_as_the_largest_vocabularies_have_are_read() -> None:
    """262,144 tokens, and 514,906 merges of two parts."""
    rest = ",".join(['["a","b"]'] * 514_906 + ["0"] * 262_144)
    with pytest.raises(CheckpointError, match="not an object"):
        open_tokenizer(f'{{"model": [{rest}]}}'.encode(), "tokenizer.json")


def test_a_file_beyond_the_limit_is_refused_unread() -> None:
    with pytest.raises(CheckpointError, match="more than 67108864 bytes"):
        open_tokenizer(b" " * (1 + (64 << 20)), "tokenizer.json")


@pytest.mark.parametrize(
    "long", ["x" * (5 << 20), '\\"' * (5 << 19), '\\\\\\"' * (5 << 18)], ids=["x", '"', '\\"']
)
def test_a_text_that_no_vocabulary_has_is_refused_before_it_is_parsed(long: str) -> None:
    with pytest.raises(CheckpointError, match="longer texts than any vocabulary needs"):
        open_tokenizer(f'["{long}"'.encode(), "tokenizer.json")  # which is no JSON


def test_texts_as_long_as_the_longest_published_ones_are_read() -> None:
    with pytest.raises(CheckpointError, match="not an object"):
        open_tokenizer(f'["{"x" * (3 << 20)}", "{"y" * (3 << 20)}"]'.encode(), "tokenizer.json")


@pytest.mark.parametrize(
    ("normalizer", "growth"),
    [
        (None, 2),
        ({"type": "NFC"}, 6),
        ({"type": "Prepend", "prepend": "▁"}, 8),
        ({"type": "Replace", "pattern": {"Regex": "b*"}, "content": "ab"}, 8),
    ],
)
def test_how_much_longer_a_text_can_become(normalizer: object, growth: int) -> None:
    """Spelling bytes makes two of one."""
    assert check_rules({**BASE, "normalizer": normalizer}).growth == growth


def test_a_token_stands_for_as_much_as_the_longest_says() -> None:
    longest = max(map(len, BASE["model"]["vocab"]))
    assert check_rules({**BASE, "normalizer": None}).reach == longest
    assert check_rules(BASE).reach == 4 * longest  # NFC composes four characters at most
    assert check_rules(BYTE_FALLBACK).reach == max(map(len, BYTE_FALLBACK["model"]["vocab"]))


@pytest.mark.parametrize("byte", ["Ġ", "Ċ", "a", "é"])
def test_nothing_is_said_where_characters_may_be_left_out(byte: str) -> None:
    vocab = {token: i for token, i in BASE["model"]["vocab"].items() if token != byte}
    assert check_rules({**BASE, "model": {**BASE["model"], "vocab": vocab}}).reach is None


@pytest.mark.parametrize(
    ("normalizer", "reach"),
    [
        ({"type": "StripAccents"}, False),
        ({"type": "Replace", "pattern": {"String": "a"}, "content": ""}, False),
        ({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}, False),
        ({"type": "Replace", "pattern": {"String": " "}, "content": "▁"}, True),
        ({"type": "Strip", "strip_left": True, "strip_right": False}, True),
    ],
)
def test_a_step_that_leaves_characters_out_takes_the_bound_away(
    normalizer: dict[str, Any], reach: bool
) -> None:
    found = check_rules({**BASE, "normalizer": normalizer})
    assert (found.reach is not None) == reach
    assert found.drops_spaces == (normalizer["type"] == "Strip")
