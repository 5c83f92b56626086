"""Writes the tiny checkpoints of tests/parity as GGUF files, with the gguf package."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter, RopeScalingType
from gguf.quants import quantize
from numpy.typing import NDArray

from edgewise_compiler.weights.safetensors import SafetensorsReader

Floats = NDArray[np.float32]

LAYER = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "self_attn.qkv_proj": "attn_qkv",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "mlp.gate_up_proj": "ffn_up",
    "mlp.gate": "ffn_gate_inp",
    "mlp.router": "ffn_gate_inp",
    "mlp.shared_expert_gate": "ffn_gate_inp_shexp",
    "mlp.shared_expert.gate_proj": "ffn_gate_shexp",
    "mlp.shared_expert.up_proj": "ffn_up_shexp",
    "mlp.shared_expert.down_proj": "ffn_down_shexp",
    "mlp.experts.gate_proj": "ffn_gate_exps",
    "mlp.experts.up_proj": "ffn_up_exps",
    "mlp.experts.down_proj": "ffn_down_exps",
    "input_layernorm": "attn_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}
NORM = {"gemma2", "gemma3", "gpt-oss", "olmo2"}
"""Of these ``post_attention_layernorm`` is called after attention; of others before the MLP."""
TOP = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
}
ARCHITECTURES = {
    "gemma3_text": "gemma3",
    "gpt_oss": "gpt-oss",
    "granitemoehybrid": "granite",
    "ministral3": "mistral3",
    "mistral": "llama",
    "olmo3": "olmo2",
    "qwen2_moe": "qwen2moe",
    "qwen3_moe": "qwen3moe",
}
"""What llama.cpp calls models whose ``model_type`` is another word."""
PAIRS = ("llama", "granite", "granitehybrid", "smollm3", "mistral3")
"""Those whose rotated pairs lie beside each other."""
SCALES = {
    "attention_multiplier": "attention.scale",
    "embedding_multiplier": "embedding_scale",
    "residual_multiplier": "residual_scale",
    "logits_scaling": "logit_scale",
    "attn_logit_softcapping": "attn_logit_softcapping",
    "final_logit_softcapping": "final_logit_softcapping",
    "rope_local_base_freq": "rope.freq_base_swa",
}
"""Numbers of config.json and their keys."""


def write_gguf(
    folder: Path,
    path: Path,
    *,
    kind: str = "F32",
    kinds: Mapping[str, str] = MappingProxyType({}),
    split: int = 0,
    arch: str = "",
    change: Callable[[GGUFWriter], None] = lambda writer: None,
    last: Callable[[GGUFWriter], None] = lambda writer: None,
) -> Path:
    """Write the checkpoint in ``folder`` to the file ``path``.

    Args:
        kind: the type of its matrices; vectors are always float32.
        kinds: the types of those whose name has a word in it.
        split: at most so many tensors a file, if not 0.
        arch: the architecture, where it is not the one that llama.cpp gives the model.
        change: told the writer before any tensor is.
        last: told it when all of them are.
    """
    config = json.loads((folder / "config.json").read_text())
    arch = arch or ARCHITECTURES.get(config["model_type"], config["model_type"])
    writer = GGUFWriter(path, arch, split_max_tensors=split)
    _add_config(writer, config)
    _add_tokenizer(writer, folder, config)
    change(writer)
    with SafetensorsReader(folder) as reader:
        stacked: dict[str, list[Floats]] = {}
        for name, read in _parts(reader):
            theirs = gguf_name(re.sub(r"experts\.\d+\.", "experts.", name), arch)
            own = next((kinds[part] for part in kinds if part in theirs), kind)
            values = _stored(name, read, config, arch)
            if "_exps." in theirs and values.ndim < (3 if theirs.endswith("weight") else 2):
                stacked.setdefault(theirs, []).append(values)
                if len(stacked[theirs]) < config["num_experts"]:
                    continue
                values = np.stack(stacked[theirs])
            plain = "gate_inp" in theirs or theirs.endswith("bias")
            _add_tensor(writer, theirs, values, "F32" if plain else own)
    for name, values in _divisors(config).items():
        _add_tensor(writer, name, values, kind)
    last(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _parts(reader: SafetensorsReader) -> Iterator[tuple[str, Floats]]:
    """A checkpoint's tensors as a converter cuts them up: gate and up lie apart, and gpt-oss's
    experts are rows, not columns."""
    for name in reader.names():
        values = reader.read(name)
        found = re.fullmatch(r"(.*)\.(experts|shared_mlp)\.(\w+?)(_bias|\.weight)?", name)
        if found is None or (found[2] == "experts" and found[4] == ".weight"):
            yield name, values
            continue
        module, kind, part, end = found.groups()
        if kind == "shared_mlp":
            whole, halves = f"{module}.mlp", np.split(values, 2)
        else:
            rows = values if end == "_bias" else values.swapaxes(1, 2)
            whole, halves = f"{module}.experts", [rows[:, 0::2], rows[:, 1::2]]
        end = "bias" if end == "_bias" else "weight"
        if part in ("gate_up_proj", "input_linear"):
            for which, half in zip(("gate", "up"), halves, strict=True):
                yield f"{whole}.{which}_proj.{end}", np.ascontiguousarray(half)
        else:
            yield f"{whole}.down_proj.{end}", rows if kind == "experts" else values


def gguf_name(name: str, arch: str = "llama") -> str:
    """The name that llama.cpp gives a checkpoint's tensor."""
    module, _, kind = name.rpartition(".")
    if kind == "sinks":
        return f"blk.{module.split('.')[2]}.attn_sinks.weight"
    if module in TOP:
        return f"{TOP[module]}.{kind}"
    _, _, layer, part = module.split(".", 3)
    own = {"post_attention_layernorm": "post_attention_norm" if arch in NORM else "ffn_norm"}
    return f"blk.{layer}.{(LAYER | own)[part]}.{kind}"


