"""OLMoE: experts in every layer, and norms of all queries and keys (arXiv 2409.02060)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from edgewise_compiler.models import decoder, olmo2
from edgewise_compiler.models.base import ModelConfig
from edgewise_compiler.models.shape import EXPERTS
from edgewise_compiler.models.traits import PAGE, said
from edgewise_runtime.errors import UnsupportedError

_TRAITS = decoder.Traits(
    family="olmoe",
    architectures=("OlmoeForCausalLM",),
    model_types=("olmoe",),
    rms_eps=1e-5,
    eos=(50279,),
    says={
        "max_position_embeddings": 4096,
        "intermediate_size": 2048,
        "num_experts": 64,
        "num_experts_per_tok": 8,
    },
    has=(EXPERTS,),
)


def _read_config(hf: Mapping[str, Any]) -> ModelConfig:
    """Experts are as wide as ``intermediate_size``; norms are where Llama's are."""
    fields = decoder.fields_of(_TRAITS, hf)
    if fields.has("clip_qkv"):
        raise UnsupportedError(
            f"Not implemented: clamped values ({said('clip_qkv', fields.values['clip_qkv'])}).",
            remedy=f"Use a model with queries, keys and values as they are; see {PAGE}.",
            code="unsupported.attention",
        )
    experts = {
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
        "moe_intermediate_size": fields.values["intermediate_size"],
    }
    return replace(olmo2.read_config({**hf, **experts}, _TRAITS), norms="before")


OLMOE = replace(decoder.family(_TRAITS), read_config=_read_config)
