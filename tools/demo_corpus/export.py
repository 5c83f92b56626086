"""The trained model as a Hugging Face folder."""

from __future__ import annotations

import copy
import json
import shutil
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from transformers import LlamaConfig, LlamaForCausalLM

from . import DOCUMENT_END, TURN_END, TURN_START
from .tokenizer import CHAT_TEMPLATE, VOCABULARY, token_id

CONTEXT = 1024


def model_config() -> LlamaConfig:
    """Return the shape of the demo model; every size is a multiple of 32."""
    return LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=5,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=64,
        max_position_embeddings=CONTEXT,
        rms_norm_eps=1e-5,
        tie_word_embeddings=True,
        initializer_range=0.02,
        attention_dropout=0.0,
        bos_token_id=None,
        eos_token_id=[2, 0],
        pad_token_id=0,
    )


def export(model: LlamaForCausalLM, tokenizer: Tokenizer, out: Path) -> None:
    """Write `out` as a whole: a reader finds the folder before or the folder after."""
    new = out.with_name(out.name + ".new")
    old = out.with_name(out.name + ".old")
    for leftover in (new, old):
        shutil.rmtree(leftover, ignore_errors=True)
    new.mkdir(parents=True)
    half = copy.deepcopy(model).to(torch.float16)
    half.save_pretrained(new)
    # safetensors writes files that only their owner can read.
    (new / "model.safetensors").chmod(0o644)
    tokenizer.save(str(new / "tokenizer.json"))
    (new / "chat_template.jinja").write_text(CHAT_TEMPLATE)
    # By hand: what transformers 5 writes here, transformers 4 cannot read.
    _write_json(
        new / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "eos_token": TURN_END,
            "pad_token": DOCUMENT_END,
            "additional_special_tokens": [TURN_START],
            "model_max_length": CONTEXT,
            "clean_up_tokenization_spaces": False,
        },
    )
    _write_json(
        new / "generation_config.json",
        {
            "eos_token_id": [token_id(tokenizer, TURN_END), token_id(tokenizer, DOCUMENT_END)],
            "pad_token_id": token_id(tokenizer, DOCUMENT_END),
            "max_new_tokens": 200,
        },
    )
    if out.exists():
        out.rename(old)
    new.rename(out)
    shutil.rmtree(old, ignore_errors=True)


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n")