def _stored(name: str, values: Floats, config: Mapping[str, Any], arch: str) -> Floats:
    """Queries and keys of some: the rows of a head that turn together lie beside each other.
    Norms of Gemma: one is added."""
    if arch.startswith("gemma") and name.endswith("norm.weight"):
        return values + np.float32(1)
    if arch not in PAIRS or ("q_proj" not in name and "k_proj" not in name):
        return values
    halves = values.reshape(-1, 2, config["head_dim"] // 2, *values.shape[1:])
    return np.ascontiguousarray(halves.swapaxes(1, 2)).reshape(values.shape)


def _divisors(config: Mapping[str, Any]) -> dict[str, Floats]:
    """What a converter stores of the rotation in tensors."""
    scaling = config.get("rope_scaling") or {}
    kind = scaling.get("rope_type", scaling.get("type"))
    if kind == "llama3":
        found = llama3_divisors(scaling, config["rope_theta"], config["head_dim"])
        return {"rope_freqs.weight": found}
    if kind == "longrope":
        return {
            f"rope_factors_{which}.weight": np.array(scaling[f"{which}_factor"], np.float32)
            for which in ("long", "short")
        }
    return {}


def _add_tensor(writer: GGUFWriter, name: str, values: Floats, kind: str) -> None:
    type_ = GGMLQuantizationType["F32" if values.ndim == 1 else kind]
    data = values if type_ == GGMLQuantizationType.F32 else quantize(values, type_)
    writer.add_tensor(name, data, raw_dtype=type_)


def llama3_divisors(scaling: Mapping[str, Any], theta: float, head_dim: int) -> Floats:
    """What llama.cpp's converter stores for Llama 3.1's frequency bands."""
    original, factor = scaling["original_max_position_embeddings"], scaling["factor"]
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    found = []
    for i in range(0, head_dim, 2):
        turns = original / (2 * math.pi * theta ** (i / head_dim))
        smooth = min(max((turns - low) / (high - low), 0), 1)
        found.append(1 / ((1 - smooth) / factor + smooth))
    return np.array(found, np.float32)


def _add_config(writer: GGUFWriter, config: Mapping[str, Any]) -> None:
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    turning = int(config["head_dim"] * config.get("partial_rotary_factor", 1.0))
    writer.add_rope_dimension_count(turning)
    scaling = config.get("rope_scaling") or config.get("rope_parameters") or {}
    writer.add_rope_freq_base(scaling.get("rope_theta", config.get("rope_theta", 10000.0)))
    kind = scaling.get("rope_type", scaling.get("type"))
    if kind in ("linear", "yarn"):
        writer.add_rope_scaling_type(RopeScalingType(kind))
        writer.add_rope_scaling_factor(scaling["factor"])
    if kind == "yarn":
        writer.add_rope_scaling_orig_ctx_len(scaling["original_max_position_embeddings"])
    if kind == "yarn" and "beta_fast" in scaling:
        writer.add_rope_scaling_yarn_beta_fast(scaling["beta_fast"])
        writer.add_rope_scaling_yarn_beta_slow(scaling["beta_slow"])
    if "llama_4_scaling_beta" in scaling:
        writer.add_float32(f"{writer.arch}.rope.scaling.yarn_log_multiplier", 1.0)
        beta = scaling["llama_4_scaling_beta"]
        writer.add_float32(f"{writer.arch}.attention.temperature_scale", beta)
    if kind == "longrope":
        original = config["original_max_position_embeddings"]
        writer.add_rope_scaling_orig_ctx_len(original)
        stretched = config["max_position_embeddings"] / original
        factor = math.sqrt(1 + math.log(stretched) / math.log(original))
        writer.add_rope_scaling_attn_factors(factor)
    for key, theirs in SCALES.items():
        if config.get(key) is not None:
            writer.add_float32(f"{writer.arch}.{theirs}", config[key])
    experts = config.get("num_experts", config.get("num_local_experts"))
    if experts is not None:
        writer.add_expert_count(experts)
        writer.add_expert_used_count(config["num_experts_per_tok"])
    if experts:
        width = config.get("moe_intermediate_size", config["intermediate_size"])
        writer.add_expert_feed_forward_length(width)
    for key in ("shared_expert_intermediate_size", "shared_intermediate_size"):
        if key in config:
            writer.add_expert_shared_feed_forward_length(config[key])
    if "position_embedding_type" in config:
        _add_hybrid(writer, config)
    if window := config.get("sliding_window"):
        writer.add_sliding_window(window)
    if writer.arch == "gemma3" and "layer_types" in config:
        local = [kind == "sliding_attention" for kind in config["layer_types"]]
        writer.add_sliding_window_pattern(local)


def _add_hybrid(writer: GGUFWriter, config: Mapping[str, Any]) -> None:
    """What llama.cpp's converter of Granite 4 says of Mamba, though no layer has any."""
    writer.kv_data[0].pop(f"{writer.arch}.attention.head_count_kv")
    writer.add_head_count_kv([config["num_key_value_heads"]] * config["num_hidden_layers"])
    writer.add_rope_scaling_finetuned(config["position_embedding_type"] == "rope")
    writer.add_ssm_conv_kernel(4)
    writer.add_ssm_state_size(256)
    writer.add_ssm_group_count(1)
    writer.add_ssm_inner_size(2 * config["hidden_size"])
    writer.add_ssm_time_step_rank(128)


def _add_tokenizer(writer: GGUFWriter, folder: Path, config: Mapping[str, Any]) -> None:
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    template = json.loads((folder / "tokenizer_config.json").read_text())["chat_template"]
    vocab = sorted(tokenizer["model"]["vocab"].items(), key=lambda item: item[1])
    special = {token["id"] for token in tokenizer["added_tokens"]}
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([token for token, _ in vocab])
    writer.add_token_types([3 if i in special else 1 for _, i in vocab])
    writer.add_token_merges([" ".join(merge) for merge in tokenizer["model"]["merges"]])
    writer.add_bos_token_id(config["bos_token_id"])
    writer.add_eos_token_id(config["eos_token_id"])
    writer.add_eot_token_id(3)
    writer.add_chat_template(template)
