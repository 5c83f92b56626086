"""OLMo 2: norms after attention and MLP, and of all queries and keys (arXiv 2501.00656)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from edgewise_compiler.models import decoder
from edgewise_compiler.models.base import ModelConfig
from edgewise_runtime.errors import UnsupportedError

_TRAITS = decoder.Traits(
    family="olmo2",
    architectures=("Olmo2ForCausalLM",),
    model_types=("olmo2",),
    rms_eps=1e-5,
    eos=(50279,),
    says={"max_position_embeddings": 2048},
)
_STEP = 32
"""Kernels add up squares of so many columns side by side."""


def read_config(hf: Mapping[str, Any], traits: decoder.Traits = _TRAITS) -> ModelConfig:
    """Llama's keys; where norms are is not among them."""
    cfg = decoder.read_config(traits, hf)
    if cfg.kv_heads * cfg.head_dim % _STEP:
        raise UnsupportedError(
            f"All keys of a token are {cfg.kv_heads * cfg.head_dim} elements; they have to be a "
            f"multiple of {_STEP}.",
            remedy="Use a model of which they are.",
            code="unsupported.shape",
        )
    return replace(cfg, norms="after", row_norm=True)


OLMO2 = replace(decoder.family(_TRAITS), read_config=read_config)
