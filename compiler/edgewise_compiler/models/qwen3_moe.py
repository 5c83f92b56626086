"""Qwen3 with a mixture of experts in the place of the MLP (arXiv 2505.09388)."""

from __future__ import annotations

from edgewise_compiler.models.decoder import Traits, family
from edgewise_compiler.models.shape import EXPERTS

QWEN3_MOE = family(
    Traits(
        family="qwen3_moe",
        architectures=("Qwen3MoeForCausalLM",),
        model_types=("qwen3_moe",),
        head_dim=128,
        qk_norm=True,
        says={
            "max_position_embeddings": 32768,
            "use_sliding_window": False,
            "num_experts_per_tok": 8,
            "moe_intermediate_size": 768,
        },
        has=(EXPERTS,),
    )
)
