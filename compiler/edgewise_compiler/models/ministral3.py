"""Ministral 3: Mistral's shape, stretched by YaRN, with queries that grow with their position.

The temperature is Llama 4's: a query at position p is times 1 + beta*log(1 + floor(p/original)).
Where a bundle's context is beyond the original one, queries turn by a table of their own, which has
it; elsewhere it is 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from edgewise_compiler.models import decoder
from edgewise_compiler.models.base import ModelConfig
from edgewise_compiler.models.fields import ConfigFields
from edgewise_compiler.models.shape import WINDOWED

_TRAITS = decoder.Traits(
    family="ministral3",
    architectures=("Ministral3ForCausalLM",),
    model_types=("ministral3",),
    head_dim=128,
    rms_eps=1e-5,
    rope_theta=1000000.0,
    bos=1,
    eos=(2,),
    says={"max_position_embeddings": 262144},
    has=(WINDOWED,),
)
_ROPE = {
    "rope_type": "yarn",
    "rope_theta": 1000000.0,
    "factor": 16.0,
    "original_max_position_embeddings": 16384,
    "mscale_all_dim": 1.0,
    "mscale": 1.0,
    "llama_4_scaling_beta": 0.1,
}


def read_config(hf: Mapping[str, Any]) -> ModelConfig:
    """Without a word of rotations they are those of the first release."""
    if not (hf.get("rope_parameters") or hf.get("rope_scaling")):
        hf = {**hf, "rope_parameters": _ROPE}
    cfg = decoder.read_config(_TRAITS, hf)
    said = ConfigFields(hf).mapping("rope_scaling") or hf["rope_parameters"]
    fields = ConfigFields(said, "the rotation of config.json")
    beta = fields.number("llama_4_scaling_beta", 0.0, 1e3, 0.0)
    original = fields.integer("original_max_position_embeddings", 1, 1 << 24, cfg.context)
    return replace(cfg, temperature=(beta, original)) if beta else cfg


MINISTRAL3 = replace(decoder.family(_TRAITS), read_config=read_config)
