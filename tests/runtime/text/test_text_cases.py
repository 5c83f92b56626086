"""The cases that check the browser's tokenizer and templates are what Python gives."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest

from tests.parity.make_checkpoints import train_tokenizer
from tools.make_text_cases import (
    CASES,
    FOLDERS,
    TURNS,
    jinja_cases,
    template_cases,
    texts,
    token_cases,
    turn_case,
)


@cache
def stored(name: str) -> Any:
    return json.loads((CASES / name).read_text("utf-8"))


def test_the_texts_are_those_of_the_corpus() -> None:
    assert stored("texts.json") == texts()


@pytest.mark.parametrize("name", FOLDERS)
def test_python_gives_these_ids(name: str) -> None:
    assert stored("tokens.json")[name] == token_cases(name)


def test_python_writes_these_prompts() -> None:
    expected: Mapping[str, Any] = json.loads(json.dumps(template_cases()))
    assert stored("templates.json") == expected


@pytest.mark.parametrize("index", range(len(TURNS)))
def test_python_reads_these_turns(index: int) -> None:
    assert stored("turns.json")[index] == json.loads(json.dumps(turn_case(TURNS[index])))


def test_python_means_this_by_templates() -> None:
    assert stored("jinja.json") == json.loads(json.dumps(jinja_cases()))


def test_the_tiny_tokenizer_is_that_of_the_tiny_checkpoints() -> None:
    assert stored("tiny/tokenizer.json") == json.loads(train_tokenizer().to_str())


def test_the_cases_stay_small() -> None:
    small = (path for path in CASES.rglob("*.json") if path.name != "trained.json")
    assert sum(path.stat().st_size for path in small) < 180_000
