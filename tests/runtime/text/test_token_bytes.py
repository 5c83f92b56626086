"""The bytes of tokens, joined, are the text that they are decoded to."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models

from edgewise_runtime.errors import UnsupportedError
from edgewise_runtime.text import Tokenizer
from edgewise_runtime.text.token_bytes import token_bytes

GOLDENS = Path(__file__).parent / "goldens"
KINDS = ["three_digits", "one_digit", "prefix_space", "byte_fallback"]


@cache
def loaded(kind: str) -> Tokenizer:
    return Tokenizer.from_folder(GOLDENS / kind)


@cache
def bytes_of(kind: str, shown: tuple[str, ...] = ()) -> list[bytes | None]:
    return token_bytes(loaded(kind), loaded(kind).vocab_size + 4, shown=shown)


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_tokens_joined_are_their_text(kind: str, data: st.DataObject) -> None:
    tokenizer, table = loaded(kind), bytes_of(kind)
    begun = tokenizer.encode("a", add_special_tokens=False)
    ids = begun + data.draw(st.lists(st.integers(0, len(table) - 1), max_size=30))
    stream = tokenizer.stream()
    joined = b"".join(table[token] or b"" for token in ids)
    said = stream.push(ids) + stream.finish()
    try:
        expected = joined.decode()
    except UnicodeDecodeError:
        return  # of what is no text tokenizers make several things
    assert said == (expected.removeprefix(" ") if kind == "byte_fallback" else expected)


@pytest.mark.parametrize("kind", KINDS)
def test_special_tokens_are_of_no_text_unless_they_are_shown(kind: str) -> None:
    special = [token for token in loaded(kind).added_tokens() if token.special]
    for token in special:
        token_id = loaded(kind).id_of(token.content)
        assert token_id is not None
        assert bytes_of(kind)[token_id] is None
        assert bytes_of(kind, (f"{token.content}!",))[token_id] == token.content.encode()
    assert special


def test_ids_beyond_the_tokenizer_and_ends_are_of_no_text() -> None:
    tokenizer = loaded("one_digit")
    [letter] = tokenizer.encode("a", add_special_tokens=False)
    table = token_bytes(tokenizer, tokenizer.vocab_size + 4, without=[letter])
    assert table[letter] is None
    assert table[-4:] == [None] * 4
    assert bytes_of("one_digit")[letter] == b"a"


@pytest.mark.parametrize(
    "decoder",
    [None, decoders.Strip(" ", 0, 1), decoders.Strip("x", 1, 0), decoders.Strip(" ", 2, 0)],
)
def test_tokens_without_bytes_of_their_own_are_refused(decoder: decoders.Decoder | None) -> None:
    backend = Backend(models.WordLevel({"a": 0}, unk_token="a"))
    if decoder is not None:
        backend.decoder = decoder
    with pytest.raises(UnsupportedError, match="cannot be held") as caught:
        token_bytes(Tokenizer(backend), 1)
    assert caught.value.code == "unsupported.constraint"
