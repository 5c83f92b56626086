"""gpt-oss: experts with biases and a clamped SwiGLU, sinks, windows in every second layer (arXiv
2508.10925).

The experts of a layer are stored as one tensor, with rows as columns; columns of gate and up
alternate. Parameters name them as they do Qwen's, expert by expert, and views say where they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from edgewise_compiler.models import decoder
from edgewise_compiler.models.base import LinearSpec, ModelConfig, ParamSpec, RouterSpec
from edgewise_compiler.models.fields import ConfigFields
from edgewise_compiler.models.shape import EXPERTS, WINDOWED, layer_kinds
from edgewise_compiler.models.traits import PAGE, said
from edgewise_compiler.weights.stacked import PARTS, Share
from edgewise_compiler.weights.views import View
from edgewise_runtime.errors import UnsupportedError

_TRAITS = decoder.Traits(
    family="gpt_oss",
    architectures=("GptOssForCausalLM",),
    model_types=("gpt_oss",),
    head_dim=64,
    rms_eps=1e-5,
    rope_theta=150000.0,
    says={
        "attention_bias": True,
        "max_position_embeddings": 131072,
        "num_experts_per_tok": 4,
        "sliding_window": 128,
    },
    has=(EXPERTS, WINDOWED),
)
_ROPE = {
    "rope_type": "yarn",
    "factor": 32.0,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "truncate": False,
    "original_max_position_embeddings": 4096,
}
"""The rotation of a config.json that mentions none."""

CLAMPED = {"swiglu_alpha": 1.702, "swiglu_limit": 7.0}
"""What kernels have of ``clamped_silu``, by its keys in config.json."""

SINKS = 16
"""Heads whose sinks fill what tensors are aligned to."""


def _read_config(hf: Mapping[str, Any]) -> ModelConfig:
    """All layers have experts, as wide as ``intermediate_size``; the softmax is over the chosen."""
    fields = ConfigFields(hf)
    for key, value in CLAMPED.items():
        found = fields.number(key, 0.0, 1e6, value)
        if found != value:
            raise UnsupportedError(
                f"Not implemented: another clamped SwiGLU ({said(key, found)}).",
                remedy=f"Use a model with {key} {value}; see {PAGE}.",
                code="unsupported.activation",
            )
    layers = fields.integer("num_hidden_layers", 1, decoder.MAX_LAYERS)
    hf = {
        **hf,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
        "moe_intermediate_size": hf.get("intermediate_size"),
        "norm_topk_prob": True,
    }
    if not fields.has("layer_types"):
        hf["layer_types"] = layer_kinds(layers, 2)
    if not fields.has("rope_scaling") and not fields.has("rope_parameters"):
        hf["rope_parameters"] = _ROPE
    cfg = decoder.read_config(_TRAITS, hf)
    if cfg.heads % SINKS:
        raise UnsupportedError(
            f"num_attention_heads is {cfg.heads}; with sinks it has to be a multiple of {SINKS}.",
            remedy="Use a model whose num_attention_heads is one.",
            code="unsupported.shape",
        )
    return replace(cfg, activation="clamped_silu", sinks=True)


def _params(cfg: ModelConfig) -> Iterator[ParamSpec]:
    """Llama's with experts; these and what chooses among them have biases."""
    for spec in decoder.params(cfg):
        if isinstance(spec, RouterSpec) or (isinstance(spec, LinearSpec) and spec.experts):
            biases = tuple(source.replace(".weight", ".bias") for source in spec.sources)
            spec = replace(spec, biases=biases)
        yield spec


def _views(cfg: ModelConfig) -> dict[str, View]:
    views: dict[str, View] = {}
    if cfg.mixture is None:
        return views
    count = cfg.mixture.experts
    for layer in cfg.mixture.layers:
        mlp = f"model.layers.{layer}.mlp"
        for end in ("weight", "bias"):
            views[f"{mlp}.gate.{end}"] = View(f"{mlp}.router.{end}")
        for index in range(count):
            for part, (source, first, step) in PARTS.items():
                share = Share(index, count, first, step)
                for end, stored in (("weight", source), ("bias", f"{source}_bias")):
                    name = f"{mlp}.experts.{index}.{part}_proj.{end}"
                    views[name] = View(f"{mlp}.experts.{stored}", share=share)
    return views


GPT_OSS = replace(
    decoder.family(_TRAITS),
    read_config=_read_config,
    params=lambda cfg: tuple(_params(cfg)),
    views=_views,
)
