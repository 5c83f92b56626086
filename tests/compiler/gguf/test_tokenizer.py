"""Metadata becomes a tokenizer that cuts text as its original does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer, pre_tokenizers

from edgewise_compiler.gguf.byte_level import RULES
from edgewise_compiler.gguf.tokenizer import tokenizer_files
from tests.compiler.gguf import make_pre_goldens
from tests.runtime.text.hashing import WIDTH, packed

PRE = json.loads(make_pre_goldens.GOLDENS.read_text())

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
        ("refact", ["I", "'", "LL", " pay", " ", "1", "2", "3", "4", ".", "5", " €!", "\r\n\r\n ",
                    " don", "'t", "\t", "go", "   ", "½"]),
        ("dbrx", ["I", "'LL", " pay", " ", "123", "4", ".", "5", " €!\r\n\r\n", " ", " don",
                  "'t", "\tgo", "  ", " ", "½"]),
        ("tekken", ["I", "'LL", " pay", " ", "1", "2", "3", "4", ".", "5", " €!\r\n\r\n", " ",
                    " don", "'t", "\tgo", "  ", " ", "½"]),
        ("gpt-4o", ["I'LL", " pay", " ", "123", "4", ".", "5", " €!\r\n\r\n", " ", " don't",
                    "\tgo", "  ", " ", "½"]),
    ],
)  # fmt: skip
def test_text_is_cut_by_the_named_rules(pre: str, expected: list[str]) -> None:
    assert pieces(pre, TEXT) == expected


@pytest.mark.parametrize("pre", PRE)
def test_ids_are_those_of_llama_cpp_where_it_cuts_as_the_original_does(pre: str) -> None:
    files = {
        f"tokenizer.ggml.{key}": value for key, value in make_pre_goldens.metadata(pre).items()
    }
    made = tokenizer_files(files, Path("model.gguf"))["tokenizer.json"]
    ours, golden = Tokenizer.from_str(json.dumps(made)), PRE[pre]
    cases = [
        (text, golden[at * WIDTH :][:WIDTH])
        for at, text in enumerate(make_pre_goldens.texts())
        if make_pre_goldens.comparable(pre, text)
    ]
    assert len(cases) > 40
    assert [text for text, ids in cases if packed(ours.encode(text).ids) != ids] == []


def test_every_way_of_cutting_has_its_ids() -> None:
    assert PRE.keys() == RULES.keys() - {*make_pre_goldens.ALIKE}
    assert {str(RULES[name]) for name in PRE} >= {
        str(rules) for name, rules in RULES.items() if name != "deepseek-r1-qwen"
    }


def test_words_begin_at_capitals_with_their_marks() -> None:
    text = "helloWorld ÄpfelUnd Кот e\u0301a"
    expected = ["hello", "World", " Äpfel", "Und", " Кот", " e\u0301a"]
    assert [pieces(pre, text) for pre in ("tekken", "gpt-4o")] == [expected, expected]


@pytest.mark.parametrize(
    ("more", "ends"),
    [
        (["<end_of_turn>"], ["</s>", "<|im_end|>", "<end_of_turn>"]),
        (["<|end|>"], ["</s>", "<|im_end|>", "<|end|>"]),
        (["<|end|>", "<|return|>", "<|call|>"], ["</s>", "<|im_end|>"]),
    ],
)
def test_what_ends_a_turn_does_so_whatever_its_type(more: list[str], ends: list[str]) -> None:
    tokens = [*TOKENS, *more]
    files = made(tokens=tokens, token_type=np.array([1] * len(tokens), np.int32))
    found = files["generation_config.json"]["eos_token_id"]
    assert [tokens[i] for i in found] == ends


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
