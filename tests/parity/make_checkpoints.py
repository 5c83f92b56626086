"""Tiny random checkpoints of every family, made from seeds without torch.

Weights are sums of a counter's random bits, exact in float32, so that every machine makes the same
bytes; the goldens beside this file hold their hash. Gains are chosen so that logits spread over
several units and attention is neither uniform nor one-hot.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

CONTEXT = 256
"""max_position_embeddings of every case, tokens."""

SPECIAL = ("<|begin|>", "<|end|>", "<|user|>", "<|assistant|>")
TEMPLATE = (
    "{{ '<|begin|>' }}{% for m in messages %}{{ '<|' + m.role + '|>' + m.content + '<|end|>' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)
CORPUS = (
    "The quick brown fox jumps over the lazy dog while the other animals think about the weather.",
    "A model is a plan: a list of kernels, a static memory layout, and a few named numbers.",
    "Whoever can launch kernels can run the plan, in the browser and on the desk beside it.",
    "def add(a, b):\n    return a + b\n\nfor i in range(10):\n    print(add(i, i))\n",
    "Zürich, Málaga, Ærø, Łódź; 東京, 서울, Москва; ½ × ¼ = ⅛; 🙂🙃",
)


@dataclass(frozen=True)
class Case:
    """One checkpoint: what config.json says, how tensors are stored, the seed of the weights.

    Attributes:
        qk_norm: it has norms of queries and keys, of which config.json says nothing.
        qkv_bias: biases of queries, keys and values, of which it says nothing either.
        norms: where a layer has norms: before its branches, after them, or around them.
        row_norm: norms of all queries, and of all keys, together.
        fused: queries, keys and values are one tensor, gate and up another.
        less: what norms' weights are stored less, which the model adds.
        shared: the MLP is called as one that experts stand beside, gate and up one tensor of it.
    """

    architecture: str
    seed: int
    config: Mapping[str, Any]
    qk_norm: bool = False
    qkv_bias: bool = False
    norms: str = "before"
    row_norm: bool = False
    fused: bool = False
    less: float = 0.0
    shared: bool = False
    dtype: str = "F32"
    shards: int = 1


@dataclass(frozen=True)
class Shapes:
    """Sizes of one case in the words of config.json."""

    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    layers: int = 2
    vocab: int = 320
    more: Mapping[str, Any] = field(default_factory=dict)

    def config(self) -> dict[str, Any]:
        """The part of config.json that every case has."""
        return {
            "hidden_size": self.hidden,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.head_dim,
            "intermediate_size": self.intermediate,
            "vocab_size": self.vocab,
            "max_position_embeddings": CONTEXT,
            "hidden_act": "silu",
            "rms_norm_eps": 1e-6,
            "bos_token_id": 0,
            "eos_token_id": 1,
            "tie_word_embeddings": False,
            **self.more,
        }


def _llama(seed: int, shapes: Shapes, **storage: Any) -> Case:
    return Case("LlamaForCausalLM", seed, shapes.config(), **storage)


def _qwen3(seed: int, shapes: Shapes, **storage: Any) -> Case:
    return Case("Qwen3ForCausalLM", seed, shapes.config(), qk_norm=True, **storage)


_TWO = Shapes(64, 4, 2, 32, 192)
"""What families beside the first two share, so that they share kernels, too."""


def _more(**more: Any) -> Shapes:
    return replace(_TWO, more=more)


CASES: dict[str, Case] = {
    "llama-mha": _llama(110, Shapes(64, 4, 4, 16, 176)),
    "llama-gqa2-tied-linear": _llama(
        214,
        Shapes(
            96, 4, 2, 32, 192,
            more={
                "tie_word_embeddings": True,
                "rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 10000.0},
            },
        ),
    ),
    "llama-gqa4-bias-llama3": _llama(
        307,
        Shapes(
            128, 8, 2, 64, 256,
            more={
                "attention_bias": True,
                "mlp_bias": True,
                "rope_theta": 500000.0,
                "rope_scaling": {
                    "rope_type": "llama3",
                    "factor": 8.0,
                    "low_freq_factor": 1.0,
                    "high_freq_factor": 4.0,
                    "original_max_position_embeddings": 64,
                },
            },
        ),
        dtype="BF16",
        shards=3,
    ),
    "llama-d80-yarn": _llama(
        404,
        Shapes(
            64, 2, 1, 80, 128,
            more={
                "rope_theta": 10000.0,
                "rope_scaling": {
                    "type": "yarn",
                    "factor": 4.0,
                    "original_max_position_embeddings": 64,
                },
            },
        ),
        dtype="F16",
    ),
    "llama-d128-yarn-mscale": _llama(
        503,
        Shapes(
            128, 2, 2, 128, 160,
            more={
                "rope_parameters": {
                    "rope_type": "yarn",
                    "rope_theta": 10000.0,
                    "factor": 8.0,
                    "original_max_position_embeddings": 32,
                    "mscale": 1.0,
                    "mscale_all_dim": 0.5,
                    "beta_fast": 16.0,
                    "beta_slow": 2.0,
                    "truncate": False,
                },
            },
        ),
        dtype="BF16",
    ),
    "qwen3-gqa2-tied": _qwen3(
        600,
        Shapes(
            64, 4, 2, 32, 192,
            more={
                "tie_word_embeddings": True,
                "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0},
            },
        ),
        dtype="BF16",
    ),
    "qwen3-gqa4-d96-bias": _qwen3(
        702,
        Shapes(
            96, 4, 1, 96, 144, vocab=333,
            more={"attention_bias": True, "rope_theta": 1000000.0, "rope_scaling": None},
        ),
    ),
    "qwen3-d48-yarn": _qwen3(
        802,
        Shapes(
            64, 2, 2, 48, 128, layers=3,
            more={
                "rope_parameters": {
                    "rope_type": "yarn",
                    "rope_theta": 1000000.0,
                    "factor": 4.0,
                    "original_max_position_embeddings": 64,
                    "attention_factor": 1.2,
                },
            },
        ),
        dtype="F16",
    ),
    "llama-d8-bias-llama3": _llama(
        901,
        Shapes(
            64, 8, 2, 8, 176,
            more={
                "attention_bias": True,
                "rope_theta": 10000.0,
                "rope_scaling": {
                    "rope_type": "llama3",
                    "factor": 4.0,
                    "low_freq_factor": 1.0,
                    "high_freq_factor": 4.0,
                    "original_max_position_embeddings": 64,
                },
            },
        ),
        dtype="BF16",
    ),
    "qwen3-d24-odd": _qwen3(
        1001,
        Shapes(
            96, 3, 1, 24, 160,
            more={"rms_norm_eps": 1e-2, "rope_theta": 10000.0, "rope_scaling": None},
        ),
        dtype="F16",
    ),
    "qwen2-gqa2-tied": Case(
        "Qwen2ForCausalLM",
        1109,
        _more(tie_word_embeddings=True, rope_theta=1000000.0).config(),
        qkv_bias=True,
        dtype="BF16",
    ),
    "mistral-gqa2": Case(
        "MistralForCausalLM", 1209, _more(sliding_window=None, rope_theta=1000000.0).config()
    ),
    "smollm3-gqa2-tied": Case(
        "SmolLM3ForCausalLM",
        1313,
        _more(
            tie_word_embeddings=True, rope_theta=2000000.0, no_rope_layers=[1, 0], pad_token_id=1
        ).config(),
    ),
    "phi3-gqa2-longrope": Case(
        "Phi3ForCausalLM",
        1405,
        replace(_more(
            partial_rotary_factor=0.75,
            original_max_position_embeddings=16,
            pad_token_id=1,
            rope_theta=10000.0,
            rope_scaling={
                "type": "longrope",
                "long_factor": [1.0 + 0.25 * i for i in range(12)],
                "short_factor": [1.0 + 0.01 * i for i in range(12)],
            },
        ), hidden=128).config(),
        fused=True,
    ),
    "granite-gqa2": Case(
        "GraniteForCausalLM",
        1500,
        _more(
            embedding_multiplier=0.5,
            residual_multiplier=0.75,
            attention_multiplier=0.25,
            logits_scaling=0.8,
        ).config(),
        dtype="BF16",
    ),
    "olmo2-gqa2": Case(
        "Olmo2ForCausalLM",
        1604,
        _more(rope_theta=500000.0, rms_norm_eps=1e-5, pad_token_id=1).config(),
        norms="after",
        row_norm=True,
    ),
    "mistral-window": Case(
        "MistralForCausalLM", 1702, _more(sliding_window=20, rope_theta=10000.0).config()
    ),
    "gemma2-window": Case(
        "Gemma2ForCausalLM",
        1852,
        _more(
            hidden_activation="gelu_pytorch_tanh",
            sliding_window=40,
            query_pre_attn_scalar=24,
            attn_logit_softcapping=8.0,
            final_logit_softcapping=30.0,
            rope_theta=10000.0,
            pad_token_id=1,
        ).config(),
        norms="around",
        less=1.0,
    ),
    "gemma3-window": Case(
        "Gemma3ForCausalLM",
        1901,
        _more(
            hidden_activation="gelu_pytorch_tanh",
            sliding_window=24,
            layer_types=["sliding_attention", "full_attention"],
            query_pre_attn_scalar=32,
            rope_theta=1000000.0,
            rope_local_base_freq=10000.0,
            rope_scaling={"rope_type": "linear", "factor": 8.0},
            pad_token_id=1,
        ).config(),
        qk_norm=True,
        norms="around",
        less=1.0,
        dtype="BF16",
    ),
    "gemma-gqa2": Case(
        "GemmaForCausalLM",
        2000,
        _more(hidden_act="gelu_pytorch_tanh", rope_theta=10000.0, pad_token_id=1).config(),
        less=1.0,
    ),
    "olmo3-window": Case(
        "Olmo3ForCausalLM",
        2114,
        _more(
            rms_norm_eps=1e-5,
            pad_token_id=1,
            sliding_window=24,
            layer_types=["sliding_attention", "full_attention"],
            rope_parameters={
                "sliding_attention": {"rope_type": "default", "rope_theta": 500000.0},
                "full_attention": {
                    "rope_type": "yarn",
                    "rope_theta": 500000.0,
                    "factor": 8.0,
                    "original_max_position_embeddings": 32,
                    "attention_factor": 1.2,
                },
            },
        ).config(),
        norms="after",
        row_norm=True,
    ),
    "granite4-gqa2": Case(
        "GraniteMoeHybridForCausalLM",
        2202,
        _more(
            layer_types=["attention", "attention"],
            num_local_experts=0,
            num_experts_per_tok=0,
            shared_intermediate_size=192,
            position_embedding_type="rope",
            embedding_multiplier=0.5,
            residual_multiplier=0.75,
            attention_multiplier=0.25,
            logits_scaling=0.8,
        ).config(),
        shared=True,
    ),
    "granite4-nope": Case(
        "GraniteMoeHybridForCausalLM",
        2349,
        _more(
            layer_types=["attention", "attention"],
            num_local_experts=0,
            num_experts_per_tok=0,
            shared_intermediate_size=192,
            position_embedding_type="nope",
            embedding_multiplier=1.0,
            residual_multiplier=0.5,
            attention_multiplier=0.2,
            logits_scaling=1.25,
        ).config(),
        shared=True,
        dtype="BF16",
    ),
    "ministral3-gqa2": Case(
        "Ministral3ForCausalLM",
        2407,
        _more(
            rms_norm_eps=1e-5,
            rope_parameters={
                "rope_type": "yarn",
                "rope_theta": 1000000.0,
                "factor": 8.0,
                "original_max_position_embeddings": 24,
                "beta_fast": 32.0,
                "beta_slow": 1.0,
                "mscale": 1.0,
                "mscale_all_dim": 1.0,
                "llama_4_scaling_beta": 0.4,
            },
        ).config(),
    ),
}  # fmt: skip
"""Every family; of Llama and Qwen3 1 to 4 query heads per KV head, every rope and its spellings,
every dtype, and heads that programs pad."""


NORMS = {
    "before": ("input_layernorm", "post_attention_layernorm"),
    "after": ("post_attention_layernorm", "post_feedforward_layernorm"),
    "around": (
        "input_layernorm",
        "post_attention_layernorm",
        "pre_feedforward_layernorm",
        "post_feedforward_layernorm",
    ),
}
"""The norms of a layer, by `Case.norms`."""


def write_checkpoint(name: str, folder: Path) -> Path:
    """Write the case ``name`` into the new folder ``folder / name`` and return that."""
    case, target = CASES[name], folder / name
    target.mkdir(parents=True)
    family = case.architecture.removesuffix("ForCausalLM").lower()
    family = {"gemma3": "gemma3_text"}.get(family, family)
    config = {"architectures": [case.architecture], "model_type": family, **case.config}
    (target / "config.json").write_text(json.dumps(config, indent=2))
    (target / "generation_config.json").write_text(json.dumps({"eos_token_id": [1, 3]}))
    (target / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "chat_template": TEMPLATE})
    )
    train_tokenizer().save(str(target / "tokenizer.json"))
    write_weights(target, make_weights(case), case.dtype, case.shards)
    return target


def train_tokenizer() -> Tokenizer:
    """A byte-level BPE tokenizer of 320 tokens."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=320,
        special_tokens=list(SPECIAL),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


