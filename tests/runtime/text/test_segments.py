"""Prompts tokenized part by part have the ids of the whole, and parts are tokenized once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cache
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken
from tokenizers import Tokenizer as Backend
from tokenizers.models import BPE

from edgewise_runtime.errors import InputError
from edgewise_runtime.text import ChatTemplate, SegmentCache, Tokenizer
from tests.runtime.text.conversations import TEMPLATES, assistant, user
from tests.runtime.text.corpus import TEXTS, fuzzed
from tools.make_text_cases import FOLDERS, ROOT, texts

MARKS = (
    *("<|im_start|>", "<|im_end|>", "<s>", "</s>", "<|begin|>", "<|user|>", "<|end|>"),
    *("<|endoftext|>", "<think>", "▁x"),
)
KINDS = sorted(FOLDERS)


@cache
def tokenizer_of(kind: str) -> Tokenizer:
    return Tokenizer.from_folder(ROOT / FOLDERS[kind])


def whole(tokenizer: Tokenizer, text: str) -> list[int]:
    return tokenizer.encode(text, add_special_tokens=False)


def marked(index: int) -> str:
    """Return text number `index`, always the same: pieces of the corpus between special tokens."""
    rng = Random(index)
    pieces = []
    for _ in range(rng.randint(1, 12)):
        pieces.append(rng.choice(MARKS) if rng.random() < 0.7 else "")
        text = rng.choice((rng.choice(TEXTS)[:80], fuzzed(rng.randrange(10_000))[:80], "", " "))
        pieces.append(text)
    return "".join(pieces)


@pytest.mark.parametrize("kind", KINDS)
def test_every_text_of_the_corpus_has_the_ids_of_the_whole(kind: str) -> None:
    tokenizer = tokenizer_of(kind)
    cache = SegmentCache(tokenizer)
    for text in [*texts(), *map(marked, range(200))]:
        assert cache.encode(text) == whole(tokenizer, text)
        assert cache.encode(text) == whole(tokenizer, text)


written = st.lists(st.one_of(st.sampled_from((*MARKS, " ", "\n")), st.text(max_size=6)))


@pytest.mark.parametrize("kind", KINDS)
@given(written)
def test_any_text_has_the_ids_of_the_whole(kind: str, pieces: list[str]) -> None:
    tokenizer, text = tokenizer_of(kind), "".join(pieces)
    assert SegmentCache(tokenizer).encode(text) == whole(tokenizer, text)


def turns(count: int) -> list[dict[str, str]]:
    return [user(TEXTS[i]) if i % 2 else assistant(TEXTS[i]) for i in range(4, 4 + count)]


def test_the_next_turn_of_a_conversation_tokenizes_only_what_is_new() -> None:
    cache, template = SegmentCache(tokenizer_of("demo")), ChatTemplate(TEMPLATES["chatml"])
    question = "<|im_start|>user\nAnd this?"
    answer = f"<|im_start|>assistant\n{TEXTS[4]}"
    messages = [{"role": "system", "content": "Be kind."}, *turns(9)]
    first = template.render(messages)
    cache.encode(first)
    before = cache.tokenized
    messages += [assistant(TEXTS[4] + "!"), user("And this?")]
    second = template.render(messages)
    cache.encode(second)
    assert cache.tokenized - before == len(answer) + len("!") + len(question)
    assert cache.asked == len(first) + len(second)


def test_a_part_that_comes_twice_is_tokenized_once() -> None:
    cache = SegmentCache(tokenizer_of("demo"))
    cache.encode("<|im_start|>a<|im_end|>" * 100)
    assert cache.tokenized == len("<|im_start|>a<|im_end|>")


def test_a_prompt_cannot_be_changed_through_what_was_returned() -> None:
    cache = SegmentCache(tokenizer_of("demo"))
    expected = list(cache.encode("<|im_start|>a"))
    cache.encode("<|im_start|>a").clear()
    assert cache.encode("<|im_start|>a") == expected


def test_what_was_used_longest_ago_is_forgotten_first() -> None:
    parts = [f"<|im_start|>{letter * 500}" for letter in "abcd"]
    cache = SegmentCache(tokenizer_of("demo"), limit=3 * (len(parts[0]) + 128))
    for part in (*parts[:3], parts[0], parts[3]):
        cache.encode(part)
    before = cache.tokenized
    for part in (parts[0], parts[2], parts[3]):
        cache.encode(part)
    assert cache.tokenized == before
    cache.encode(parts[1])
    assert cache.tokenized == before + len(parts[1])


def test_many_short_parts_count_for_more_than_their_characters() -> None:
    cache = SegmentCache(tokenizer_of("demo"), limit=1400)
    texts = [f"<|im_start|>{letter}" for letter in "abcdefghijkl"]
    for text in texts:
        cache.encode(text)
    before = cache.tokenized
    cache.encode(texts[0])
    assert cache.tokenized > before


def test_a_part_larger_than_the_cache_is_tokenized_and_leaves_the_others_alone() -> None:
    cache = SegmentCache(tokenizer_of("demo"), limit=1000)
    cache.encode("<|im_start|>short")
    before, long = cache.tokenized, "<|im_start|>" + "word " * 300
    for _ in range(2):
        assert cache.encode(long) == whole(tokenizer_of("demo"), long)
    assert cache.tokenized == before + 2 * len(long)
    cache.encode("<|im_start|>short")
    assert cache.tokenized == before + 2 * len(long)


def test_texts_that_cannot_be_cut_are_remembered_whole_the_last_few_of_them() -> None:
    cache = SegmentCache(Tokenizer(uncut()))
    texts = [f"<s>{number}<s>" for number in range(9)]
    for text in (*texts, *texts[1:]):
        cache.encode(text)
    assert cache.tokenized == sum(map(len, texts))
    cache.encode(texts[0])
    assert cache.tokenized == sum(map(len, texts)) + len(texts[0])


def uncut() -> Backend:
    backend = Backend(BPE({"0": 0}, [], unk_token="0"))
    backend.add_special_tokens([AddedToken("<s>", single_word=True, normalized=False)])
    return backend


@pytest.mark.parametrize("text", ["\ud800", "<|im_start|>a\udfffb<|im_end|>"])
def test_a_lone_surrogate_is_refused(text: str) -> None:
    cache = SegmentCache(tokenizer_of("demo"))
    with pytest.raises(InputError, match="surrogate") as caught:
        cache.encode(text)
    assert caught.value.code == "input.text"


def test_threads_get_the_ids_of_the_whole_while_parts_are_forgotten() -> None:
    tokenizer = tokenizer_of("demo")
    cache = SegmentCache(tokenizer, limit=2000)
    prompts = [marked(index) for index in range(40)]
    expected = [whole(tokenizer, text) for text in prompts]
    with ThreadPoolExecutor(8) as threads:
        for ids in threads.map(lambda _: list(map(cache.encode, prompts)), range(16)):
            assert ids == expected
    assert cache.asked == 16 * sum(map(len, prompts))
    assert cache.tokenized <= cache.asked
