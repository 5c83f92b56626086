"""Granite 4 as far as it is dense: Granite 3's factors, gate and up in one tensor, and layers that
may do without positions.

Releases that are called hybrid have layers of another kind (Mamba), or experts beside the MLP that
all tokens share: both are refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from edgewise_compiler.models import decoder, granite
from edgewise_compiler.models.base import ModelConfig
from edgewise_compiler.models.traits import PAGE, said
from edgewise_compiler.weights.views import View, split
from edgewise_runtime.errors import UnsupportedError

_TRAITS = decoder.Traits(
    family="granite4",
    architectures=("GraniteMoeHybridForCausalLM",),
    model_types=("granitemoehybrid",),
    bos=1,
    eos=(2,),
    says={
        "max_position_embeddings": 2048,
        "num_local_experts": 8,
        "shared_intermediate_size": 1024,
    },
)
_ROTARY, _NONE = "rope", "nope"


def read_config(hf: Mapping[str, Any]) -> ModelConfig:
    """Layers are Mamba's where config.json says nothing of them, and positions there are none."""
    fields = decoder.fields_of(_TRAITS, hf)
    count = fields.integer("num_hidden_layers", 1, decoder.MAX_LAYERS)
    width = fields.integer("shared_intermediate_size", 1, decoder.MAX_WIDTH * 8)
    kinds = hf.get("layer_types") or hf.get("layers_block_type") or ["mamba"] * count
    read = {**hf, "layer_types": kinds, "intermediate_size": width}
    cfg = granite.read_config(read, _TRAITS)
    positions = fields.text("position_embedding_type", _NONE)
    if positions not in (_ROTARY, _NONE):
        raise UnsupportedError(
            f"Not implemented: other positions than rotary ones "
            f"({said('position_embedding_type', positions)}).",
            remedy=f"Use a model with {_ROTARY} or {_NONE}; see {PAGE}.",
            code="unsupported.rope",
        )
    return cfg if positions == _ROTARY else replace(cfg, still=tuple(range(cfg.layers)))


def views(cfg: ModelConfig) -> dict[str, View]:
    """The shared MLP's tensors by the names of Llama's, and Granite's last norm."""
    found = granite.views(cfg)
    for i in range(cfg.layers):
        ours, mlp = f"model.layers.{i}.mlp", f"model.layers.{i}.shared_mlp"
        both = {f"{ours}.{part}_proj.weight": cfg.intermediate for part in ("gate", "up")}
        found |= split(f"{mlp}.input_linear.weight", both)
        found[f"{ours}.down_proj.weight"] = View(f"{mlp}.output_linear.weight")
    return found


GRANITE4 = replace(decoder.family(_TRAITS), read_config=read_config, views=views)
