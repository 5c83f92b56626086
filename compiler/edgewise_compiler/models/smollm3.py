"""SmolLM3: Llama's shape, of which every fourth layer does without positions (arXiv 2501.18795)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from edgewise_compiler.models import decoder
from edgewise_compiler.models.base import ModelConfig
from edgewise_compiler.models.fields import ConfigFields

_TRAITS = decoder.Traits(
    family="smollm3",
    architectures=("SmolLM3ForCausalLM",),
    model_types=("smollm3",),
    has_mlp_bias=True,
    rope_theta=2000000.0,
    bos=128000,
    eos=(128001,),
    says={
        "max_position_embeddings": 32768,
        "use_sliding_window": False,
        "tie_word_embeddings": True,
    },
)
_INTERVAL = 4


def read_config(hf: Mapping[str, Any]) -> ModelConfig:
    """``no_rope_layers`` has a zero for each layer that does not turn, or every so-manieth does
    not."""
    cfg = decoder.read_config(_TRAITS, hf)
    fields = ConfigFields(hf)
    if fields.has("no_rope_layers"):
        turns = fields.numbers("no_rope_layers", 0, 1, most=decoder.MAX_LAYERS)
        # What is left out at the end turns as the others do by default.
        still = tuple(i for i, one in enumerate(turns[: cfg.layers]) if not one)
    else:
        interval = fields.integer("no_rope_layer_interval", 1, decoder.MAX_LAYERS, _INTERVAL)
        still = tuple(range(interval - 1, cfg.layers, interval))
    return replace(cfg, still=still)


SMOLLM3 = replace(decoder.family(_TRAITS), read_config=read_config)
