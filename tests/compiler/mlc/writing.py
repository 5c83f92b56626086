"""Writes the tiny checkpoints of tests/parity as MLC LLM stores them, by the format's description.

Nothing is shared with the reader, or with what exports such folders.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgewise_compiler.weights.safetensors import SafetensorsReader

Floats = NDArray[np.float32]

MIXTURE = (
    *("num_experts", "num_experts_per_tok", "moe_intermediate_size", "norm_topk_prob"),
    *("shared_expert_intermediate_size", "decoder_sparse_step"),
)

Stored = tuple[str, str, tuple[int, ...], bytes]
"""Dtype, format, shape and bytes of a tensor."""

QKV = {"llama": "qkv_proj", **dict.fromkeys(("qwen2", "qwen2_moe", "qwen3", "qwen3_moe"), "c_attn")}
GATES = (".mlp.gate.weight", ".shared_expert_gate.weight")
"""What chooses among experts, which stays floats."""

CONVERSATION: dict[str, Any] = {
    "name": "tiny",
    "system_template": "<|begin|>{system_message}<|end|>\n",
    "system_message": "Be brief.",
    "system_prefix_token_ids": [0],
    "add_role_after_system_message": True,
    "roles": {"user": "<|user|>", "assistant": "<|assistant|>", "tool": "<|user|>"},
    "role_templates": {
        "user": "{user_message}",
        "assistant": "{assistant_message}",
        "tool": "{tool_message}",
    },
    "messages": [],
    "seps": ["<|end|>\n"],
    "role_content_sep": "\n",
    "role_empty_sep": "\n",
    "stop_str": ["<|end|>"],
    "stop_token_ids": [3],
    "function_string": "",
    "use_function_calling": False,
}


def halved(values: Floats) -> bytes:
    """The upper halves of float32: bfloat16, rounded to the nearest even."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("<u2").tobytes()


def from_halves(raw: bytes) -> Floats:
    return (np.frombuffer(raw, "<u2").astype(np.uint32) << 16).view(np.float32)


