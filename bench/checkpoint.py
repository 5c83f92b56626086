"""Random-weight checkpoints of real shapes: speed depends on sizes, never on the values.

Written in the layout of Hugging Face: ``config.json``, ``model.safetensors`` (float16), and a
byte-level BPE tokenizer as large as the model's vocabulary, so that loading costs what it costs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path

import numpy as np
from tokenizers.pre_tokenizers import ByteLevel

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
LONGEST_PAIRED = 3
CHUNK = 1 << 22  # random numbers drawn at once, elements


@dataclass(frozen=True)
class Shape:
    """The sizes of a decoder: Qwen3's kind normalizes queries and keys, Llama's does not.

    ``rope_scaling`` is what config.json says under that name, empty for none. Of ``experts`` of
    width ``intermediate`` a row goes through ``chosen``; without any it has one MLP. Rows of all
    layers see ``window`` tokens; None for all (Mistral's kind).
    """

    name: str
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    context: int = 40960
    theta: float = 1e6
    eps: float = 1e-6
    family: str = "qwen3"
    tied: bool = True
    rope_scaling: Mapping[str, object] = field(default_factory=dict)
    experts: int = 0
    chosen: int = 0
    window: int | None = None


_LLAMA_31_ROPE = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}

SHAPES = {
    shape.name: shape
    for shape in (
        Shape("qwen3-0.6b", 1024, 28, 16, 8, 128, 3072, 151936),
        Shape(
            "llama-3.1-8b",
            *(4096, 32, 32, 8, 128, 14336, 128256),
            context=131072,
            theta=5e5,
            eps=1e-5,
            family="llama",
            tied=False,
            rope_scaling=_LLAMA_31_ROPE,
        ),
        Shape(
            "llama-3.2-1b",
            *(2048, 16, 32, 8, 64, 8192, 128256),
            context=131072,
            theta=5e5,
            eps=1e-5,
            family="llama",
            rope_scaling={**_LLAMA_31_ROPE, "factor": 32.0},
        ),
        Shape(
            "smollm2-135m",
            *(576, 30, 9, 3, 64, 1536, 49152),
            context=8192,
            theta=1e5,
            eps=1e-5,
            family="llama",
        ),
        # 1,014 million parameters, of which a token meets 222 million.
        Shape(
            "moe-64x8",
            *(1024, 12, 16, 8, 128, 384, 32000),
            context=4096,
            family="qwen3_moe",
            experts=64,
            chosen=8,
        ),
        # 185 million parameters, and the same without its windows.
        *(
            Shape(
                name,
                *(1024, 12, 16, 8, 64, 2816, 32000),
                context=8448,
                family="mistral",
                window=window,
            )
            for name, window in (("window-1024", 1024), ("window-none", None))
        ),
        # 41 million parameters: launches cost more than bytes.
        Shape("small", 512, 8, 8, 4, 64, 1536, 32000, context=4096),
        Shape("tiny", 128, 2, 4, 2, 32, 256, 1024),
    )
}

_FAMILIES: Mapping[str, Mapping[str, object]] = {
    "qwen3": {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "use_sliding_window": False,
    },
    "qwen3_moe": {
        "architectures": ["Qwen3MoeForCausalLM"],
        "model_type": "qwen3_moe",
        "use_sliding_window": False,
        "norm_topk_prob": True,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
    },
    "mistral": {"architectures": ["MistralForCausalLM"], "model_type": "mistral"},
    "llama": {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "mlp_bias": False,
    },
}
"""What config.json says of a family beside its sizes."""


def tensors(shape: Shape) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Every tensor's checkpoint name and shape, in the order of execution."""
    width, queries, keys = (
        shape.hidden,
        shape.heads * shape.head_dim,
        shape.kv_heads * shape.head_dim,
    )
    yield "model.embed_tokens.weight", (shape.vocab, width)
    for layer in range(shape.layers):
        of_layer = {
            "input_layernorm": (width,),
            "self_attn.q_proj": (queries, width),
            "self_attn.k_proj": (keys, width),
            "self_attn.v_proj": (keys, width),
            "self_attn.q_norm": (shape.head_dim,),
            "self_attn.k_norm": (shape.head_dim,),
            "self_attn.o_proj": (width, queries),
            "post_attention_layernorm": (width,),
            **({"mlp.gate": (shape.experts, width)} if shape.experts else {}),
        }
        experts = [f"mlp.experts.{e}" for e in range(shape.experts)] or ["mlp"]
        for mlp in experts:
            of_layer |= {
                f"{mlp}.gate_proj": (shape.intermediate, width),
                f"{mlp}.up_proj": (shape.intermediate, width),
                f"{mlp}.down_proj": (width, shape.intermediate),
            }
        if not shape.family.startswith("qwen3"):
            del of_layer["self_attn.q_norm"], of_layer["self_attn.k_norm"]
        for name, size in of_layer.items():
            yield f"model.layers.{layer}.{name}.weight", size
    yield "model.norm.weight", (width,)
    if not shape.tied:
        yield "lm_head.weight", (shape.vocab, width)


def vocabulary(size: int, words: Iterable[str] = ()) -> tuple[list[str], list[tuple[str, str]]]:
    """Tokens in id order and BPE merges: bytes, then pairs, then triples, then the special ones.

    `words` come in the place of as many pairs and triples. No text is cut into them, for they have
    no merges, but a model may draw them.
    """
    alphabet = sorted(ByteLevel.alphabet())
    tokens = list(alphabet)
    merges: list[tuple[str, str]] = []
    spelling = ByteLevel(add_prefix_space=False, use_regex=False)
    spelled = {spelling.pre_tokenize_str(word)[0][0]: None for word in words}
    longer = [word for word in spelled if len(word) > LONGEST_PAIRED]
    size -= len(longer)
    for first in tokens:  # grows while it is read: pairs begin with a byte, triples with a pair
        for second in alphabet:
            if len(tokens) == size - len(SPECIAL):
                return [*tokens, *longer, *SPECIAL], merges
            tokens.append(first + second)
            merges.append((first, second))
    raise ValueError(f"a vocabulary of {size} tokens is more than this scheme can name")


def write_checkpoint(
    folder: Path, shape: Shape, seed: int = 0, *, words: Iterable[str] = ()
) -> None:
    """Writes ``folder``; config.json comes last, so a folder that has one is complete."""
    folder.mkdir(parents=True, exist_ok=True)
    write_tokenizer(folder, shape.vocab, shape.context, words)
    _write_weights(folder / "model.safetensors", shape, seed)
    _write_json(folder / "config.json", config(shape))


def write_tokenizer(folder: Path, vocab: int, context: int, words: Iterable[str] = ()) -> None:
    """Writes tokenizer.json and tokenizer_config.json for ``vocab`` tokens; see `vocabulary`."""
    tokens, merges = vocabulary(vocab, words)
    _write_json(folder / "tokenizer.json", _tokenizer(tokens, merges))
    _write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "Qwen2Tokenizer",
            "chat_template": CHAT_TEMPLATE,
            "eos_token": SPECIAL[2],
            "pad_token": SPECIAL[0],
            "model_max_length": context,
        },
    )


