"""Prompt lookup against its definition, searched for from scratch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from edgewise_runtime.engine.sampling import SamplingParams
from edgewise_runtime.engine.speculate.base import DraftView
from edgewise_runtime.engine.speculate.lookup import PromptLookup
from edgewise_runtime.errors import InputError

PARAMS = SamplingParams()


def view(tokens: Sequence[int], key: int = 0) -> DraftView:
    return DraftView(key, tokens, prompt_len=1, params=PARAMS, seed=0)


def propose(tokens: Sequence[int], k: int = 4, **options: int) -> tuple[int, ...]:
    return PromptLookup(**options).propose(view(tokens), k)


def expected(
    tokens: Sequence[int], k: int, longest: int, shortest: int, window: int
) -> tuple[int, ...]:
    """The most recent earlier occurrence of the longest ending, looked for everywhere."""
    size = len(tokens)
    for length in range(longest, shortest - 1, -1):
        for start in range(size - 1, max(length, size - window) - 1, -1):
            if list(tokens[start - length : start]) == list(tokens[size - length :]):
                copied = list(tokens)
                for i in range(k):
                    copied.append(copied[start + i])
                return tuple(copied[size:])
    return ()


def test_what_followed_the_same_words_before_follows_again() -> None:
    assert propose([1, 2, 3, 4, 5, 6, 9, 2, 3]) == (4, 5, 6, 9)


def test_the_longest_match_wins_over_a_later_shorter_one() -> None:
    assert propose([1, 2, 3, 70, 0, 3, 80, 1, 2, 3], k=1) == (70,)


def test_of_equal_matches_the_latest_wins() -> None:
    assert propose([1, 2, 70, 0, 1, 2, 80, 5, 1, 2], k=1) == (80,)


def test_a_loop_is_gone_round() -> None:
    assert propose([9, 1, 2, 3, 1, 2, 3], k=8) == (1, 2, 3, 1, 2, 3, 1, 2)
    assert propose([5, 5], k=3) == (5, 5, 5)


@pytest.mark.parametrize("tokens", [[], [1], [1, 2, 3]])
def test_without_a_repetition_there_is_no_draft(tokens: list[int]) -> None:
    assert propose(tokens) == ()


def test_matches_shorter_than_asked_for_do_not_count() -> None:
    tokens = [1, 2, 3, 9, 1, 2]
    assert propose(tokens, k=1, ngram_min=2) == (3,)
    assert propose(tokens, k=1, ngram_min=3) == ()


@pytest.mark.parametrize("k", [0, -1])
def test_a_draft_of_no_tokens_is_empty(k: int) -> None:
    assert propose([1, 1, 1], k=k) == ()


def test_several_sequences_at_once() -> None:
    wanted = [(view([5, 5], key=1), 3), (view([1, 2], key=2), 3), (view([7, 8, 7], key=3), 1)]
    assert PromptLookup().propose_all(wanted) == [(5, 5, 5), (), (8,)]


def test_sequences_do_not_see_each_other() -> None:
    lookup = PromptLookup()
    lookup.propose(view([1, 2, 3, 1], key=1), 1)
    assert lookup.propose(view([2, 9, 1], key=2), 1) == ()


@pytest.mark.parametrize("drop", [lambda lookup: lookup.forget(0), PromptLookup.close])
def test_a_forgotten_key_begins_anew(drop: Callable[[PromptLookup], Any]) -> None:
    lookup = PromptLookup()
    lookup.propose(view([1, 2, 3, 4, 1]), 1)
    drop(lookup)
    drop(lookup)
    assert lookup.propose(view([7, 8, 1]), 1) == ()
    assert lookup.propose(view([7, 8, 1, 7]), 1) == (8,)


def test_a_text_that_got_shorter_is_taken_for_another() -> None:
    lookup = PromptLookup()
    lookup.propose(view([1, 2, 3, 4, 5, 6, 1, 2]), 1)
    assert lookup.propose(view([6, 7, 1]), 1) == ()
    assert lookup.propose(view([6, 7, 1, 6]), 1) == (7,)


@pytest.mark.parametrize(
    "options",
    [{"ngram_min": 0}, {"ngram_min": 5}, {"ngram_max": 0}, {"window": 0}],
)
def test_lengths_that_do_not_fit_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(InputError) as refused:
        PromptLookup(**options)
    assert refused.value.code == "input.draft"


@given(
    tokens=st.lists(st.integers(0, 2), max_size=40),
    lengths=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    window=st.integers(1, 45),
    k=st.integers(1, 9),
)
def test_a_whole_prompt_at_once(
    tokens: list[int], lengths: tuple[int, int], window: int, k: int
) -> None:
    shortest, longest = sorted(lengths)
    found = propose(tokens, k, ngram_min=shortest, ngram_max=longest, window=window)
    assert found == expected(tokens, k, longest, shortest, window)


class GrowingSequences(RuleBasedStateMachine):
    """Several sequences that grow by steps of any size, some of them forgotten on the way."""

    def __init__(self) -> None:
        super().__init__()
        self.lookup = PromptLookup(ngram_max=3, ngram_min=1, window=10)
        self.texts: dict[int, list[int]] = {}
        self.keys = 0

    @rule(tokens=st.lists(st.integers(0, 3), min_size=1, max_size=30))
    def begin(self, tokens: list[int]) -> None:
        self.texts[self.keys] = tokens
        self.keys += 1

    @precondition(lambda self: self.texts)
    @rule(data=st.data(), tokens=st.lists(st.integers(0, 3), max_size=14), k=st.integers(1, 5))
    def go_on(self, data: st.DataObject, tokens: list[int], k: int) -> None:
        key = data.draw(st.sampled_from(sorted(self.texts)))
        text = self.texts[key]
        text += tokens
        assert self.lookup.propose(view(text, key), k) == expected(text, k, 3, 1, 10)

    @precondition(lambda self: self.texts)
    @rule(data=st.data())
    def forget(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.texts)))
        del self.texts[key]
        self.lookup.forget(key)


TestGrowingSequences = GrowingSequences.TestCase


def test_a_sequence_takes_memory_for_its_window_only() -> None:
    """The n-grams kept, whatever the length: four for each of the last 50 tokens."""
    lookup, tokens = PromptLookup(window=50), list[int]()
    for token in range(400):
        tokens.append(token)
        lookup.propose(view(tokens), 1)
    [index] = lookup._indexes.values()
    assert len(index._followed) == 200
