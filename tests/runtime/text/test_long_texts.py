"""Long texts let other threads go on, and are refused by their characters where that is certain."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cache
from threading import Event

import pytest
from tokenizers import AddedToken
from tokenizers import Tokenizer as Backend
from tokenizers.models import BPE

from edgewise_runtime.errors import InputError
from edgewise_runtime.format.tokenizer_rules import Rules
from edgewise_runtime.text import Tokenizer
from tests.runtime.text.corpus import TEXTS, fuzzed
from tools.make_text_cases import FOLDERS, ROOT

KINDS = sorted(FOLDERS)


@cache
def tokenizer_of(kind: str) -> Tokenizer:
    return Tokenizer.from_folder(ROOT / FOLDERS[kind])


def test_other_threads_go_on_while_a_long_text_is_tokenized() -> None:
    """Where they do not, the counting one is let in about once before it and once after it."""
    done, text = Event(), "The quick brown fox, 123 times. " * 20_000
    tokenizer = tokenizer_of("demo")

    def count() -> int:
        turns = 0
        while not done.wait(0.001):
            turns += 1
        return turns

    with ThreadPoolExecutor(1) as threads:
        turns = threads.submit(count)
        ids = tokenizer.encode(text)
        done.set()
        assert turns.result() > 20
    assert len(ids) > 100_000


@pytest.mark.parametrize("kind", KINDS)
def test_no_text_is_said_to_have_more_tokens_than_it_has(kind: str) -> None:
    tokenizer = tokenizer_of(kind)
    for text in (*TEXTS, *map(fuzzed, range(100))):
        assert not tokenizer.exceeds(text, len(tokenizer.encode(text)))


@pytest.mark.parametrize("kind", KINDS)
def test_a_text_longer_than_so_many_of_the_longest_token_is_known_to_exceed(kind: str) -> None:
    assert tokenizer_of(kind).exceeds("a" * 1_000_000, 1000)


@pytest.mark.parametrize(
    ("rules", "exceeds"),
    [
        (Rules(growth=1, reach=3, drops_spaces=False, linear=True), True),
        (Rules(growth=1, reach=30, drops_spaces=False, linear=True), False),
        (Rules(growth=1, reach=None, drops_spaces=False, linear=True), False),
        (Rules(growth=1, reach=3, drops_spaces=True, linear=True), False),
    ],
)
def test_spaces_count_where_they_stay(rules: Rules, exceeds: bool) -> None:
    tokenizer = Tokenizer(Backend(BPE({"a": 0}, [])), rules=rules)
    assert tokenizer.exceeds("a" + " " * 98 + "b", 10) == exceeds


def test_added_tokens_stand_for_what_they_are_and_for_spaces_beside_them() -> None:
    rules = Rules(growth=1, reach=3, drops_spaces=False, linear=True)
    backend = Backend(BPE({"a": 0}, []))
    backend.add_tokens([AddedToken("x" * 50)])
    assert not Tokenizer(backend, rules=rules).exceeds("x" * 500, 10)
    backend.add_tokens([AddedToken("<a>", lstrip=True)])
    assert not Tokenizer(backend, rules=rules).exceeds(" " * 600, 10)


def test_a_text_that_rules_could_make_too_large_is_refused() -> None:
    rules = Rules(growth=4096, reach=None, drops_spaces=False, linear=True)
    tokenizer = Tokenizer(Backend(BPE({"a": 0}, [])), rules=rules)
    assert len(tokenizer.encode("a" * 8192)) == 8192
    with pytest.raises(InputError, match="8,193 characters") as caught:
        tokenizer.encode("a" * 8193)
    assert caught.value.code == "input.text"
