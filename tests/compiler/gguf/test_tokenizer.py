"""Metadata becomes a tokenizer that cuts text as its original does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer, pre_tokenizers

from edgewise_compiler.gguf.tokenizer import tokenizer_files

BYTES = sorted(pre_tokenizers.ByteLevel.alphabet())
TOKENS = [*BYTES, "<s>", "</s>", "<|im_end|>", "<tool>", "ab", "abc"]
BEGIN, END, TURN, TOOL = range(256, 260)


def metadata(**changes: Any) -> dict[str, Any]:
    """A byte-level tokenizer with two merges; ``...`` removes a key."""
    pairs = {
        "model": "gpt2",
        "pre": "gpt-2",
        "tokens": TOKENS,
        "token_type": np.array([1] * 256 + [3, 3, 1, 4, 1, 1], np.int32),
        "merges": ["a b", "ab c"],
        "bos_token_id": BEGIN,
        "eos_token_id": END,
    } | changes
    return {f"tokenizer.ggml.{key}": value for key, value in pairs.items() if value is not ...}


def made(**changes: Any) -> dict[str, Any]:
    return tokenizer_files(metadata(**changes), Path("model.gguf"))


def backend(**changes: Any) -> Tokenizer:
    return Tokenizer.from_str(json.dumps(made(**changes)["tokenizer.json"]))


def pieces(pre: str, text: str) -> list[str]:
    """How ``text`` is cut, before any merge."""
    cut = backend(pre=pre).pre_tokenizer
    assert cut is not None
    return [text[start:end] for _, (start, end) in cut.pre_tokenize_str(text)]


TEXT = "I'LL pay 1234.5 €!\r\n\r\n  don't\tgo   ½"


@pytest.mark.parametrize(
    ("pre", "expected"),
    [
        ("gpt-2", ["I", "'", "LL", " pay", " 1234", ".", "5", " €!", "\r\n\r\n ", " don", "'t",
                   "\t", "go", "  ", " ½"]),
        ("smollm", ["I", "'", "LL", " pay", " ", "1", "2", "3", "4", ".", "5", " €!", "\r\n\r\n ",
                    " don", "'t", "\t", "go", "   ", "½"]),
        ("qwen2", ["I", "'LL", " pay", " ", "1", "2", "3", "4", ".", "5", " €!\r\n\r\n", " ",
                   " don", "'t", "\tgo", "  ", " ", "½"]),
        ("llama-bpe", ["I", "'LL", " pay", " ", "123", "4", ".", "5", " €!\r\n\r\n", " ", " don",
                       "'t", "\tgo", "  ", " ", "½"]),
    ],
)  # fmt: skip
def test_text_is_cut_by_the_named_rules(pre: str, expected: list[str]) -> None:
    assert pieces(pre, TEXT) == expected


def test_merges_apply_in_their_order() -> None:
    assert [TOKENS[i] for i in backend().encode("abcab a").ids] == ["abc", "ab", "Ġ", "a"]


def test_a_merge_may_begin_with_a_space() -> None:
    merges = made(tokens=[*TOKENS, " b", "  b"], token_type=..., merges=["  b"])
    assert merges["tokenizer.json"]["model"]["merges"] == [[" ", "b"]]


def test_special_tokens_are_known_by_type_and_ends_of_turns_by_their_text() -> None:
    files = made()
    added = {token["id"]: token["special"] for token in files["tokenizer.json"]["added_tokens"]}
    assert added == {BEGIN: True, END: True, TURN: True, TOOL: False}
    assert files["generation_config.json"] == {
        "bos_token_id": BEGIN,
        "eos_token_id": [END, TURN],
    }
    assert files["tokenizer_config.json"]["eos_token"] == "</s>"
    assert backend().encode("a<|im_end|><tool>").ids == [TOKENS.index("a"), TURN, TOOL]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ["a"]),
        ({"add_bos_token": True}, ["<s>", "a"]),
        ({"add_bos_token": True, "add_eos_token": True}, ["<s>", "a", "</s>"]),
        ({"pre": "llama-bpe"}, ["<s>", "a"]),
        ({"pre": "llama-bpe", "add_bos_token": False}, ["a"]),
        ({"pre": "llama-bpe", "bos_token_id": ...}, ["a"]),
        ({"add_bos_token": True, "bos_token_id": (1 << 32) - 1}, ["a"]),
    ],
)
def test_texts_begin_and_end_as_the_file_says(changes: dict[str, Any], expected: list[str]) -> None:
    assert backend(**changes).encode("a").tokens == expected


def test_named_templates_are_kept_by_name() -> None:
    named = {
        "tokenizer.chat_template": "a",
        "tokenizer.chat_template.tool_use": "b",
    }
    files = tokenizer_files(metadata() | named, Path("model.gguf"))
    templates = {t["name"]: t["template"] for t in files["tokenizer_config.json"]["chat_template"]}
    assert templates == {"default": "a", "tool_use": "b"}
