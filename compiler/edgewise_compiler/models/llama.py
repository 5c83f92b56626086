"""Llama (arXiv 2302.13971) and everything else that is saved as LlamaForCausalLM."""

from __future__ import annotations

from edgewise_compiler.models.decoder import Traits, family
from edgewise_compiler.models.shape import WINDOWS

LLAMA = family(
    Traits(
        family="llama",
        architectures=("LlamaForCausalLM",),
        model_types=("llama",),
        has_mlp_bias=True,
        bos=1,
        eos=(2,),
        says={"max_position_embeddings": 2048},
        ignores=WINDOWS,
    )
)
