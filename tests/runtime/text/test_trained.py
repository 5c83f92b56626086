"""Tokenizers of every kind: the kept outcomes are the package's, and ours are the same."""

from __future__ import annotations

import json
from functools import cache
from random import Random
from typing import Any

import pytest
from tokenizers import Tokenizer as Backend

from edgewise_runtime.format.tokenizer import open_tokenizer
from edgewise_runtime.text import Tokenizer
from tests.runtime.text.hashing import packed
from tests.runtime.text.trained import KINDS, mixed, trained
from tools.make_trained_cases import COUNT, STORED, outcome


@cache
def stored() -> Any:
    return json.loads(STORED.read_text("ascii"))


@pytest.mark.parametrize("index", range(COUNT))
def test_the_package_makes_this_of_the_texts(index: int) -> None:
    expected = stored()["tokenizers"][index]
    backend = Backend.from_str(json.dumps(expected["tokenizer"]))
    assert outcome(backend, stored()["texts"]) == expected


@pytest.mark.parametrize("index", range(COUNT))
def test_ours_makes_the_same_of_them(index: int) -> None:
    expected = stored()["tokenizers"][index]
    check(json.dumps(expected["tokenizer"]), stored()["texts"], expected)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(60))
def test_whatever_is_trained_is_the_same_with_ours(seed: int) -> None:
    rng = Random(seed)
    backend = trained(rng, KINDS[seed % len(KINDS)], 400)
    texts = [mixed(rng) for _ in range(100)]
    check(backend.to_str(), texts, outcome(backend, texts))


def check(file: str, texts: list[str], expected: dict[str, Any]) -> None:
    opened = open_tokenizer(file.encode(), "tokenizer.json")
    tokenizer = Tokenizer(opened.backend, rules=opened.rules, special=opened.special)
    ids = [tokenizer.encode(text) for text in texts]
    assert "".join(map(packed, ids)) == expected["encoded"]
    plain = [tokenizer.encode(text, add_special_tokens=False) for text in texts]
    assert "".join(map(packed, plain)) == expected["plain"]
    streamed = []
    for each in ids:
        stream = tokenizer.stream()
        streamed.append("".join(stream.push([token]) for token in each) + stream.finish())
    assert "".join(packed(text.encode()) for text in streamed) == expected["streamed"]
    for text, each in zip(texts, ids, strict=True):
        assert not tokenizer.exceeds(text, len(each)), text


def test_the_cases_stay_small() -> None:
    assert STORED.stat().st_size < 300_000
