"""Phi-3 and Phi-4: queries, keys and values in one tensor, gate and up in another (arXiv
2404.14219).

Phi-4-mini turns a part of each head. Those of a long context turn by other divisors there than they
do in a short one: a bundle by those of its own context, whatever the length of a text.
"""

from __future__ import annotations

from dataclasses import replace

from edgewise_compiler.models import decoder
from edgewise_compiler.models.base import ModelConfig
from edgewise_compiler.models.rope import PARTIAL
from edgewise_compiler.models.shape import WINDOWED
from edgewise_compiler.weights.views import Turning, View, split

_TRAITS = decoder.Traits(
    family="phi3",
    architectures=("Phi3ForCausalLM",),
    model_types=("phi3",),
    rms_eps=1e-5,
    bos=1,
    eos=(32000,),
    says={"max_position_embeddings": 4096, "original_max_position_embeddings": 4096},
    has=(PARTIAL, WINDOWED),
)


def views(cfg: ModelConfig) -> dict[str, View]:
    """The tensors of Llama's names, as rows of the two that are stored."""
    found: dict[str, View] = {}
    q, kv = cfg.heads * cfg.head_dim, cfg.kv_heads * cfg.head_dim
    for i in range(cfg.layers):
        attention, mlp = f"model.layers.{i}.self_attn", f"model.layers.{i}.mlp"
        heads = {
            f"{attention}.{part}_proj.weight": rows
            for part, rows in zip("qkv", (q, kv, kv), strict=True)
        }
        found |= split(f"{attention}.qkv_proj.weight", heads)
        if cfg.rotated is not None:
            for name in (f"{attention}.q_proj.weight", f"{attention}.k_proj.weight"):
                found[name] = replace(found[name], turning=Turning(cfg.head_dim, cfg.rotated))
        both = {f"{mlp}.{part}_proj.weight": cfg.intermediate for part in ("gate", "up")}
        found |= split(f"{mlp}.gate_up_proj.weight", both)
    return found


PHI3 = replace(decoder.family(_TRAITS), views=views)
