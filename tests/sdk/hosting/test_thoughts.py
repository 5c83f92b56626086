"""Of an answer's tokens those are told apart that were thought."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise import AsyncEngine
from edgewise.deltas import Reasoning
from edgewise.hosting.base import Ask, Said
from edgewise.hosting.local import LocalModel
from edgewise.hosting.thoughts import thought_tokens
from tests.sdk.hosting.asking import ended, events, run

TOKENS = ["<think>", "</think>", "a", "b", " ", "wait", ". ", "So", "<|end|>", "日", "\ufffd"]


def decode(ids: Sequence[int]) -> str:
    return "".join(TOKENS[one] for one in ids)


def ids_of(*tokens: str) -> list[int]:
    return [TOKENS.index(one) for one in tokens]


@pytest.mark.parametrize(
    ("thought", "tokens", "count"),
    [
        ("", ("a", "b"), 0),
        ("a", ("<think>", "a", "</think>", "b"), 2),
        (" a ", ("<think>", " ", "a", " ", "</think>", "b"), 3),
        ("a", ("a", "</think>", "a"), 1),
        ("wait. So", ("<think>", "wait", ". ", "So"), 4),
        ("ab", ("<think>", "a", "</think>", "wait", "<think>", "b", "</think>", "So"), 6),
        ("日", ("<think>", "日", "</think>"), 2),
        ("日日", ("a", "b"), 0),
    ],
)
def test_tokens_up_to_the_end_of_the_thought_count(
    thought: str, tokens: tuple[str, ...], count: int
) -> None:
    assert thought_tokens(thought, ids_of(*tokens), decode) == count


@given(st.lists(st.sampled_from(range(2, 9)), min_size=1), st.lists(st.sampled_from(range(2, 9))))
def test_what_follows_a_thought_does_not_count(thought: list[int], said: list[int]) -> None:
    text = decode(thought).strip()
    count = thought_tokens(text, [0, *thought, 1, *said], decode)
    kept = [at for at, one in enumerate(thought) if TOKENS[one].strip()]
    assert count == (2 + kept[-1] if kept else 0)


def test_a_model_s_thoughts_are_counted(calling: Path) -> None:
    async def scenario() -> None:
        model = LocalModel("tiny", await AsyncEngine.load(calling))
        try:
            for seed in range(4):
                options = {"max_tokens": 24, "seed": seed, "reasoning": {"enabled": True}}
                ask = Ask(messages=[{"role": "user", "content": "Why?"}], options=options)
                told = await events(model, ask)
                (end,) = ended(told)
                steps = [one for one in told if isinstance(one, Said)]
                only = [one for one in steps if all(isinstance(d, Reasoning) for d in one.deltas)]
                least = sum(len(one.token_ids) for one in only if one.deltas)
                assert (end.thought_tokens > 0) == bool(end.reasoning.strip())
                assert end.thought_tokens <= end.usage.completion_tokens
                assert end.thought_tokens >= min(least - 1, 1)
        finally:
            await model.close()

    run(scenario())
