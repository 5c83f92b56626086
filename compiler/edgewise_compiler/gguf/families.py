"""What files of each architecture say beside what all of them do, in the words of config.json.

What llama.cpp has in its code and no key says (src/models/*.cpp) stands here, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgewise_compiler.gguf.keys import Keys
from edgewise_compiler.models.shape import FULL

Config = Mapping[str, Any]
"""What was read of any architecture: :func:`~.architecture.read_config`."""

_GELU = {"hidden_activation": "gelu_pytorch_tanh"}
_LOCAL_BASE = 10000.0
"""Of the rotation of Gemma 3's layers with a window, where a file does not name another."""

_LARGEST = {"gemma2": 46, "gemma3": 62}
"""Layers of the model whose scores are scaled by hidden_size / heads, not by the width of heads."""


def llama(keys: Keys, config: Config) -> dict[str, Any]:
    """Llama, and what else has its shape: Mistral, where there is a window."""
    if window := keys.integer("attention.sliding_window", default=0):
        return {"architectures": ["MistralForCausalLM"], "sliding_window": window}
    return {}


def mistral3(keys: Keys, config: Config) -> dict[str, Any]:
    """Mistral without a window; yarn's scale of cosines may be another one. Ministral 3, where
    queries grow with their position."""
    more: dict[str, Any] = {"sliding_window": None}
    scaling = dict(config["rope_scaling"] or {})
    weight = keys.number("rope.scaling.yarn_log_multiplier", default=0.0)
    if weight and scaling:
        scaling |= {"mscale": 1.0, "mscale_all_dim": weight}
    if beta := keys.number("attention.temperature_scale", default=0.0):
        more["architectures"] = ["Ministral3ForCausalLM"]
        scaling = {"rope_type": "default", **scaling, "llama_4_scaling_beta": beta}
    return {**more, "rope_scaling": scaling} if scaling else more


def gemma(keys: Keys, config: Config) -> dict[str, Any]:
    """The activation, which files do not name."""
    return {"hidden_act": "gelu_pytorch_tanh", **_GELU}


def gemma2(keys: Keys, config: Config) -> dict[str, Any]:
    """Every second layer has a window; the caps are 50 and 30 unless a file says otherwise."""
    caps = {
        "attn_logit_softcapping": keys.number("attn_logit_softcapping", default=50.0),
        "final_logit_softcapping": keys.number("final_logit_softcapping", default=30.0),
    }
    return {
        **_GELU,
        **{key: cap or None for key, cap in caps.items()},
        "sliding_window": keys.integer("attention.sliding_window", default=4096) or None,
        "layer_types": keys.windows(config["num_hidden_layers"], 2),
        "query_pre_attn_scalar": _scale(keys, config),
    }


def gemma3(keys: Keys, config: Config) -> dict[str, Any]:
    """Of six layers five have a window; these turn by another base, and are not stretched."""
    layers = config["num_hidden_layers"]
    window = keys.integer("attention.sliding_window", default=0)
    kinds = keys.windows(layers, 6) if window else [FULL] * layers
    return {
        **_GELU,
        "final_logit_softcapping": keys.number("final_logit_softcapping", default=0.0) or None,
        "sliding_window": window or None,
        "layer_types": kinds,
        "rope_local_base_freq": keys.number("rope.freq_base_swa", default=_LOCAL_BASE),
        "query_pre_attn_scalar": _scale(keys, config),
    }


def _scale(keys: Keys, config: Config) -> float:
    """``query_pre_attn_scalar``, which no file has."""
    if config["num_hidden_layers"] == _LARGEST[keys.name]:
        return float(config["hidden_size"] // max(1, config["num_attention_heads"]))
    return float(config["head_dim"])


def gpt_oss(keys: Keys, config: Config) -> dict[str, Any]:
    """Every second layer has a window. Its makers' ramp of frequencies begins and ends where it is
    computed to, between two pairs; llama.cpp rounds to whole ones."""
    scaling = config["rope_scaling"]
    return {
        "sliding_window": keys.integer("attention.sliding_window"),
        "layer_types": keys.windows(config["num_hidden_layers"], 2),
        "num_experts_per_tok": keys.integer("expert_used_count"),
        "intermediate_size": keys.integer("expert_feed_forward_length"),
        "rope_scaling": {**scaling, "truncate": False} if scaling else {"rope_type": "default"},
    }


def granite(keys: Keys, config: Config) -> dict[str, Any]:
    """Its four factors; none of them stands for 1, and of the scores for what others have.

    A dense Granite 4 is one of Granite 3's shape, with rotation or without, and converters say
    which by a key of stretched rotations. Names of its tensors are Granite 3's.
    """
    usual = 1 / max(1, config["head_dim"]) ** 0.5
    turns = keys.fields.flag(f"{keys.name}.rope.scaling.finetuned", True)
    fourth = {
        "architectures": ["GraniteMoeHybridForCausalLM"],
        "layer_types": [FULL] * config["num_hidden_layers"],
        "position_embedding_type": "rope" if turns else "nope",
        "num_local_experts": config["num_experts"],
        "shared_intermediate_size": config["intermediate_size"],
    }
    return {
        **({} if turns and keys.name == "granite" else fourth),
        "attention_multiplier": keys.number("attention.scale", default=0.0) or usual,
        "embedding_multiplier": keys.number("embedding_scale", default=0.0) or 1.0,
        "residual_multiplier": keys.number("residual_scale", default=0.0) or 1.0,
        "logits_scaling": keys.number("logit_scale", default=0.0) or 1.0,
    }


def olmo2(keys: Keys, config: Config) -> dict[str, Any]:
    """OLMo 2, or OLMo 3, which has windows in three layers of four."""
    window = keys.integer("attention.sliding_window", default=0)
    if not window:
        return {}
    return {
        "architectures": ["Olmo3ForCausalLM"],
        "sliding_window": window,
        "layer_types": keys.windows(config["num_hidden_layers"], 4),
    }


def phi3(keys: Keys, config: Config) -> dict[str, Any]:
    """A window of 0 is none. config.json has the original context beside the rotation."""
    original = keys.integer(
        "rope.scaling.original_context_length", default=config["max_position_embeddings"]
    )
    return {
        "sliding_window": keys.integer("attention.sliding_window", default=0) or None,
        "original_max_position_embeddings": original,
    }


def qwen2moe(keys: Keys, config: Config) -> dict[str, Any]:
    """Every layer has experts, whose weights are what the softmax over all of them gave, and one
    for all rows, which is as wide as an MLP unless the file says otherwise."""
    width = keys.integer("expert_shared_feed_forward_length", default=config["intermediate_size"])
    return {
        "num_experts_per_tok": keys.integer("expert_used_count"),
        "moe_intermediate_size": keys.integer("expert_feed_forward_length"),
        "shared_expert_intermediate_size": width,
        "norm_topk_prob": False,
        "decoder_sparse_step": 1,
    }


def qwen3moe(keys: Keys, config: Config) -> dict[str, Any]:
    """Every layer has experts, whose weights add up to one."""
    return {
        "num_experts_per_tok": keys.integer("expert_used_count"),
        "moe_intermediate_size": keys.integer("expert_feed_forward_length"),
        "norm_topk_prob": True,
        "decoder_sparse_step": 1,
    }
