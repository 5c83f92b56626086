"""Gemma 2 and 3, text: norms around both branches, GeGLU, windows (arXiv 2408.00118, 2503.19786).

Norms are stored less one. Gemma 2 caps scores and logits; Gemma 3 normalizes queries and keys
instead, and turns the layers with windows by a base of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from edgewise_compiler.models import decoder
from edgewise_compiler.models.base import ModelConfig, VectorSpec
from edgewise_compiler.models.fields import ConfigFields
from edgewise_compiler.models.rope import RopeConfig, read_rope
from edgewise_compiler.models.shape import GATED, WINDOWED
from edgewise_compiler.models.traits import PAGE, said
from edgewise_compiler.weights.views import View
from edgewise_runtime.errors import UnsupportedError

_SAYS = {
    "tie_word_embeddings": True,
    "hidden_activation": "gelu_pytorch_tanh",
    "sliding_window": 4096,
}
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
    says=_SAYS | {"max_position_embeddings": 131072},
    has=(GATED, WINDOWED),
)
_LOCAL, _FULL = "sliding_attention", "full_attention"
_PERIODS = {"gemma2": 2, "gemma3": 6}
"""Of so many layers the last one has no window, where config.json does not say which."""


def _read(traits: decoder.Traits, hf: Mapping[str, Any]) -> ModelConfig:
    fields = ConfigFields(hf)
    activation = fields.text("hidden_activation", _SAYS["hidden_activation"])
    if activation != _SAYS["hidden_activation"]:
        raise UnsupportedError(
            f"Not implemented: {GATED} ({said('hidden_activation', activation)}).",
            remedy=f"Use a model with {_SAYS['hidden_activation']}; see {PAGE}.",
            code="unsupported.activation",
        )
    if not fields.has("layer_types"):
        period = fields.integer("sliding_window_pattern", 1, 1 << 10, _PERIODS[traits.family])
        layers = fields.integer("num_hidden_layers", 1, decoder.MAX_LAYERS)
        kinds = [_LOCAL if (i + 1) % period else _FULL for i in range(layers)]
        hf = {**hf, "layer_types": kinds}
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
    if _LOCAL not in both.values:
        cfg = _read(_GEMMA3, hf)
        local = RopeConfig(theta=fields.number("rope_local_base_freq", 1.0, 1e12, 10000.0))
        return replace(cfg, local_rope=local)
    cfg = _read(_GEMMA3, {**hf, "rope_parameters": both.mapping(_FULL)})
    inner = {**hf, "rope_parameters": both.mapping(_LOCAL)}
    return replace(cfg, local_rope=read_rope(inner, context=cfg.context, theta=10000.0))


def _views(cfg: ModelConfig) -> dict[str, View]:
    """Every norm, and one."""
    vectors = (spec.source for spec in decoder.params(cfg) if isinstance(spec, VectorSpec))
    return {name: View(name, plus=1.0) for name in vectors}


GEMMA2 = replace(decoder.family(_GEMMA2), read_config=_read_gemma2, views=_views)
GEMMA3 = replace(decoder.family(_GEMMA3), read_config=_read_gemma3, views=_views)