def make_weights(case: Case) -> dict[str, NDArray[np.float32]]:
    """Every tensor of the case under its name in the checkpoint, float32."""
    c = case.config
    hidden, dim = c["hidden_size"], c["head_dim"]
    bits = np.random.PCG64(case.seed)
    tensors: dict[str, NDArray[np.float32]] = {}

    def add(name: str, shape: tuple[int, ...], std: float, mean: float = 0.0) -> None:
        tensors[name] = np.float32(mean) + _bells(bits, shape) * np.float32(std)

    def linear(module: str, rows: int, k: int, gain: float, bias: bool) -> None:
        add(f"{module}.weight", (rows, k), gain / k**0.5)
        if bias:
            add(f"{module}.bias", (rows,), 0.2)

    add("model.embed_tokens.weight", (c["vocab_size"], hidden), 4.0 / hidden**0.5)
    # A tied head favours the token just read; larger branches drown its embedding.
    out = 3.0 if c["tie_word_embeddings"] else 1.0
    q, kv = c["num_attention_heads"] * dim, c["num_key_value_heads"] * dim
    for i in range(c["num_hidden_layers"]):
        layer = f"model.layers.{i}"
        attention_bias, mlp_bias = c.get("attention_bias", False), c.get("mlp_bias", False)
        for part, rows, gain in (("q", q, 1.3), ("k", kv, 1.3), ("v", kv, 1.0)):
            bias = attention_bias or case.qkv_bias
            linear(f"{layer}.self_attn.{part}_proj", rows, hidden, gain, bias)
        linear(f"{layer}.self_attn.o_proj", hidden, q, out, attention_bias)
        if case.qk_norm or case.row_norm:
            widths = (dim, dim) if case.qk_norm else (q, kv)
            for part, width in zip("qk", widths, strict=True):
                add(f"{layer}.self_attn.{part}_norm.weight", (width,), 0.2, mean=1.3 - case.less)
        for part in ("gate", "up"):
            linear(f"{layer}.mlp.{part}_proj", c["intermediate_size"], hidden, 1.0, mlp_bias)
        linear(f"{layer}.mlp.down_proj", hidden, c["intermediate_size"], out, mlp_bias)
        for norm in NORMS[case.norms]:
            # Norms after a branch say how large it is.
            after = case.norms != "before" and norm.startswith("post")
            add(f"{layer}.{norm}.weight", (hidden,), 0.2, mean=(out if after else 1.0) - case.less)
    add("model.norm.weight", (hidden,), 0.2, mean=1.0 - case.less)
    if not c["tie_word_embeddings"]:
        add("lm_head.weight", (c["vocab_size"], hidden), 4.0 / hidden**0.5)
    if case.shared:
        tensors = _fused(tensors, (_GATE_UP,))
        for ours, theirs in _SHARED.items():
            tensors = {name.replace(ours, theirs): values for name, values in tensors.items()}
    return _fused(tensors, (_QKV, _GATE_UP)) if case.fused else tensors


