"""A Llama or Qwen3 checkpoint as GGUF version 3, unquantized, which llama.cpp quantizes itself.

Format: magic, version, counts, typed key-values, tensor infos, then tensor data, each tensor at a
multiple of 32 bytes. Dimensions are listed innermost first. Matrices that the checkpoint has in
float16 stay so, all other tensors are float32: no weight changes.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from edgewise_compiler.weights.safetensors import SafetensorsReader

ALIGNMENT = 32
UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
F32, F16 = 0, 1
NORMAL, CONTROL = 1, 3  # kinds of tokens

TENSORS = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
SCALARS = {UINT32: "<I", INT32: "<i", FLOAT32: "<f", BOOL: "<?"}


def write_gguf(checkpoint: Path, path: Path) -> None:
    """Writes ``path`` from config.json, the safetensors and the byte-level BPE of ``checkpoint``.

    Raises ValueError for rotary embeddings with a scaling, which are not written.
    """
    config = json.loads((checkpoint / "config.json").read_text("utf-8"))
    partial = path.with_suffix(".partial")
    with SafetensorsReader(checkpoint) as weights, partial.open("wb") as out:
        names = weights.names()
        kinds = {name: _kind(weights, name) for name in names}
        pairs = list(_metadata(checkpoint, config, max(kinds.values())))
        out.write(b"GGUF" + struct.pack("<IQQ", 3, len(names), len(pairs)))
        for key, kind, value in pairs:
            out.write(_string(key) + struct.pack("<I", kind) + _value(kind, value))
        offset = 0
        for name in names:
            size = weights.shape(name)
            dims = struct.pack(f"<I{len(size)}Q", len(size), *reversed(size))
            out.write(_string(_renamed(name)) + dims + struct.pack("<IQ", kinds[name], offset))
            offset += (2 if kinds[name] == F16 else 4) * int(np.prod(size))
            offset += -offset % ALIGNMENT
        for name in names:
            _align(out)
            dtype = np.float16 if kinds[name] == F16 else np.float32
            out.write(_in_pairs(name, weights.read(name), config).astype(dtype).tobytes())
        _align(out)
    partial.replace(path)


def _kind(weights: SafetensorsReader, name: str) -> int:
    return F16 if len(weights.shape(name)) > 1 and weights.dtype(name) == "F16" else F32


def _renamed(name: str) -> str:
    stem = name.removesuffix(".weight")
    if stem in TENSORS:
        return f"{TENSORS[stem]}.weight"
    _, _, layer, rest = stem.split(".", 3)
    return f"blk.{layer}.{TENSORS[rest]}.weight"


def _in_pairs(
    name: str, values: npt.NDArray[np.float32], config: Mapping[str, Any]
) -> npt.NDArray[np.float32]:
    """Llama's queries and keys with the rows of a head that turn together beside each other."""
    if config["model_type"] != "llama" or not name.endswith(("q_proj.weight", "k_proj.weight")):
        return values
    halves = values.reshape(-1, 2, config["head_dim"] // 2, values.shape[1])
    return np.ascontiguousarray(halves.swapaxes(1, 2)).reshape(values.shape)


def _theta(config: Mapping[str, Any]) -> float:
    """The base of the rotary embedding, wherever transformers' version put it."""
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if rope.get("rope_type", "default") != "default":
        raise ValueError(f"a rotary embedding of kind {rope['rope_type']} is not written")
    return float({**config, **rope}["rope_theta"])


def _metadata(
    checkpoint: Path, config: Mapping[str, Any], file_type: int
) -> Iterator[tuple[str, int, object]]:
    arch = config["model_type"]
    yield "general.architecture", STRING, arch
    yield "general.name", STRING, checkpoint.name
    yield "general.file_type", UINT32, file_type
    yield f"{arch}.context_length", UINT32, config["max_position_embeddings"]
    yield f"{arch}.embedding_length", UINT32, config["hidden_size"]
    yield f"{arch}.block_count", UINT32, config["num_hidden_layers"]
    yield f"{arch}.feed_forward_length", UINT32, config["intermediate_size"]
    yield f"{arch}.attention.head_count", UINT32, config["num_attention_heads"]
    yield f"{arch}.attention.head_count_kv", UINT32, config["num_key_value_heads"]
    yield f"{arch}.attention.key_length", UINT32, config["head_dim"]
    yield f"{arch}.attention.value_length", UINT32, config["head_dim"]
    yield f"{arch}.rope.freq_base", FLOAT32, _theta(config)
    yield f"{arch}.attention.layer_norm_rms_epsilon", FLOAT32, config["rms_norm_eps"]
    tokenizer = json.loads((checkpoint / "tokenizer.json").read_text("utf-8"))
    settings = json.loads((checkpoint / "tokenizer_config.json").read_text("utf-8"))
    added = {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
    ids = {**tokenizer["model"]["vocab"], **added}
    tokens = sorted(ids, key=lambda token: ids[token])
    special = [token in added for token in tokens]
    merges = [" ".join(pair) for pair in tokenizer["model"]["merges"]]
    yield "tokenizer.ggml.model", STRING, "gpt2"
    yield "tokenizer.ggml.pre", STRING, "gpt-2"
    yield "tokenizer.ggml.tokens", ARRAY, (STRING, tokens)
    yield "tokenizer.ggml.token_type", ARRAY, (INT32, [CONTROL if s else NORMAL for s in special])
    yield "tokenizer.ggml.merges", ARRAY, (STRING, merges)
    for key in ("bos", "eos"):
        found = config[f"{key}_token_id"]
        if found is not None:
            first = found[0] if isinstance(found, list) else found
            yield f"tokenizer.ggml.{key}_token_id", UINT32, first
    yield "tokenizer.ggml.add_bos_token", BOOL, False
    yield "tokenizer.chat_template", STRING, _template(checkpoint, settings)


def _template(checkpoint: Path, settings: Mapping[str, Any]) -> str:
    if "chat_template" in settings:
        return str(settings["chat_template"])
    return (checkpoint / "chat_template.jinja").read_text("utf-8")


def _value(kind: int, value: object) -> bytes:
    if kind == STRING:
        return _string(str(value))
    if isinstance(value, tuple):
        item, values = value
        return struct.pack("<IQ", item, len(values)) + b"".join(_value(item, v) for v in values)
    return struct.pack(SCALARS[kind], value)


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _align(out: BinaryIO) -> None:
    out.write(b"\0" * (-out.tell() % ALIGNMENT))
