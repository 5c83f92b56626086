"""Mistral: Llama's shape, in its first releases with windows (arXiv 2310.06825)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from edgewise_compiler.models import decoder
from edgewise_compiler.models.base import ModelConfig
from edgewise_compiler.models.shape import WINDOWED

_TRAITS = decoder.Traits(
    family="mistral",
    architectures=("MistralForCausalLM",),
    model_types=("mistral",),
    bos=1,
    eos=(2,),
    says={"max_position_embeddings": 131072},
    has=(WINDOWED,),
)


def read_config(hf: Mapping[str, Any]) -> ModelConfig:
    """``null`` is no window; a key that is absent means the window of the first release."""
    return decoder.read_config(_TRAITS, {"sliding_window": 4096, **hf})


MISTRAL = replace(decoder.family(_TRAITS), read_config=read_config)
