"""What a GGUF file's metadata means: what config.json would say."""

from __future__ import annotations

from math import nextafter
from typing import Any

from edgewise_compiler.gguf.keys import Keys
from edgewise_compiler.gguf.known import check_options, find_architecture
from edgewise_compiler.gguf.reader import GgufReader
from edgewise_compiler.models.decoder import MAX_LAYERS
from edgewise_compiler.models.fields import ConfigFields
from edgewise_compiler.weights.files import damaged
from edgewise_runtime.format.reading import shorten

ROPE_DIVISORS = "rope_freqs.weight"
LONG, SHORT = "rope_factors_long.weight", "rope_factors_short.weight"
"""Tensors that say how pairs turn; they are part of the configuration."""

_ATTENTION_BIASES = {"blk.0.attn_q.bias", "blk.0.attn_qkv.bias", "blk.0.attn_output.bias"}
_ATTENTION_FACTOR = "rope.scaling.attn_factor"


def read_config(reader: GgufReader) -> dict[str, Any]:
    """What config.json would say; the family checks it as it checks any other.

    Raises:
        CheckpointError: a key that is missing or of the wrong type.
        UnsupportedError: an architecture or an option that is not implemented.
    """
    name, architecture = find_architecture(reader)
    tensors = frozenset(reader.names())
    keys = Keys(ConfigFields(reader.metadata, reader.path.name), name, tensors)
    listed = (_ATTENTION_FACTOR,) if LONG in tensors else ()
    check_options(keys, (*architecture.reads, *listed))
    heads = keys.integer("attention.head_count")
    hidden = keys.integer("embedding_length")
    head_dim = keys.integer("attention.key_length", default=hidden // max(1, heads))
    rotated = keys.integer("rope.dimension_count", default=head_dim)
    config: dict[str, Any] = {
        "architectures": [architecture.model],
        "hidden_size": hidden,
        # Lists of layers are made of it, before the family looks.
        "num_hidden_layers": keys.fields.integer(f"{name}.block_count", 1, MAX_LAYERS),
        "num_attention_heads": heads,
        "num_key_value_heads": keys.of_layers("attention.head_count_kv", default=heads),
        "head_dim": head_dim,
        "intermediate_size": keys.integer("feed_forward_length"),
        "vocab_size": reader.shape("token_embd.weight")[0],
        "max_position_embeddings": keys.integer("context_length"),
        "rms_norm_eps": keys.number("attention.layer_norm_rms_epsilon", high=1.0),
        "tie_word_embeddings": "output.weight" not in tensors,
        "attention_bias": not _ATTENTION_BIASES.isdisjoint(tensors),
        "mlp_bias": "blk.0.ffn_up.bias" in tensors,
        "num_experts": keys.integer("expert_count", default=0),
        "partial_rotary_factor": _part(rotated, head_dim),
        "rope_theta": keys.number("rope.freq_base", default=10000.0),
        # No token ends a text unless the tokenizer says so.
        "bos_token_id": None,
        "eos_token_id": None,
    }
    config["rope_scaling"] = _rope_scaling(reader, keys, config, rotated // 2)
    return config | architecture.config(keys, config)


def _part(rotated: int, head_dim: int) -> float:
    """``rotated`` of a head's elements as a factor, of which families round the product down."""
    factor = rotated / max(1, head_dim)
    return factor if int(head_dim * factor) == rotated else nextafter(factor, 2.0)


def _rope_scaling(
    reader: GgufReader, keys: Keys, config: dict[str, Any], pairs: int
) -> dict[str, Any] | None:
    kind = keys.text("rope.scaling.type", default="none")
    if LONG in keys.tensors:
        return {
            "rope_type": "longrope",
            # llama.cpp multiplies by it whatever the context.
            "attention_factor": keys.number(_ATTENTION_FACTOR, default=0.0) or 1.0,
            "short_factor": _divisors(reader, SHORT, pairs),
            "long_factor": _divisors(reader, LONG, pairs),
            "original_max_position_embeddings": _original(keys, config),
        }
    if kind == "none" and ROPE_DIVISORS in keys.tensors:
        divisors = _divisors(reader, ROPE_DIVISORS, pairs)
        # What "longrope" means where one list serves texts of any length.
        lists = {"short_factor": divisors, "long_factor": divisors}
        return {"rope_type": "longrope", "attention_factor": 1.0, **lists}
    if kind == "none":
        return None
    values: dict[str, Any] = {
        "rope_type": kind,
        "factor": keys.number("rope.scaling.factor", default=1.0),
        "original_max_position_embeddings": _original(keys, config),
    }
    for key in ("beta_fast", "beta_slow"):
        if keys.has(f"rope.scaling.yarn_{key}"):
            values[key] = keys.number(f"rope.scaling.yarn_{key}")
    return values


def _original(keys: Keys, config: dict[str, Any]) -> int:
    context: int = config["max_position_embeddings"]
    return keys.integer("rope.scaling.original_context_length", default=context)


def _divisors(reader: GgufReader, name: str, pairs: int) -> list[float]:
    """One for each pair of dimensions that turns."""
    if name not in reader.names():
        raise damaged(reader.path, f"it has {LONG} and no {name}")
    shape = reader.shape(name)
    if shape != (pairs,):
        raise damaged(
            reader.path, f"{name} has shape {shorten(list(shape))} where {pairs} pairs turn"
        )
    divisors: list[float] = reader.read(name).tolist()
    return divisors
