"""Qwen2 and Qwen2.5: Llama's shape with biases on queries, keys and values (arXiv 2407.10671).

Qwen2-MoE has a mixture of experts besides, one of which every row goes through.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from edgewise_compiler.models import decoder
from edgewise_compiler.models.base import LinearSpec, ModelConfig, ParamSpec
from edgewise_compiler.models.fields import ConfigFields
from edgewise_compiler.models.shape import EXPERTS, SHARED_EXPERTS

_TRAITS = decoder.Traits(
    family="qwen2",
    architectures=("Qwen2ForCausalLM",),
    model_types=("qwen2",),
    says={"max_position_embeddings": 32768, "use_sliding_window": False},
)


_MIXED = decoder.Traits(
    family="qwen2_moe",
    architectures=("Qwen2MoeForCausalLM",),
    model_types=("qwen2_moe",),
    says={
        "max_position_embeddings": 32768,
        "use_sliding_window": False,
        "num_experts_per_tok": 4,
        "moe_intermediate_size": 1408,
        "shared_expert_intermediate_size": 5632,
    },
    has=(EXPERTS, SHARED_EXPERTS),
)


def read_config(traits: decoder.Traits, hf: Mapping[str, Any]) -> ModelConfig:
    """config.json says nothing of biases, or that they are there."""
    found = decoder.read_config(traits, hf)
    return replace(found, attention_bias=ConfigFields(hf).flag("qkv_bias", True))


def params(cfg: ModelConfig) -> tuple[ParamSpec, ...]:
    """Llama's, of which the attention's output has no bias."""
    return tuple(
        replace(spec, biases=None)
        if isinstance(spec, LinearSpec) and spec.name.endswith(".o")
        else spec
        for spec in decoder.params(cfg)
    )


QWEN2, QWEN2_MOE = (
    replace(decoder.family(traits), read_config=partial(read_config, traits), params=params)
    for traits in (_TRAITS, _MIXED)
)
