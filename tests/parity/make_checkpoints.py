"""Tiny random checkpoints of every family, made from seeds without torch.

Weights are sums of a counter's random bits, exact in float32, so that every machine makes the same
bytes; the goldens beside this file hold their hash. Gains are chosen so that logits spread over
several units and attention is neither uniform nor one-hot.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).resolve().parents[2])]

from tests.parity.case import Case
from tests.parity.cases import CASES
from tests.parity.mixtures import add_experts, add_stacked
from tests.parity.storing import write_weights

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
    return write_case(CASES[name], folder / name)


def write_case(case: Case, target: Path) -> Path:
    """Write a case into the new folder ``target`` and return that."""
    target.mkdir(parents=True)
    family = case.architecture.removesuffix("ForCausalLM").lower()
    others = {
        "gemma3": "gemma3_text",
        "gptoss": "gpt_oss",
        "qwen2moe": "qwen2_moe",
        "qwen3moe": "qwen3_moe",
    }
    family = others.get(family, family)
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
        if case.sinks:
            add(f"{layer}.self_attn.sinks", (c["num_attention_heads"],), 1.0, mean=1.0)
            add_stacked(add, f"{layer}.mlp", c)
        elif "num_experts" in c and i not in c.get("mlp_only_layers", ()):
            add_experts(add, f"{layer}.mlp", c)
        else:
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


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    for case_name in CASES:
        print(write_checkpoint(case_name, parser.parse_args().folder))
