"""OLMoE from its config.json."""

from __future__ import annotations

from typing import Any

import pytest

from edgewise_compiler.models.base import Mixture
from edgewise_compiler.models.families import find_family
from edgewise_runtime.errors import UnsupportedError

OLMOE_1B_7B = {
    "architectures": ["OlmoeForCausalLM"],
    "clip_qkv": None,
    "eos_token_id": 50279,
    "hidden_size": 2048,
    "intermediate_size": 1024,
    "norm_topk_prob": False,
    "num_attention_heads": 16,
    "num_experts": 64,
    "num_experts_per_tok": 8,
    "num_hidden_layers": 16,
    "num_key_value_heads": 16,
    "vocab_size": 50304,
}


def read(**changes: Any) -> Any:
    hf = OLMOE_1B_7B | changes
    return find_family(hf).read_config(hf)


def test_olmoe_has_experts_in_every_layer_and_norms_of_all_queries_before_its_branches() -> None:
    cfg = read()
    assert cfg.mixture == Mixture(tuple(range(16)), 64, 8, 1024, normalize=False)
    assert (cfg.norms, cfg.row_norm, cfg.qk_norm) == ("before", True, False)
    assert (cfg.head_dim, cfg.context, cfg.rms_eps, cfg.eos) == (128, 4096, 1e-5, (50279,))
    assert read(norm_topk_prob=True).mixture.normalize


def test_queries_that_are_clamped_are_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"clamped values .clip_qkv is 8\.0"):
        read(clip_qkv=8.0)
