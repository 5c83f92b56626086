"""Gemma 1, 2 and 3, text: GeGLU, and norms that are stored less one (arXiv 2403.08295, 2408.00118,
2503.19786).

The second and third have norms around both branches and windows. Gemma 2 caps scores and logits;
Gemma 3 normalizes queries and keys instead, and turns the layers with windows by a base of their
own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from edgewise_compiler.models import decoder
from edgewise_compiler.models.base import ModelConfig, VectorSpec
from edgewise_compiler.models.fields import ConfigFields
from edgewise_compiler.models.rope import RopeConfig, read_rope
from edgewise_compiler.models.shape import FULL, GATED, LOCAL, WINDOWED, layer_kinds
from edgewise_compiler.models.traits import PAGE, said
from edgewise_compiler.weights.views import View
from edgewise_runtime.errors import UnsupportedError

_GELU = "gelu_pytorch_tanh"
_SAYS = {
    "tie_word_embeddings": True,
    "hidden_activation": _GELU,
    "sliding_window": 4096,
}
_GEMMA = decoder.Traits(
    family="gemma",
    architectures=("GemmaForCausalLM",),
    model_types=("gemma",),
    head_dim=256,
    bos=2,
    eos=(1,),
    says={"tie_word_embeddings": True, "max_position_embeddings": 8192},
    has=(GATED,),
)
_GEMMA2 = decoder.Traits(
    family="gemma2",
    architectures=("Gemma2ForCausalLM",),
    model_types=("gemma2",),
    head_dim=256,
    bos=2,
    eos=(1,),
    says=_SAYS | {"max_position_embeddings": 8192},
    has=(GATED, WINDOWED),
)
_GEMMA3 = decoder.Traits(
    family="gemma3",
    architectures=("Gemma3ForCausalLM",),
    model_types=("gemma3_text",),
    head_dim=256,
    qk_norm=True,
    rope_theta=1000000.0,
    bos=2,
    eos=(1,),
    says=_SAYS
    | {
        "max_position_embeddings": 131072,
        # Released models of text and images leave out what is the default.
        "vocab_size": 262208,
        "hidden_size": 2304,
        "intermediate_size": 9216,
        "num_hidden_layers": 26,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
    },
    has=(GATED, WINDOWED),
    turns_apart=True,
)
_PERIODS = {"gemma2": 2, "gemma3": 6}
"""Of so many layers the last one has no window, where config.json does not say which."""


def _check_activation(key: str, activation: str, names: tuple[str, ...]) -> None:
    if activation not in names:
        raise UnsupportedError(
            f"Not implemented: {GATED} ({said(key, activation)}).",
            remedy=f"Use a model with {_GELU}; see {PAGE}.",
            code="unsupported.activation",
        )


def _read_gemma(hf: Mapping[str, Any]) -> ModelConfig:
    """What ``hidden_activation`` says means nothing; "gelu" was meant to be the approximation."""
    _check_activation("hidden_act", ConfigFields(hf).text("hidden_act", _GELU), (_GELU, "gelu"))
    cfg = decoder.read_config(_GEMMA, hf)
    return replace(cfg, activation="gelu_tanh", embed_factor=cfg.hidden**0.5)


def _read(traits: decoder.Traits, hf: Mapping[str, Any]) -> ModelConfig:
    fields = decoder.fields_of(traits, hf)
    _check_activation("hidden_activation", fields.text("hidden_activation"), (_GELU,))
    if not fields.has("layer_types"):
        period = fields.integer("sliding_window_pattern", 1, 1 << 10, _PERIODS[traits.family])
        layers = fields.integer("num_hidden_layers", 1, decoder.MAX_LAYERS)
        hf = {**hf, "layer_types": layer_kinds(layers, period)}
    cfg = decoder.read_config(traits, hf)

    def cap(key: str) -> float | None:
        return fields.number(key, 1e-3, 1e6) if fields.has(key) else None

    return replace(
        cfg,
        activation="gelu_tanh",
        norms="around",
        embed_factor=cfg.hidden**0.5,
        sm_scale=fields.number("query_pre_attn_scalar", 1e-3, 1e6, 256) ** -0.5,
        softcap=cap("attn_logit_softcapping"),
        logit_softcap=cap("final_logit_softcapping"),
    )


def _read_gemma2(hf: Mapping[str, Any]) -> ModelConfig:
    caps = {"attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0}
    return _read(_GEMMA2, {**caps, **hf})


def _read_gemma3(hf: Mapping[str, Any]) -> ModelConfig:
    """transformers 5 has the rotations of both kinds of layers in ``rope_parameters``."""
    fields = ConfigFields(hf)
    both = ConfigFields(fields.mapping("rope_parameters") or {})
    if LOCAL not in both.values:
        cfg = _read(_GEMMA3, hf)
        local = RopeConfig(theta=fields.number("rope_local_base_freq", 1.0, 1e12, 10000.0))
        return replace(cfg, local_rope=local)
    cfg = _read(_GEMMA3, {**hf, "rope_parameters": both.mapping(FULL)})
    inner = {**hf, "rope_parameters": both.mapping(LOCAL)}
    return replace(cfg, local_rope=read_rope(inner, context=cfg.context, theta=10000.0))


def _views(cfg: ModelConfig) -> dict[str, View]:
    """Every norm, and one."""
    vectors = (spec.source for spec in decoder.params(cfg) if isinstance(spec, VectorSpec))
    return {name: View(name, plus=1.0) for name in vectors}


GEMMA = replace(decoder.family(_GEMMA), read_config=_read_gemma, views=_views)
GEMMA2 = replace(decoder.family(_GEMMA2), read_config=_read_gemma2, views=_views)
GEMMA3 = replace(decoder.family(_GEMMA3), read_config=_read_gemma3, views=_views)
