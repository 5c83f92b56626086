"""Several answers to one prompt, and how likely each token was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgewise import Engine

TEXT = "The quick brown fox"


@pytest.mark.parametrize("n", [1, 3, 12])
def test_choices_differ_and_the_first_is_what_one_alone_would_be(engine: Engine, n: int) -> None:
    options: dict[str, Any] = {"max_tokens": 20, "temperature": 1.5, "seed": 5, "ignore_eos": True}
    choices = engine.choices(TEXT * 3, n=n, **options)
    assert [choice.index for choice in choices] == list(range(n))
    assert len({choice.token_ids for choice in choices}) == n
    assert choices[0].token_ids == engine.generate(TEXT * 3, **options).token_ids
    again = engine.submit(TEXT * 3, n=n, **options)
    pieces = list(again)
    assert [c.token_ids for c in again.results()] == [c.token_ids for c in choices]
    for choice in choices:
        mine = (piece.token_ids for piece in pieces if piece.index == choice.index)
        assert sum(mine, ()) == choice.token_ids


def test_choices_share_the_pages_of_their_prompt(bundle: Path) -> None:
    with Engine(bundle) as engine:
        ids = [(7 * i) % 300 for i in range(100)]
        first, *others = engine.choices(ids, n=4, max_tokens=2, ignore_eos=True)
    assert first.usage.cached_tokens == 0
    assert [choice.usage.cached_tokens for choice in others] == [99] * 3


def test_the_likeliest_choice_is_the_same_each_time(engine: Engine) -> None:
    choices = engine.choices("A model", n=4, temperature=0, max_tokens=9)
    assert len({choice.token_ids for choice in choices}) == 1


def test_a_conversation_may_have_several_answers(engine: Engine) -> None:
    messages = [{"role": "user", "content": "Hello"}]
    options: dict[str, Any] = {"max_tokens": 8, "temperature": 1.5, "seed": 3}
    first, second = engine.submit_chat(messages, n=2, **options).results()
    assert first.token_ids == engine.chat(messages, **options).token_ids
    assert first.token_ids != second.token_ids


@pytest.mark.parametrize("top", [0, 1, 20])
def test_log_probabilities_are_those_of_the_scores(engine: Engine, top: int) -> None:
    ids = engine.tokenizer.encode(TEXT)
    options: dict[str, Any] = {"max_tokens": 12, "temperature": 0.9, "seed": 2, "ignore_eos": True}
    generation = engine.submit(ids, logprobs=True, top_logprobs=top, **options)
    said = [one for piece in generation for one in piece.logprobs]
    completion = generation.result()
    assert completion.logprobs == tuple(said)
    assert completion.token_ids == engine.generate(ids, **options).token_ids
    assert [one.token_id for one in said] == list(completion.token_ids)
    scores = engine.score([*ids, *completion.token_ids])[len(ids) - 1 : -1].astype(np.float64)
    expected = scores - np.log(np.exp(scores).sum(-1, keepdims=True))
    for one, row in zip(said, expected, strict=True):
        assert one.logprob == pytest.approx(row[one.token_id], abs=1e-4)
        assert [i for i, _ in one.top] == np.argsort(-row, kind="stable")[:top].tolist()
        assert [value for _, value in one.top] == pytest.approx(np.sort(row)[::-1][:top], abs=1e-4)


def test_log_probabilities_are_for_who_asks(engine: Engine) -> None:
    with_them = engine.submit(TEXT, logprobs=True, top_logprobs=2, max_tokens=10, temperature=0)
    without = engine.submit(TEXT, max_tokens=10, temperature=0)
    assert without.result().logprobs is None
    shown = json.loads(json.dumps(with_them.result().to_json()))
    assert len(shown["logprobs"]) == len(shown["token_ids"])
    assert with_them.result().token_ids == without.result().token_ids