def quantized(values: Floats, dtype: str) -> tuple[Stored, Stored, Floats]:
    """``q_weight``, ``q_scale`` and what they stand for, of a matrix ``[n, k]``, or of one for each
    expert."""
    if values.ndim == 3:
        weight, scale, floats = quantized(values.reshape(-1, values.shape[2]), dtype)
        lead = values.shape[:2]
        weight, scale = ((*one[:2], (*lead, one[2][1]), one[3]) for one in (weight, scale))
        return weight, scale, floats
    n, k = values.shape
    groups = -(-k // 32)
    padded = np.zeros((n, groups * 32), np.float32)
    padded[:, :k] = values
    blocks = padded.reshape(n, groups, 32)
    scales = np.abs(blocks).max(axis=2) / np.float32(7)
    if dtype == "float16":
        raw = scales.astype("<f2")
        scale: Stored = ("float16", "raw", (n, groups), raw.tobytes())
        scales = raw.astype(np.float32)
    else:
        scale = ("float32", "f32-to-bf16", (n, groups), halved(scales))
        scales = from_halves(scale[3]).reshape(n, groups)
    with np.errstate(invalid="ignore", divide="ignore"):
        codes = np.nan_to_num(np.clip(np.rint(blocks / scales[:, :, None] + 7), 0, 14))
    codes = codes.astype(np.int64).reshape(n, -1)
    codes[:, k:] = 0
    words = np.zeros((n, groups * 4), np.int64)
    for i in range(codes.shape[1]):
        words[:, i // 8] |= codes[:, i] << (i % 8 * 4)
    floats = (codes - 7).astype(np.float32) * scales.repeat(32, axis=1)
    weight: Stored = ("uint32", "f32-to-bf16", words.shape, words.astype("<u4").tobytes())
    return weight, scale, np.ascontiguousarray(floats[:, :k])


def plain(values: Floats, dtype: str) -> tuple[Stored, Floats]:
    if dtype == "float16":
        raw = values.astype("<f2")
        return ("float16", "f32-to-bf16", values.shape, raw.tobytes()), raw.astype(np.float32)
    data = halved(values)
    return ("float32", "f32-to-bf16", values.shape, data), from_halves(data).reshape(values.shape)


def chat_config(config: Mapping[str, Any], quantization: str) -> dict[str, Any]:
    model = {
        key: config[key]
        for key in (
            *("hidden_size", "intermediate_size", "num_attention_heads", "num_hidden_layers"),
            *("num_key_value_heads", "head_dim", "rms_norm_eps", "vocab_size"),
        )
    }
    rope = config.get("rope_parameters") or {}
    model |= {
        "tie_word_embeddings": config["tie_word_embeddings"],
        "position_embedding_base": config.get("rope_theta") or rope.get("rope_theta", 10000.0),
        "rope_scaling": config.get("rope_scaling")
        or (rope if rope.get("rope_type", "default") != "default" else None),
        "context_window_size": config["max_position_embeddings"],
        "prefill_chunk_size": 128,
        "tensor_parallel_shards": 1,
        "attention_bias": config.get("attention_bias", False),
        "max_batch_size": 4,
        **{key: config[key] for key in MIXTURE if key in config},
    }
    return {
        "version": "0.1.0",
        "model_type": config["model_type"],
        "quantization": quantization,
        "model_config": model,
        "vocab_size": config["vocab_size"],
        "context_window_size": config["max_position_embeddings"],
        "sliding_window_size": -1,
        "prefill_chunk_size": 128,
        "attention_sink_size": -1,
        "tensor_parallel_shards": 1,
        "temperature": 0.6,
        "top_p": 0.9,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "repetition_penalty": 1.0,
        "bos_token_id": 0,
        "eos_token_id": [1],
        "conv_template": CONVERSATION,
    }


def write_mlc(
    folder: Path,
    out: Path,
    quantization: str,
    *,
    cache: str = "tensor-cache.json",
    shard: int = 1 << 15,
    change: Callable[[dict[str, Stored]], None] = lambda tensors: None,
    says: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, Floats]:
    """Write the checkpoint in ``folder`` to the new folder ``out``.

    Args:
        shard: bytes of a file; a tensor that is larger has one of its own.
        change: given the tensors before they are written.
        says: more of mlc-chat-config.json.

    Returns:
        What each tensor of the checkpoint is in float32.
    """
    out.mkdir()
    shutil.copy(folder / "tokenizer.json", out)
    config = json.loads((folder / "config.json").read_text())
    chat = {**chat_config(config, quantization), **says}
    (out / "mlc-chat-config.json").write_text(json.dumps(chat))
    dtype = "float16" if "f16" in quantization else "float32"
    floats: dict[str, Floats] = {}
    tensors: dict[str, Stored] = {}
    with SafetensorsReader(folder) as reader:
        values = {name: reader.read(name) for name in reader.names()}
    for name, sources in fused(list(values), QKV[config["model_type"]]).items():
        whole = np.concatenate([values[source] for source in sources])
        if ".moe_" in name:
            whole = whole.reshape(config["num_experts"], -1, whole.shape[1])
        ends = ("embed_tokens.weight", "lm_head.weight")
        left = quantization.startswith("q0") or (
            quantization.endswith("_2") and name.endswith(ends)
        )
        if whole.ndim > 1 and not left and not name.endswith(GATES):
            module = name.removesuffix(".weight")
            weight, scale, found = quantized(whole, dtype)
            tensors[f"{module}.q_weight"], tensors[f"{module}.q_scale"] = weight, scale
        else:
            tensors[name], found = plain(whole, dtype)
        found = found.reshape(-1, found.shape[-1]) if found.ndim == 3 else found
        first = 0
        for source in sources:
            rows = len(values[source])
            floats[source] = found[first : first + rows]
            first += rows
    change(tensors)
    write_shards(out, tensors, cache, shard)
    return floats


def fused(names: list[str], qkv: str) -> dict[str, list[str]]:
    """MLC's names, and whose rows each has."""
    found: dict[str, list[str]] = {}
    for name in names:
        whole = name
        for part in ("q_proj", "k_proj", "v_proj"):
            whole = whole.replace(f".{part}.", f".{qkv}.")
        for part in ("gate_proj", "up_proj"):
            whole = whole.replace(f".{part}.", ".gate_up_proj.")
        whole = re.sub(r"\.experts\.\d+\.", ".moe_", whole)
        found.setdefault(whole, []).append(name)
    order = {"q_proj": 0, "k_proj": 1, "v_proj": 2, "gate_proj": 0, "up_proj": 1}
    for sources in found.values():
        sources.sort(key=lambda name: (_expert(name), order.get(name.split(".")[-2], 0)))
    return found


def _expert(name: str) -> int:
    found = re.search(r"\.experts\.(\d+)\.", name)
    return int(found[1]) if found else 0


def write_shards(out: Path, tensors: Mapping[str, Stored], cache: str, shard: int) -> None:
    """The shards and their list."""
    files: list[tuple[bytearray, list[dict[str, Any]]]] = []
    for name, (dtype, layout, shape, data) in tensors.items():
        if not files or len(files[-1][0]) + len(data) > shard:
            files.append((bytearray(), []))
        raw, records = files[-1]
        records.append(
            {
                "name": name,
                "shape": list(shape),
                "dtype": dtype,
                "format": layout,
                "nbytes": len(data),
                "byteOffset": len(raw),
            }
        )
        raw += data
    listed = []
    for i, (raw, records) in enumerate(files):
        path = f"params_shard_{i}.bin"
        (out / path).write_bytes(raw)
        listed.append(
            {
                "dataPath": path,
                "format": "raw-shard",
                "nbytes": len(raw),
                "records": records,
                "md5sum": hashlib.md5(raw).hexdigest(),
            }
        )
    metadata = {"ParamSize": len(tensors), "ParamBytes": 0, "BitsPerParam": 4.5}
    (out / cache).write_text(json.dumps({"metadata": metadata, "records": listed}))