def config(shape: Shape) -> dict[str, object]:
    """What config.json says of ``shape``."""
    return {
        **_FAMILIES[shape.family],
        "hidden_size": shape.hidden,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "intermediate_size": shape.intermediate,
        **_experts(shape),
        **_window(shape),
        "vocab_size": shape.vocab,
        "max_position_embeddings": shape.context,
        "rope_theta": shape.theta,
        "rope_scaling": dict(shape.rope_scaling) or None,
        "rms_norm_eps": shape.eps,
        "tie_word_embeddings": shape.tied,
        "hidden_act": "silu",
        "attention_bias": False,
        "torch_dtype": "float16",
        "bos_token_id": shape.vocab - 3,
        "eos_token_id": shape.vocab - 1,
    }


def _window(shape: Shape) -> dict[str, object]:
    return {"sliding_window": shape.window} if shape.family == "mistral" else {}


def _experts(shape: Shape) -> dict[str, object]:
    if not shape.experts:
        return {}
    return {
        "num_experts": shape.experts,
        "num_experts_per_tok": shape.chosen,
        "moe_intermediate_size": shape.intermediate,
    }


def _tokenizer(tokens: list[str], merges: list[tuple[str, str]]) -> dict[str, object]:
    ordinary = len(tokens) - len(SPECIAL)
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
    return {
        "version": "1.0",
        "added_tokens": [
            {
                "id": ordinary + i,
                "content": content,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for i, content in enumerate(SPECIAL)
        ],
        "normalizer": None,
        "pre_tokenizer": {**byte_level, "trim_offsets": True},
        "post_processor": None,
        "decoder": {**byte_level, "trim_offsets": True},
        "model": {
            "type": "BPE",
            "vocab": {token: i for i, token in enumerate(tokens[:ordinary])},
            "merges": [list(pair) for pair in merges],
        },
    }


def _write_weights(path: Path, shape: Shape, seed: int) -> None:
    """Norms are one, matrices N(0, 0.02): float16, tensor after tensor, a chunk at a time."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, size in tensors(shape):
        begin, end = end, end + 2 * prod(size)
        header[name] = {"dtype": "F16", "shape": list(size), "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    rng = np.random.default_rng(seed)
    partial = path.with_suffix(".partial")
    with partial.open("wb") as out:
        out.write(len(text).to_bytes(8, "little") + text)
        for _, size in tensors(shape):
            if len(size) == 1:
                out.write(np.ones(size, np.float16).tobytes())
                continue
            for start in range(0, prod(size), CHUNK):
                values = rng.standard_normal(min(CHUNK, prod(size) - start), np.float32)
                out.write((values * np.float32(0.02)).astype(np.float16).tobytes())
    partial.replace(path)


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False), "utf-8")
