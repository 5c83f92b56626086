"""Qwen2 and Qwen2.5: Llama's shape with biases on queries, keys and values (arXiv 2407.10671)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from edgewise_compiler.models import decoder
from edgewise_compiler.models.base import LinearSpec, ModelConfig, ParamSpec

_TRAITS = decoder.Traits(
    family="qwen2",
    architectures=("Qwen2ForCausalLM",),
    model_types=("qwen2",),
    says={"max_position_embeddings": 32768, "use_sliding_window": False},
)


def read_config(hf: Mapping[str, Any]) -> ModelConfig:
    """config.json says nothing of biases: they are always there."""
    return replace(decoder.read_config(_TRAITS, hf), attention_bias=True)


def params(cfg: ModelConfig) -> tuple[ParamSpec, ...]:
    """Llama's, of which the attention's output has no bias."""
    return tuple(
        replace(spec, biases=None)
        if isinstance(spec, LinearSpec) and spec.name.endswith(".o")
        else spec
        for spec in decoder.params(cfg)
    )


QWEN2 = replace(decoder.family(_TRAITS), read_config=read_config, params=params)
