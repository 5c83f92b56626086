"""Batches of whole dialogues."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from tools.demo_corpus import generate
from tools.demo_corpus.tokenizer import encode

FILE = Path(__file__).resolve().parents[2] / "examples" / "demo-model" / "tokenizer.json"

# The module needs torch, which only the full suite installs.
pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def packing() -> Any:
    return importlib.import_module("tools.demo_corpus.packing")


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.from_file(str(FILE))


@pytest.fixture(scope="module")
def shape(packing: Any) -> Any:
    return packing.BatchShape(rows=4, columns=256, blocks=(1, 3))


def test_a_step_always_gets_the_same_batch(tokenizer: Tokenizer, packing: Any, shape: Any) -> None:
    first, again, other = (packing.make_batch(tokenizer, 1, step, shape, 0.2) for step in (5, 5, 6))
    assert bool((first.ids == again.ids).all())
    assert not bool((first.ids == other.ids).all())


def test_encoding_by_turns_equals_encoding_at_once(tokenizer: Tokenizer) -> None:
    for index in range(30):
        dialogue = generate(2, index)
        ids, is_answer = encode(tokenizer, dialogue)
        assert ids == tokenizer.encode(dialogue.render() + "<|endoftext|>").ids
        marked = [token for token, marks in zip(ids, is_answer, strict=True) if marks]
        answers = [turn.text for turn in dialogue.turns if turn.role == "assistant"]
        said = tokenizer.decode(marked, skip_special_tokens=False)
        assert said == "".join(f"{answer}<|im_end|>" for answer in answers)


def test_a_dialogue_starts_at_position_0_and_sees_only_itself(
    tokenizer: Tokenizer, packing: Any, shape: Any
) -> None:
    batch = packing.make_batch(tokenizer, 1, 0, shape, 0.2)
    starts = 0
    for row in range(shape.rows):
        for column in range(shape.columns):
            seen = batch.mask[row, 0, column].nonzero().flatten().tolist()
            if batch.weights[row, column] > 0:
                first = column - int(batch.positions[row, column])
                assert seen == list(range(first, column + 1))
                starts += first == column
    assert starts > shape.rows


def test_every_row_is_nearly_full(tokenizer: Tokenizer, packing: Any, shape: Any) -> None:
    batch = packing.make_batch(tokenizer, 1, 0, shape, 0.2)
    assert float((batch.weights > 0).float().mean()) > 0.8
    assert bool((batch.weights[batch.answers] == 1.0).all())


def test_long_conversations_reach_the_far_positions(tokenizer: Tokenizer, packing: Any) -> None:
    far_shape = packing.BatchShape(rows=2, columns=1024, blocks=(8, 14))
    far = max(
        int(packing.make_batch(tokenizer, 1, step, far_shape, 0.2).positions.max())
        for step in range(12)
    )
    assert far > 800
