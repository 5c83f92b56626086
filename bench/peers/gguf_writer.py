"""A checkpoint of :mod:`checkpoint` as GGUF version 3 in float16, which llama.cpp quantizes itself.

Format: magic, version, counts, typed key-values, tensor infos, then tensor data, each tensor at a
multiple of 32 bytes. Dimensions are listed innermost first.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
from safetensors import safe_open

from checkpoint import CHAT_TEMPLATE, SPECIAL, Shape, tensors, vocabulary

ALIGNMENT = 32
UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
F32, F16 = 0, 1
MOSTLY_F16 = 1
NORMAL, CONTROL = 1, 3  # kinds of tokens

TENSORS = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
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


def write_gguf(checkpoint: Path, path: Path, shape: Shape) -> None:
    """Writes ``path`` from the safetensors of ``checkpoint``."""
    names = list(tensors(shape))
    partial = path.with_suffix(".partial")
    with partial.open("wb") as out:
        pairs = list(_metadata(shape))
        out.write(b"GGUF" + struct.pack("<IQQ", 3, len(names), len(pairs)))
        for key, kind, value in pairs:
            out.write(_string(key) + struct.pack("<I", kind) + _value(kind, value))
        offset = 0
        for name, size in names:
            kind, item = (F32, 4) if len(size) == 1 else (F16, 2)
            dims = struct.pack(f"<I{len(size)}Q", len(size), *reversed(size))
            out.write(_string(_renamed(name)) + dims + struct.pack("<IQ", kind, offset))
            offset += item * int(np.prod(size))
            offset += -offset % ALIGNMENT
        with safe_open(str(checkpoint / "model.safetensors"), "numpy") as weights:
            for name, size in names:
                _align(out)
                dtype = np.float32 if len(size) == 1 else np.float16
                out.write(weights.get_tensor(name).astype(dtype).tobytes())
        _align(out)
    partial.replace(path)


def _renamed(name: str) -> str:
    stem = name.removesuffix(".weight")
    if stem in TENSORS:
        return f"{TENSORS[stem]}.weight"
    _, _, layer, rest = stem.split(".", 3)
    return f"blk.{layer}.{TENSORS[rest]}.weight"


def _metadata(shape: Shape) -> Iterator[tuple[str, int, object]]:
    tokens, merges = vocabulary(shape.vocab)
    kinds = [NORMAL] * (len(tokens) - len(SPECIAL)) + [CONTROL] * len(SPECIAL)
    yield "general.architecture", STRING, "qwen3"
    yield "general.name", STRING, shape.name
    yield "general.file_type", UINT32, MOSTLY_F16
    yield "qwen3.context_length", UINT32, shape.context
    yield "qwen3.embedding_length", UINT32, shape.hidden
    yield "qwen3.block_count", UINT32, shape.layers
    yield "qwen3.feed_forward_length", UINT32, shape.intermediate
    yield "qwen3.attention.head_count", UINT32, shape.heads
    yield "qwen3.attention.head_count_kv", UINT32, shape.kv_heads
    yield "qwen3.attention.key_length", UINT32, shape.head_dim
    yield "qwen3.attention.value_length", UINT32, shape.head_dim
    yield "qwen3.rope.freq_base", FLOAT32, shape.theta
    yield "qwen3.attention.layer_norm_rms_epsilon", FLOAT32, shape.eps
    yield "tokenizer.ggml.model", STRING, "gpt2"
    yield "tokenizer.ggml.pre", STRING, "qwen2"
    yield "tokenizer.ggml.tokens", ARRAY, (STRING, tokens)
    yield "tokenizer.ggml.token_type", ARRAY, (INT32, kinds)
    yield "tokenizer.ggml.merges", ARRAY, (STRING, [" ".join(pair) for pair in merges])
    yield "tokenizer.ggml.bos_token_id", UINT32, shape.vocab - 3
    yield "tokenizer.ggml.eos_token_id", UINT32, shape.vocab - 1
    yield "tokenizer.ggml.add_bos_token", BOOL, False
    yield "tokenizer.chat_template", STRING, CHAT_TEMPLATE


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
