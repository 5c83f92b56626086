"""Llama (arXiv 2302.13971) and everything else that is saved as LlamaForCausalLM."""

from __future__ import annotations

from edgewise_compiler.models.decoder import Traits, family

LLAMA = family(
    Traits(
        family="llama",
        architectures=("LlamaForCausalLM",),
        model_types=("llama",),
        has_mlp_bias=True,
        bos=1,
        eos=(2,),
    )
)
