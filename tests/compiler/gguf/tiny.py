"""A tiny model of every architecture in GGUF files, such as llama.cpp loads them, too.

They are the cases of tests/parity but for what no file says: llama.cpp divides the width by the
heads where a family has no width of heads of its own, scales the scores of Gemma by it, and has
every fourth layer of SmolLM3 stand still.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tests.parity.case import Case
from tests.parity.cases import CASES
from tests.parity.make_checkpoints import make_weights, write_case
from tests.parity.storing import write_weights

WHOLE_PAIRS = 1024.0, 201
"""A rotation's base and original context where yarn's ramp begins and ends at whole pairs, but for
0.1%: llama.cpp rounds to them, and gpt-oss does not."""


def _like(case: str, **config: Any) -> Case:
    found = CASES[case]
    kept = {key: value for key, value in {**found.config, **config}.items() if value is not ...}
    return replace(found, config=kept, dtype="F32")


TINY: dict[str, Case] = {
    "llama": _like("llama-gqa2-tied-linear", hidden_size=128),
    "ministral3": _like(
        "ministral3-gqa2",
        hidden_size=128,
        rope_parameters={
            **CASES["ministral3-gqa2"].config["rope_parameters"],
            "llama_4_scaling_beta": 0.5,  # files have it in float32
        },
    ),
    "mistral": _like("mistral-gqa2", hidden_size=128),
    "mistral-window": _like("mistral-window", hidden_size=128),
    "qwen2": _like("qwen2-gqa2-tied", hidden_size=128),
    "qwen3": _like("qwen3-gqa2-tied", hidden_size=128),
    "gemma": _like("gemma-gqa2", hidden_size=128, tie_word_embeddings=True),
    "gemma2": _like(
        "gemma2-window", hidden_size=128, query_pre_attn_scalar=32, tie_word_embeddings=True
    ),
    "gemma3": _like("gemma3-window", hidden_size=128, num_hidden_layers=3, layer_types=[
        "sliding_attention", "full_attention", "sliding_attention",
    ]),
    "gpt-oss": _like(
        "gptoss-window",
        hidden_size=128,
        rope_scaling={
            **CASES["gptoss-window"].config["rope_scaling"],
            "original_max_position_embeddings": WHOLE_PAIRS[1],
        },
        rope_theta=WHOLE_PAIRS[0],
    ),
    "granite": _like("granite-gqa2", hidden_size=128),
    "granite4": _like("granite4-gqa2", hidden_size=128),
    "granite4-nope": _like("granite4-nope", hidden_size=128),
    "olmo2": _like("olmo2-gqa2", hidden_size=128),
    "olmo3": _like(
        "olmo3-window",
        hidden_size=128,
        num_hidden_layers=4,
        layer_types=[*["sliding_attention"] * 3, "full_attention"],
        rope_parameters=...,
        rope_theta=500000.0,
    ),
    "phi3": _like("phi3-gqa2-longrope", hidden_size=128),
    # Of these weights rounding chooses no other expert.
    "qwen2moe": replace(_like("qwen2moe-shared", hidden_size=128), seed=2104),
    "qwen3moe": _like(
        "qwen3moe-step",
        hidden_size=128,
        num_hidden_layers=2,
        moe_intermediate_size=64,
        mlp_only_layers=[],
    ),
    "smollm3": _like("smollm3-gqa2-tied", hidden_size=128, num_hidden_layers=4, no_rope_layers=...),
}  # fmt: skip
"""By architecture; two of llama's are Mistral's, one of olmo2's is OLMo 3's, and two of granite's
are Granite 4's."""

OTHERWISE = ("mistral-window",)
"""What llama.cpp computes otherwise than the model's makers: it leaves windows of Mistral out."""

SMALLER = {"qwen2": 0.5, "gemma": 0.125, "gemma2": 0.125}
"""Factors on tables of tokens that are the head, too: larger ones make answers of one token."""


def write_tiny(name: str, target: Path, case: Case | None = None) -> Path:
    """Write a model into the new folder ``target``, or another ``case`` of it, and return that."""
    case = case or TINY[name]
    write_case(case, target)
    if name in SMALLER:
        weights = make_weights(case)
        weights["model.embed_tokens.weight"] *= np.float32(SMALLER[name])
        write_weights(target, weights, case.dtype, case.shards)
    return target
