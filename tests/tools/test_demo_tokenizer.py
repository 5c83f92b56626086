"""The tokenizer of the demo model, and the batches made with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jinja2 import Template
from tokenizers import Tokenizer

from tools.demo_corpus import generate
from tools.demo_corpus.tokenizer import CHAT_TEMPLATE, VOCABULARY, token_id, train_tokenizer

MODEL = Path(__file__).resolve().parents[2] / "examples" / "demo-model"


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.from_file(str(MODEL / "tokenizer.json"))


def test_the_vocabulary_is_full(tokenizer: Tokenizer) -> None:
    assert tokenizer.get_vocab_size() == VOCABULARY
    specials = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    assert [token_id(tokenizer, token) for token in specials] == [0, 1, 2]


@pytest.mark.parametrize(
    "text", ["Hello, Zoe!", "  two  spaces\n\n", "naïve 漢字 \U0001f600", "<|x|>"]
)
def test_any_text_survives(tokenizer: Tokenizer, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text).ids) == text


def test_dialogues_take_few_tokens(tokenizer: Tokenizer) -> None:
    text = "".join(generate(5, index).render() for index in range(100))
    assert len(tokenizer.encode(text).ids) < len(text) / 3


def test_a_missing_token_is_an_error(tokenizer: Tokenizer) -> None:
    with pytest.raises(ValueError, match="no <tool>"):
        token_id(tokenizer, "<tool>")


def test_too_little_text_is_an_error() -> None:
    with pytest.raises(ValueError, match="more than 20 dialogues"):
        train_tokenizer(1, 20)


def test_the_chat_template_writes_what_the_model_was_trained_on() -> None:
    template = Template((MODEL / "chat_template.jinja").read_text())
    for index in range(20):
        dialogue = generate(6, index)
        messages = [{"role": turn.role, "content": turn.text} for turn in dialogue.turns]
        assert template.render(messages=messages) == dialogue.render()
        opened = template.render(messages=messages, add_generation_prompt=True)
        assert opened == dialogue.render() + "<|im_start|>assistant\n"
    assert (MODEL / "chat_template.jinja").read_text() == CHAT_TEMPLATE


def test_the_committed_model_is_the_one_described() -> None:
    config = json.loads((MODEL / "config.json").read_text())
    assert config["architectures"] == ["LlamaForCausalLM"]
    assert config["vocab_size"] == VOCABULARY
    sizes = ("hidden_size", "intermediate_size", "head_dim", "vocab_size")
    assert all(config[size] % 32 == 0 for size in sizes)
    generation = json.loads((MODEL / "generation_config.json").read_text())
    assert generation["eos_token_id"] == [2, 0]
    assert sum(file.stat().st_size for file in MODEL.iterdir()) <= 20_000_000
