"""Granite 3, dense: Llama's shape with factors on embeddings, branches, scores and logits.

A stream that is divided by the factor of its branches does without it: norms only see its
direction, so that what is left is an eps that is divided by the factor's square, and a larger
factor of the embeddings. The factor of the logits is in the last norm.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from edgewise_compiler.models import decoder
from edgewise_compiler.models.base import ModelConfig
from edgewise_compiler.models.fields import ConfigFields
from edgewise_compiler.weights.views import View

_TRAITS = decoder.Traits(
    family="granite",
    architectures=("GraniteForCausalLM",),
    model_types=("granite",),
    has_mlp_bias=True,
    bos=1,
    eos=(2,),
    says={"max_position_embeddings": 2048},
)
_LEAST, _MOST = 2.0**-20, 2.0**20


def read_config(hf: Mapping[str, Any], traits: decoder.Traits = _TRAITS) -> ModelConfig:
    """The four factors are 1 where config.json says nothing."""
    cfg, fields = decoder.read_config(traits, hf), ConfigFields(hf)

    def factor(key: str) -> float:
        return fields.number(key, _LEAST, _MOST, 1.0)

    branch = factor("residual_multiplier")
    return replace(
        cfg,
        embed_factor=factor("embedding_multiplier") / branch,
        rms_eps=cfg.rms_eps / branch**2,
        sm_scale=factor("attention_multiplier"),
        logit_factor=1 / factor("logits_scaling"),
    )


def views(cfg: ModelConfig) -> dict[str, View]:
    """The last norm's weight with the factor of the logits."""
    return {LAST: View(LAST, times=cfg.logit_factor)} if cfg.logit_factor != 1.0 else {}


LAST = "model.norm.weight"

GRANITE = replace(decoder.family(_TRAITS), read_config=read_config, views=views)
