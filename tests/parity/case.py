"""What a tiny checkpoint is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

CONTEXT = 256
"""max_position_embeddings of every case, tokens."""


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
        sinks: heads have sinks, and experts are stored as gpt-oss has them, with biases.
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
    sinks: bool = False
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
