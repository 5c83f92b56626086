"""The bytes of tokens, one after the other, are the text that they are decoded to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise_runtime.errors import UnsupportedError
from edgewise_runtime.text.token_bytes import bytes_of_tokens
from edgewise_runtime.text.tokenizer import Tokenizer

GOLDENS = Path(__file__).parent / "goldens"
KINDS = ("byte_fallback", "one_digit", "prefix_space", "three_digits")
TOKENIZERS = {kind: Tokenizer.from_folder(GOLDENS / kind) for kind in KINDS}
BYTES = {kind: TOKENIZERS[kind].token_bytes(TOKENIZERS[kind].vocab_size) for kind in KINDS}
BEFORE = "a"
"""Some decoders leave a space out at the start of a text."""
kinds = pytest.mark.parametrize("kind", KINDS)


def spelled(kind: str, ids: list[int]) -> str:
    return b"".join(BYTES[kind][i] or b"" for i in ids).decode(errors="replace")


def is_text(kind: str, ids: list[int]) -> bool:
    text, decoded = spelled(kind, ids), TOKENIZERS[kind].decode(ids, skip_special_tokens=True)
    return text in (decoded, f" {decoded}")


@kinds
@given(st.text())
def test_they_are_the_text_that_was_encoded(kind: str, text: str) -> None:
    assert is_text(kind, TOKENIZERS[kind].encode(BEFORE + text, add_special_tokens=False))


@kinds
@given(st.data())
def test_tokens_in_any_order_are_what_they_decode_to(kind: str, data: st.DataObject) -> None:
    first = TOKENIZERS[kind].encode(BEFORE, add_special_tokens=False)
    ids = first + data.draw(st.lists(st.integers(0, len(BYTES[kind]) - 1), max_size=8))
    assert "\ufffd" in spelled(kind, ids) or is_text(kind, ids)


@kinds
def test_what_is_skipped_and_what_is_no_token_has_none(kind: str) -> None:
    tokenizer = TOKENIZERS[kind]
    assert tokenizer.token_bytes(tokenizer.vocab_size + 9)[-1] is None
    for token in tokenizer.added_tokens():
        number = tokenizer.id_of(token.content)
        assert number is not None
        assert (BYTES[kind][number] is None) == token.special
        shown = tokenizer.token_bytes(number + 1, shown=(f"{token.content}!",))
        assert shown[number] == token.content.encode()


STRIP = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
REPLACE = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}


@pytest.mark.parametrize(
    "specs",
    [
        [{"type": "between spaces"}],
        [{"type": "WordPiece", "prefix": "##", "cleanup": True}],
        [{"type": "ByteFallback"}, STRIP],
        [{"type": "Fuse"}, {**STRIP, "stop": 1}],
        [{"type": "Fuse"}, REPLACE],
        [{**REPLACE, "pattern": {"Regex": "."}}],
    ],
    ids=str,
)
def test_a_decoder_by_which_tokens_depend_on_others_is_refused(specs: list[dict[str, Any]]) -> None:
    with pytest.raises(UnsupportedError) as caught:
        bytes_of_tokens(specs)
    assert caught.value.code == "unsupported.decoder"


def test_marks_and_bytes_are_spelled_out() -> None:
    bytes_of = bytes_of_tokens([REPLACE, {"type": "ByteFallback"}, {"type": "Fuse"}, STRIP])
    assert [bytes_of(token) for token in ("<0xE2>", "▁a▁", "é")] == [b"\xe2", b" a ", "é".encode()]
