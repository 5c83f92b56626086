"""Dense Qwen3: Llama's shape with RMS-normalized queries and keys (arXiv 2505.09388)."""

from __future__ import annotations

from edgewise_compiler.models.decoder import Traits, family

QWEN3 = family(
    Traits(
        family="qwen3",
        architectures=("Qwen3ForCausalLM",),
        model_types=("qwen3",),
        head_dim=128,
        qk_norm=True,
        says={"max_position_embeddings": 32768, "use_sliding_window": False},
    )
)
