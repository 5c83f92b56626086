"""Streamed pieces joined are the decoded text, at every split, in linear time."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models

from edgewise_runtime.errors import InputError, UnsupportedError
from edgewise_runtime.text import Detokenizer, Tokenizer
from tests.runtime.text.corpus import TEXTS

GOLDENS = Path(__file__).parent / "goldens"
KINDS = ["three_digits", "one_digit", "prefix_space", "byte_fallback"]
DECODERS = {
    "none": None,
    "metaspace": decoders.Metaspace(),
    "metaspace without a prefix": decoders.Metaspace(prepend_scheme="never"),
    # The reference panics where it would strip more from the end than there is.
    "strip of a start": decoders.Sequence([decoders.Fuse(), decoders.Strip("▁", 2, 0)]),
    "strip of an end": decoders.Sequence([decoders.Fuse(), decoders.Strip("▁", 0, 1)]),
    "strip of starts": decoders.Sequence([decoders.Strip("▁", 2, 0), decoders.Fuse()]),
    "strip of ends": decoders.Sequence([decoders.Strip("▁", 0, 1), decoders.Fuse()]),
    "replace after fuse": decoders.Sequence(
        [decoders.ByteFallback(), decoders.Fuse(), decoders.Replace("▁", "--")]
    ),
    "bytes, then strip": decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", 2, 0)]),
}
WORDS = ["▁", "▁▁", "a", "▁a", "b▁", "Ġ", "é", "<0x41>", "<0xC3>", "<0xA9>", "<0x+9>", "Ã", "©"]


@cache
def loaded(kind: str) -> Tokenizer:
    return Tokenizer.from_folder(GOLDENS / kind)


def streamed(detokenizer: Detokenizer, ids: list[int], sizes: list[int]) -> list[str]:
    """Pieces of `ids` pushed `sizes` at a time, cyclically."""
    pieces, start, turn = [], 0, 0
    while start < len(ids):
        size = sizes[turn % len(sizes)]
        pieces.append(detokenizer.push(ids[start : start + size]))
        start, turn = start + size, turn + 1
    return [*pieces, detokenizer.finish()]


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_random_ids_in_random_splits_give_the_decoded_text(kind: str, data: st.DataObject) -> None:
    tokenizer = loaded(kind)
    ids = data.draw(st.lists(st.integers(0, tokenizer.vocab_size + 3), max_size=60))
    sizes = data.draw(st.lists(st.integers(1, 7), min_size=1, max_size=4))
    for skip in (True, False):
        detokenizer = tokenizer.stream(skip_special_tokens=skip)
        expected = tokenizer.decode(ids, skip_special_tokens=skip)
        assert "".join(streamed(detokenizer, ids, sizes)) == expected


@pytest.mark.parametrize("name", DECODERS)
@given(data=st.data())
def test_every_decoder_step_is_the_same_as_decoding_at_once(name: str, data: st.DataObject) -> None:
    backend = Backend(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="a"))
    if DECODERS[name] is not None:
        backend.decoder = DECODERS[name]
    ids = data.draw(st.lists(st.integers(0, len(WORDS) - 1), min_size=1, max_size=12))
    sizes = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    assert "".join(streamed(Detokenizer(backend), ids, sizes)) == backend.decode(ids)


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [("▁▁a▁▁▁▁", "a▁"), ("▁▁▁▁▁▁", "▁"), ("▁▁", ""), ("▁", ""), ("▁a", "a"), ("a▁a▁▁", "a▁a")],
)
def test_both_ends_of_a_text_are_stripped(tokens: str, expected: str) -> None:
    backend = Backend(models.WordLevel({"▁": 0, "a": 1}, unk_token="a"))
    backend.decoder = decoders.Sequence([decoders.Fuse(), decoders.Strip("▁", 2, 3)])
    ids = [0 if token == "▁" else 1 for token in tokens]
    assert "".join(streamed(Detokenizer(backend), ids, [1])) == expected
    assert "".join(streamed(Detokenizer(backend), ids, [2, 3])) == expected


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("index", range(len(TEXTS)))
def test_no_piece_ends_inside_a_character(kind: str, index: int) -> None:
    tokenizer = loaded(kind)
    ids = tokenizer.encode(TEXTS[index])
    pieces = streamed(tokenizer.stream(), ids, [1])
    assert "".join(pieces) == tokenizer.decode(ids, skip_special_tokens=True)
    if "\ufffd" not in TEXTS[index]:
        assert not any("\ufffd" in piece for piece in pieces)


def test_bytes_that_never_become_a_character_are_replaced_at_the_end() -> None:
    tokenizer = loaded("three_digits")
    first_bytes = tokenizer.encode("a", add_special_tokens=False)
    half = [i for c in "Ð" if (i := tokenizer.id_of(c)) is not None]
    detokenizer = tokenizer.stream()
    assert detokenizer.push(first_bytes + half) == "a"
    assert detokenizer.finish() == "\ufffd"


@pytest.mark.parametrize("kind", KINDS)
def test_the_time_grows_with_the_text_not_its_square(kind: str) -> None:
    tokenizer = loaded(kind)
    ids = [i % tokenizer.vocab_size for i in range(0, 200_000, 7)]

    def seconds(count: int) -> float:
        detokenizer, start = tokenizer.stream(), process_time()
        for token in ids[:count]:
            detokenizer.push([token])
        detokenizer.finish()
        return process_time() - start

    seconds(100)
    few, many = min(seconds(2_000) for _ in range(3)), seconds(20_000)
    assert many < 40 * few  # ten times the ids; a quadratic one would take a hundred times


@pytest.mark.parametrize(
    "decoder",
    [
        decoders.CTC(),
        decoders.Sequence([decoders.Fuse(), decoders.WordPiece()]),
        decoders.Sequence([decoders.Fuse(), decoders.BPEDecoder()]),
        decoders.Sequence([decoders.Fuse(), decoders.Replace("ab", "c")]),
        decoders.Sequence([decoders.Fuse(), decoders.ByteFallback()]),
        decoders.Sequence([decoders.Fuse(), decoders.Metaspace()]),
        decoders.Sequence([decoders.ByteLevel(), decoders.ByteLevel()]),
    ],
)
def test_a_decoder_that_cannot_be_streamed_is_named(decoder: decoders.Decoder) -> None:
    backend = Backend(models.WordLevel({"a": 0}, unk_token="a"))
    backend.decoder = decoder
    kind = json.loads(decoder.__getstate__())["type"]
    with pytest.raises(UnsupportedError, match="cannot be streamed") as caught:
        Detokenizer(backend)
    assert kind in ("Sequence", "CTC")
    assert caught.value.remedy


def test_an_impossible_id_is_refused() -> None:
    with pytest.raises(InputError, match="-5"):
        loaded("one_digit").stream().push([-5])
