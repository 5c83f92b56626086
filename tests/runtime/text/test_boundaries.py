"""Texts are cut only where the parts have the ids of the whole, whatever the tokenizer."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Backend
from tokenizers.models import BPE, Unigram, WordLevel

from edgewise_runtime.errors import CheckpointError
from edgewise_runtime.text import Tokenizer
from edgewise_runtime.text.boundaries import boundaries
from tests.runtime.text.test_segments import KINDS, tokenizer_of

ALPHABET = "abAB <>▁\n"
PAIRS = ["".join(pair) for pair in product(ALPHABET, ALPHABET) if pair[0] < pair[1]]
VOCAB = {text: i for i, text in enumerate([*ALPHABET, *PAIRS, "?"])}

NORMALIZERS: tuple[Callable[[], Any] | None, ...] = (
    None,
    normalizers.NFC,
    normalizers.Lowercase,
    lambda: normalizers.Prepend("▁"),
    lambda: normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]),
    lambda: normalizers.Replace("ab", ""),
)
PRE_TOKENIZERS: tuple[Callable[[], Any] | None, ...] = (
    None,
    lambda: pre_tokenizers.Metaspace(prepend_scheme="first"),
    lambda: pre_tokenizers.Metaspace(prepend_scheme="first", split=False),
    lambda: pre_tokenizers.Metaspace(prepend_scheme="always"),
    lambda: pre_tokenizers.Metaspace(prepend_scheme="never"),
    lambda: pre_tokenizers.ByteLevel(add_prefix_space=True),
    lambda: pre_tokenizers.Split(Regex(r"\s+(?!\S)|\s+|a+|b+"), "isolated"),
    pre_tokenizers.Whitespace,
)


def backend_of(
    *tokens: AddedToken, normalizer: Any = None, pre_tokenizer: Any = None, **model: Any
) -> Backend:
    merges = [(pair[0], pair[1]) for pair in PAIRS]
    backend = Backend(BPE(VOCAB, merges, unk_token="?", **model))
    if normalizer is not None:
        backend.normalizer = normalizer
    if pre_tokenizer is not None:
        backend.pre_tokenizer = pre_tokenizer
    backend.add_tokens(list(tokens))
    return backend


def mark(content: str, **flags: bool) -> AddedToken:
    return AddedToken(content, **{"special": True, "normalized": False, **flags})


flags = st.fixed_dictionaries(
    {"special": st.booleans(), "normalized": st.booleans()},
    optional={"lstrip": st.booleans(), "rstrip": st.booleans()},
)
contents = st.text(ALPHABET, min_size=1, max_size=4)
added = st.lists(st.builds(lambda text, more: mark(text, **more), contents, flags), max_size=6)


def ids_of(backend: Backend, parts: list[str]) -> list[int] | None:
    """The ids of parts one after the other; None where the tokenizers package fails on one."""
    tokenizer = Tokenizer(backend)
    try:
        return [i for part in parts for i in tokenizer.encode(part, add_special_tokens=False)]
    except CheckpointError:
        return None


@given(
    added,
    contents,
    st.sampled_from(NORMALIZERS),
    st.sampled_from(PRE_TOKENIZERS),
    st.lists(st.text(ALPHABET, max_size=40), min_size=1, max_size=3),
)
def test_the_ids_of_the_parts_are_those_of_the_whole(
    tokens: list[AddedToken],
    clean: str,
    normalizer: Callable[[], Any] | None,
    pre_tokenizer: Callable[[], Any] | None,
    pieces: list[str],
) -> None:
    backend = backend_of(
        *tokens,
        mark(clean),
        normalizer=normalizer and normalizer(),
        pre_tokenizer=pre_tokenizer and pre_tokenizer(),
    )
    cut, text = boundaries(backend), clean.join(pieces)
    if cut is None:
        assert clean[0].isspace()
        return
    parts = cut.parts(text)
    assert "".join(parts) == text
    assert "" not in parts
    assert ids_of(backend, parts) == ids_of(backend, [text])


@pytest.mark.parametrize("kind", KINDS)
def test_the_tokenizers_of_all_fixtures_can_be_cut(kind: str) -> None:
    cut = tokenizer_of(kind).boundaries()
    assert cut is not None
    start = min(cut.starts)
    assert cut.parts(f"a{start}b{start}{start}") == ["a", f"{start}b", start, start]


def test_the_longest_token_is_the_one_that_cuts() -> None:
    cut = boundaries(backend_of(mark("<a"), mark("<a>"), mark("<ab"), mark("<aba", special=False)))
    assert cut is not None
    assert cut.parts("<a<a><ab<aba>b") == ["<a", "<a>", "<ab<aba>b"]


@pytest.mark.parametrize(
    "backend",
    [
        backend_of(),
        backend_of(mark("<a>", normalized=True)),
        backend_of(mark("<a>", special=False)),
        backend_of(mark("<a>", lstrip=True)),
        backend_of(mark("<a>", rstrip=True)),
        backend_of(mark("<a>"), mark("b", single_word=True)),
        backend_of(mark("\n<a>")),
        backend_of(mark("<a>"), dropout=0.5),
        Backend(WordLevel({"<a>": 0}, unk_token="<a>")),
    ],
)
def test_texts_are_not_cut_where_the_ids_might_change(backend: Backend) -> None:
    assert boundaries(backend) is None


def test_a_model_that_is_not_known_is_not_cut() -> None:
    backend = Backend(Unigram([("a", 0.0)], 0))
    backend.add_special_tokens([mark("<a>")])
    assert boundaries(backend) is None


def template(single: str) -> processors.TemplateProcessing:
    return processors.TemplateProcessing(single=single, special_tokens=[("<a>", 0)])


@pytest.mark.parametrize(
    ("processor", "cuts"),
    [
        (template("<a> $A <a>"), True),
        (template("$A $A"), False),
        (template("<a>"), False),
        (processors.Sequence([processors.ByteLevel(), template("$A <a>")]), True),
        (processors.Sequence([processors.ByteLevel(), template("$A $A")]), False),
        (processors.BertProcessing(("<a>", 0), ("<a>", 0)), True),
        (processors.RobertaProcessing(("<a>", 0), ("<a>", 0)), True),
    ],
)
def test_post_processors_may_add_tokens_but_not_move_text(processor: Any, cuts: bool) -> None:
    backend = backend_of(mark("<a>"))
    backend.post_processor = processor
    cut, text = boundaries(backend), "ab<a>ba<a>"
    assert (cut is not None) == cuts
    parts = cut.parts(text) if cut else [text]
    assert ids_of(backend, parts) == backend.encode(text, add_special_tokens=False).ids


def test_special_tokens_taken_for_text_do_not_cut() -> None:
    backend = backend_of(mark("<a>"))
    backend.encode_special_tokens = True
    assert boundaries(backend) is None


def test_thousands_of_tokens_cut_like_few() -> None:
    names = [f"<unused{number}>" for number in range(6000)] + ["\n" * n for n in range(1, 32)]
    backend = backend_of(*map(mark, names))
    cut, text = boundaries(backend), "a<unused17>\n\n\n<unused599<unused5999>b<<<<unused"
    assert cut is not None
    assert cut.parts(text) == ["a", "<unused17>\n\n\n<unused599", "<unused5999>b<<<<unused"]


@pytest.mark.parametrize(
    "names",
    [
        ["a" * length for length in range(1, 3000)],
        [f"<{number}>" for number in range(70_000)],
        ["<" + "a" * (2 << 20)],
    ],
)
def test_tokens_too_many_or_too_deep_do_not_cut(names: list[str]) -> None:
    assert boundaries(backend_of(*map(mark, names))) is None
