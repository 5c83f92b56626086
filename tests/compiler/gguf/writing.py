"""Writes the tiny checkpoints of tests/parity as GGUF files, with the gguf package."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
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
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
TOP = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
}


def write_gguf(
    folder: Path,
    path: Path,
    *,
    kind: str = "F32",
    kinds: Mapping[str, str] = MappingProxyType({}),
    split: int = 0,
    change: Callable[[GGUFWriter], None] = lambda writer: None,
) -> Path:
    """Write the checkpoint in ``folder`` to the file ``path``.

    Args:
        kind: the type of its matrices; vectors are always float32.
        kinds: the types of those whose name has a word in it.
        split: at most so many tensors a file, if not 0.
        change: told the writer before anything is written.
    """
    config = json.loads((folder / "config.json").read_text())
    arch = config["model_type"]
    writer = GGUFWriter(path, arch, split_max_tensors=split)
    _add_config(writer, config)
    _add_tokenizer(writer, folder, config)
    change(writer)
    with SafetensorsReader(folder) as reader:
        for name in reader.names():
            values = _stored(name, reader.read(name), config, pairs=arch == "llama")
            own = next((kinds[part] for part in kinds if part in gguf_name(name)), kind)
            _add_tensor(writer, gguf_name(name), values, own)
    if (scaling := config.get("rope_scaling")) and scaling.get("rope_type") == "llama3":
        divisors = llama3_divisors(scaling, config["rope_theta"], config["head_dim"])
        _add_tensor(writer, "rope_freqs.weight", divisors, kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def gguf_name(name: str) -> str:
    """The name that llama.cpp gives a checkpoint's tensor."""
    module, _, kind = name.rpartition(".")
    if module in TOP:
        return f"{TOP[module]}.{kind}"
    _, _, layer, part = module.split(".", 3)
    return f"blk.{layer}.{LAYER[part]}.{kind}"


def _stored(name: str, values: Floats, config: Mapping[str, Any], *, pairs: bool) -> Floats:
    """Queries and keys of llama: the rows of a head that turn together lie beside each other."""
    if not pairs or ("q_proj" not in name and "k_proj" not in name):
        return values
    halves = values.reshape(-1, 2, config["head_dim"] // 2, *values.shape[1:])
    return np.ascontiguousarray(halves.swapaxes(1, 2)).reshape(values.shape)


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
    writer.add_rope_dimension_count(config["head_dim"])
    scaling = config.get("rope_scaling") or config.get("rope_parameters") or {}
    writer.add_rope_freq_base(scaling.get("rope_theta", config.get("rope_theta", 10000.0)))
    kind = scaling.get("rope_type", scaling.get("type"))
    if kind in ("linear", "yarn"):
        writer.add_rope_scaling_type(RopeScalingType(kind))
        writer.add_rope_scaling_factor(scaling["factor"])
    if kind == "yarn":
        writer.add_rope_scaling_orig_ctx_len(scaling["original_max_position_embeddings"])


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