_QKV, _GATE_UP = ("qkv", "qkv_proj"), (("gate", "up"), "gate_up_proj")
_SHARED = {
    "mlp.gate_up_proj": "shared_mlp.input_linear",
    "mlp.down_proj": "shared_mlp.output_linear",
}


def _fused(
    tensors: dict[str, NDArray[np.float32]], wholes: Sequence[tuple[Sequence[str], str]]
) -> dict[str, NDArray[np.float32]]:
    """The tensors as Phi-3 stores them: what reads the same input, below each other."""
    found: dict[str, NDArray[np.float32]] = {}
    for name, values in tensors.items():
        for parts, whole in wholes:
            module = next((f".{part}_proj." for part in parts if f".{part}_proj." in name), None)
            if module is not None:
                name = name.replace(module, f".{whole}.")
                before = found.get(name)
                values = values if before is None else np.concatenate([before, values])
        found[name] = values
    return found


def _bells(bits: np.random.PCG64, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Near-normal numbers of deviation 1: four uniform 16-bit numbers summed (Irwin–Hall).

    NumPy keeps a bit generator's stream stable between versions, but not the distributions on top.
    """
    raw = np.atleast_1d(bits.random_raw(int(np.prod(shape)))).astype("<u8").view("<u2")
    sums = raw.reshape(-1, 4).astype(np.int32).sum(axis=1) - 2 * 65535
    scaled: NDArray[np.float32] = sums.astype(np.float32) / np.float32(37837.0)
    return scaled.reshape(shape)


def write_weights(
    folder: Path, tensors: Mapping[str, NDArray[np.float32]], dtype: str, shards: int
) -> None:
    """Write ``model.safetensors``, or ``shards`` files and their index."""
    stored = {
        name: (dtype, values.shape, _stored(values, dtype)) for name, values in tensors.items()
    }
    if shards == 1:
        write_safetensors(folder / "model.safetensors", stored)
        return
    names, weight_map = list(stored), dict[str, str]()
    for i in range(shards):
        file = f"model-{i + 1:05}-of-{shards:05}.safetensors"
        part = names[i::shards]
        write_safetensors(folder / file, {name: stored[name] for name in part})
        weight_map |= dict.fromkeys(part, file)
    index = {"metadata": {}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def _stored(values: NDArray[np.float32], dtype: str) -> bytes:
    if dtype == "BF16":
        bits = values.view(np.uint32)
        return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("<u2").tobytes()
    return values.astype({"F32": "<f4", "F16": "<f2"}[dtype]).tobytes()


def write_safetensors(
    path: Path, tensors: Mapping[str, tuple[str, tuple[int, ...], bytes]]
) -> None:
    """Write tensors given as dtype, shape and bytes, unchecked: tests write damaged files too."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, (dtype, shape, data) in tensors.items():
        end = offset + len(data)
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    data = b"".join(data for _, _, data in tensors.values())
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    for case_name in CASES:
        print(write_checkpoint(case_name, parser.parse_args().folder))
