"""OLMo 3: OLMo 2 with windows in three of four layers, which turn by a rotation of their own.

Only the layers without a window are stretched to a longer context (arXiv 2512.13961).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from edgewise_compiler.models import decoder, olmo2
from edgewise_compiler.models.base import ModelConfig
from edgewise_compiler.models.fields import ConfigFields
from edgewise_compiler.models.rope import RopeConfig, read_rope
from edgewise_compiler.models.shape import FULL, LOCAL, WINDOWED, layer_kinds

_PERIOD = 4
"""Of so many layers the last one has no window, where config.json does not say which."""
_TRAITS = decoder.Traits(
    family="olmo3",
    architectures=("Olmo3ForCausalLM",),
    model_types=("olmo3",),
    rms_eps=1e-5,
    rope_theta=500000.0,
    eos=(50279,),
    says={"max_position_embeddings": 2048, "sliding_window": 4096},
    has=(WINDOWED,),
    turns_apart=True,
)


def read_config(hf: Mapping[str, Any]) -> ModelConfig:
    """transformers 5 has the rotations of both kinds of layers in ``rope_parameters``; before, a
    ``rope_scaling`` was that of layers without a window."""
    fields = ConfigFields(hf)
    if not fields.has("layer_types"):
        count = fields.integer("num_hidden_layers", 1, decoder.MAX_LAYERS)
        hf = {**hf, "layer_types": layer_kinds(count, _PERIOD)}
    both = ConfigFields(fields.mapping("rope_parameters") or {})
    if FULL in both.values or LOCAL in both.values:
        cfg = olmo2.read_config({**hf, "rope_parameters": both.mapping(FULL)}, _TRAITS)
        inner = {**hf, "rope_parameters": both.mapping(LOCAL)}
        local = read_rope(inner, context=cfg.context, theta=_TRAITS.rope_theta)
    else:
        cfg = olmo2.read_config(hf, _TRAITS)
        local = RopeConfig(theta=cfg.rope.theta)
    return replace(cfg, local_rope=local)


OLMO3 = replace(decoder.family(_TRAITS), read_config=read_config)
