"""Repositories as people publish them, small: nothing in them is computed with."""

from __future__ import annotations

import json
import random
from typing import Any

from tests.parity.cases import CASES

NAME = "tiny/Llama-1M"
WEIGHTS = "model.safetensors"


def noise(name: str, size: int = 20_000) -> bytes:
    """Bytes that stand for weights, others for each name."""
    return random.Random(name).randbytes(size)


def config(**changes: Any) -> bytes:
    """A config.json that edgewise takes, but for the changes."""
    told = {"architectures": ["LlamaForCausalLM"], "model_type": "llama"}
    return json.dumps(told | dict(CASES["llama-gqa2-tied-linear"].config) | changes).encode()


READ = {
    "chat_template.jinja": b"{{ messages[0].content }}",
    "config.json": config(),
    "generation_config.json": b'{"temperature": 0.5}',
    WEIGHTS: noise(WEIGHTS),
    "tokenizer.json": b'{"version": "1.0"}' + b" " * 5000,
    "tokenizer_config.json": b"{}",
}
"""What a compile reads."""

BESIDE = {
    ".gitattributes": b"*.bin filter=lfs",
    "README.md": b"# A model",
    "flax_model.msgpack": noise("flax"),
    "onnx/config.json": b"{}",
    "onnx/model.onnx": noise("onnx"),
    "original/consolidated.00.pth": noise("original"),
    "pytorch_model.bin": noise("bin"),
    "vocab.json": b"{}",
}
"""What else lies beside it."""

FOLDER = BESIDE | READ

VECTORS = {
    "1_Pooling/config.json": b'{"pooling_mode_mean_tokens": true}',
    "config_sentence_transformers.json": b'{"prompts": {"query": "Find: "}}',
    "modules.json": json.dumps(
        [
            {"type": "sentence_transformers.models.Transformer", "path": ""},
            {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"},
            {"type": "sentence_transformers.models.Normalize", "path": "2_Normalize"},
        ]
    ).encode(),
}
"""What a compile reads besides, of a model that embeds texts."""


def sharded() -> dict[str, bytes]:
    """A folder with its weights in two shards, and a third one that the index does not name."""
    shards = [f"model-0000{i}-of-00002.safetensors" for i in (1, 2)]
    index = {"weight_map": {"a": shards[0], "b": shards[1]}}
    return (
        {name: data for name, data in FOLDER.items() if name != WEIGHTS}
        | {"model.safetensors.index.json": json.dumps(index).encode()}
        | {name: noise(name) for name in (*shards, "model-00003-of-00002.safetensors")}
    )


def ggufs(*names: str) -> dict[str, bytes]:
    """GGUF files of these names, as far as their first bytes go."""
    return {"README.md": b"# Files", **{name: b"GGUF" + noise(name) for name in names}}


def mlc(**changes: Any) -> dict[str, bytes]:
    """A folder of MLC LLM, and what lies beside it; of its configuration some is changed."""
    told = json.loads(config())
    chat = {
        "model_type": "llama",
        "quantization": "q4f16_1",
        "model_config": {**told, "context_window_size": 256},
        **changes,
    }
    return {
        **{name: BESIDE[name] for name in ("README.md", "vocab.json")},
        "mlc-chat-config.json": json.dumps(chat).encode(),
        "tensor-cache.json": b'{"records": []}',
        "ndarray-cache.json": b'{"records": []}',
        "tokenizer.json": READ["tokenizer.json"],
        **{f"params_shard_{i}.bin": noise(f"shard {i}") for i in range(3)},
    }
