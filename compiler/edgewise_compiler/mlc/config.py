"""What mlc-chat-config.json means: config.json and generation_config.json."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from edgewise_compiler.mlc.names import CONFIG
from edgewise_compiler.models.elsewhere import missing, refusal
from edgewise_compiler.models.experts import MAX_EXPERTS
from edgewise_compiler.models.fields import ConfigFields
from edgewise_compiler.models.traits import PAGE, said
from edgewise_runtime.errors import UnsupportedError
from edgewise_runtime.format.reading import shorten

QUANTIZATIONS = (
    *("q4f16_1", "q4f32_1", "q4bf16_1", "q4f16_2", "q4f32_2"),
    *("q0f16", "q0f32", "q0bf16"),
)
"""Values of ``quantization``: four bits in groups of 32 along the columns, or floats; ``_2`` leaves
embeddings and head alone. What a tensor is, it says itself."""


@dataclass(frozen=True)
class Kind:
    """How models of one ``model_type`` are stored.

    Attributes:
        architecture: value of ``architectures`` in config.json.
        qkv: what queries', keys' and values' rows are called, one after the other.
        biases: these have biases, and nothing else has.
        stretched: rotations may be stretched.
        mixture: keys of ``model_config`` about the experts of every layer; empty where there are
            none. Such models have a head of their own.
    """

    architecture: str
    qkv: str
    biases: bool = False
    stretched: bool = False
    mixture: tuple[str, ...] = ()


_MIXTURE = ("num_experts_per_tok", "moe_intermediate_size", "norm_topk_prob", "decoder_sparse_step")

KINDS = {
    "llama": Kind("LlamaForCausalLM", "qkv_proj", stretched=True),
    "qwen2": Kind("Qwen2ForCausalLM", "c_attn", biases=True),
    "qwen2_moe": Kind(
        "Qwen2MoeForCausalLM",
        "c_attn",
        biases=True,
        mixture=(*_MIXTURE, "shared_expert_intermediate_size"),
    ),
    "qwen3": Kind("Qwen3ForCausalLM", "c_attn"),
    "qwen3_moe": Kind("Qwen3MoeForCausalLM", "c_attn", mixture=_MIXTURE),
}

_SAME = (
    *("hidden_size", "intermediate_size", "num_attention_heads", "num_hidden_layers"),
    *("num_key_value_heads", "rms_norm_eps", "vocab_size", "rope_scaling", "rope_theta"),
    *("attention_bias", "mlp_bias", "hidden_act", "max_position_embeddings"),
)
"""Keys of ``model_config`` that mean in config.json what they mean there."""

_SAMPLING = ("temperature", "top_p", "repetition_penalty")
_NEUTRAL: Mapping[str, tuple[object, ...]] = {
    "sliding_window_size": (None, -1, 0),
    "presence_penalty": (None, 0),
    "frequency_penalty": (None, 0),
}
_MOST = 1 << 31


def find_kind(chat: Mapping[str, Any]) -> tuple[str, Kind]:
    """The model type that a parsed mlc-chat-config.json names; UnsupportedError for others."""
    fields = ConfigFields(chat, CONFIG)
    name = fields.text("model_type")
    if name not in KINDS:
        what = f"MLC folders of model_type {shorten(name)}"
        raise refusal(what, missing(name, fields.mapping("model_config") or {}), KINDS)
    return name, KINDS[name]


def read_config(
    chat: Mapping[str, Any], names: Collection[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """config.json and generation_config.json of a folder; the family checks the first.

    Args:
        chat: mlc-chat-config.json as parsed.
        names: of the tensors.

    Raises:
        CheckpointError: a key that is missing or of the wrong type.
        UnsupportedError: a quantization, model type or option that is not implemented.
    """
    fields = ConfigFields(chat, CONFIG)
    _, kind = find_kind(chat)
    quantization = fields.text("quantization")
    if quantization not in QUANTIZATIONS:
        raise UnsupportedError(
            f"Not implemented: MLC folders with {said('quantization', quantization)}.",
            remedy=f"Use one of {', '.join(QUANTIZATIONS)}; see {PAGE}.",
            code="unsupported.quantized",
        )
    for key, allowed in _NEUTRAL.items():
        if chat.get(key) not in allowed:
            raise UnsupportedError(
                f"Not implemented: MLC folders with {said(key, chat[key])}.",
                remedy=f"Use a folder without it; see {PAGE}.",
                code="unsupported.option",
            )
    theirs = fields.mapping("model_config") or {}
    model = ConfigFields(theirs, f"model_config of {CONFIG}")
    config: dict[str, Any] = {key: theirs[key] for key in _SAME if key in theirs}
    config["architectures"] = [kind.architecture]
    heads = model.integer("num_attention_heads", 1, _MOST)
    hidden = model.integer("hidden_size", 1, _MOST)
    head_dim = model.integer("head_dim", 0, _MOST, default=0)
    config["head_dim"] = head_dim or hidden // heads
    # 0 stands for as many as there are of queries.
    config["num_key_value_heads"] = model.integer("num_key_value_heads", 0, _MOST, 0) or heads
    config["intermediate_size"] = model.integer("intermediate_size", 1, _MOST)
    if "rope_theta" not in config:
        config["rope_theta"] = theirs.get("position_embedding_base", 10000.0)
    if not model.has("max_position_embeddings"):
        config["max_position_embeddings"] = model.integer("context_window_size", 1, _MOST)
    if kind.mixture:
        config["num_experts"] = model.integer("num_experts", 1, MAX_EXPERTS)
        config |= {key: theirs[key] for key in kind.mixture if key in theirs}
        for key in kind.mixture:
            if key.endswith("intermediate_size"):
                config[key] = model.integer(key, 1, _MOST)
    config["tie_word_embeddings"] = not any(name.startswith("lm_head.") for name in names)
    vocab = model.integer("vocab_size", 1, _MOST)
    first = (*fields.token_ids("bos_token_id", vocab), None)[0]
    stops = ConfigFields(_template(chat), f"conv_template of {CONFIG}")
    ends = fields.token_ids("eos_token_id", vocab) + stops.token_ids("stop_token_ids", vocab)
    config |= {"bos_token_id": first, "eos_token_id": list(dict.fromkeys(ends)) or None}
    sampling = {key: chat[key] for key in _SAMPLING if fields.has(key)}
    return config, sampling


def _template(chat: Mapping[str, Any]) -> Mapping[str, Any]:
    found = chat.get("conv_template")
    return found if isinstance(found, dict) else {}
