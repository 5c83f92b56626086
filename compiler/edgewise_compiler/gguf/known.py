"""Which models in GGUF files are known: the architectures that are read, and why others are not."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from edgewise_compiler.gguf import families
from edgewise_compiler.gguf.keys import Keys
from edgewise_compiler.gguf.reader import GgufReader
from edgewise_compiler.models.elsewhere import EVERY_TRAIT, beyond, refusal
from edgewise_compiler.models.fields import ConfigFields
from edgewise_compiler.models.traits import PAGE, said
from edgewise_runtime.errors import UnsupportedError
from edgewise_runtime.format.reading import shorten

BEFORE = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}
AFTER = {
    "post_attention_norm": "post_attention_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
BRANCHES = {"attn_norm": "input_layernorm", "post_attention_norm": "post_attention_layernorm"}
"""The norms before both branches, where the second is called after what it follows."""

AROUND = {**BEFORE, **AFTER, "ffn_norm": "pre_feedforward_layernorm"}
"""What transformers calls the norms of a layer, by where a model has them."""


@dataclass(frozen=True)
class Architecture:
    """How files of one ``general.architecture`` are read.

    Attributes:
        model: value of ``architectures`` in config.json.
        pairs: rotated pairs of queries and keys lie beside each other, not half a head apart.
        norms: of a layer.
        more: one was added to the weights of norms.
        others: modules of a layer that are not called as Llama's are.
        config: what it has beside what all have, or otherwise.
        reads: keys of `NEUTRAL` that ``config`` reads.
        too: other values of ``architectures`` that ``config`` may name.
    """

    model: str
    pairs: bool = False
    norms: Mapping[str, str] = field(default_factory=lambda: BEFORE)
    more: bool = False
    others: Mapping[str, str] = field(default_factory=dict)
    config: Callable[[Keys, families.Config], dict[str, Any]] = lambda keys, config: {}
    reads: tuple[str, ...] = ()
    too: tuple[str, ...] = ()


_GRANITE = ("attention.scale", "embedding_scale", "logit_scale", "residual_scale")

ARCHITECTURES = {
    "llama": Architecture(
        "LlamaForCausalLM", pairs=True, config=families.llama, too=("MistralForCausalLM",)
    ),
    "gemma": Architecture("GemmaForCausalLM", more=True, config=families.gemma),
    "gemma2": Architecture(
        "Gemma2ForCausalLM",
        norms=AROUND,
        more=True,
        config=families.gemma2,
        reads=("attn_logit_softcapping", "final_logit_softcapping"),
    ),
    "gemma3": Architecture(
        "Gemma3ForCausalLM",
        norms=AROUND,
        more=True,
        config=families.gemma3,
        reads=("final_logit_softcapping",),
    ),
    "gpt-oss": Architecture(
        "GptOssForCausalLM",
        norms=BRANCHES,
        others={"ffn_gate_inp": "mlp.gate"},
        config=families.gpt_oss,
    ),
    "granite": Architecture(
        "GraniteForCausalLM",
        pairs=True,
        config=families.granite,
        reads=_GRANITE,
        too=("GraniteMoeHybridForCausalLM",),
    ),
    "granitehybrid": Architecture(
        "GraniteMoeHybridForCausalLM", pairs=True, config=families.granite, reads=_GRANITE
    ),
    "mistral3": Architecture(
        "MistralForCausalLM",
        pairs=True,
        config=families.mistral3,
        reads=("attention.temperature_scale", "rope.scaling.yarn_log_multiplier"),
        too=("Ministral3ForCausalLM",),
    ),
    "olmo2": Architecture(
        "Olmo2ForCausalLM", norms=AFTER, config=families.olmo2, too=("Olmo3ForCausalLM",)
    ),
    "phi3": Architecture(
        "Phi3ForCausalLM",
        others={"attn_qkv": "self_attn.qkv_proj", "ffn_up": "mlp.gate_up_proj"},
        config=families.phi3,
    ),
    "qwen2": Architecture("Qwen2ForCausalLM"),
    "qwen2moe": Architecture(
        "Qwen2MoeForCausalLM",
        others={
            "ffn_gate_inp": "mlp.gate",
            "ffn_gate_inp_shexp": "mlp.shared_expert_gate",
            "ffn_gate_shexp": "mlp.shared_expert.gate_proj",
            "ffn_up_shexp": "mlp.shared_expert.up_proj",
            "ffn_down_shexp": "mlp.shared_expert.down_proj",
        },
        config=families.qwen2moe,
    ),
    "qwen3": Architecture("Qwen3ForCausalLM"),
    "qwen3moe": Architecture(
        "Qwen3MoeForCausalLM",
        others={"ffn_gate_inp": "mlp.gate"},
        config=families.qwen3moe,
    ),
    "smollm3": Architecture("SmolLM3ForCausalLM", pairs=True),
}

NEUTRAL: dict[str, tuple[float, ...]] = {
    "attention.causal": (True,),
    "attention.clamp_kqv": (0,),
    "attention.max_alibi_bias": (0,),
    "attention.scale": (0,),
    "attention.temperature_scale": (0,),
    "attn_logit_softcapping": (0,),
    "embedding_scale": (0, 1),
    "expert_gating_func": (0, 1),
    "expert_group_count": (0, 1),
    "expert_weights_scale": (0, 1),
    "final_logit_softcapping": (0,),
    "logit_scale": (0, 1),
    "residual_scale": (0, 1),
    "rope.scale_linear": (0, 1),
    "rope.scaling.attn_factor": (0, 1),
    "rope.scaling.yarn_attn_factor": (0, 1),
    "rope.scaling.yarn_ext_factor": (-1, 1),
    "rope.scaling.yarn_log_multiplier": (0,),
    "use_parallel_residual": (False,),
}
"""Keys that change what a model computes, and the values that leave it as it is."""

BESIDE = {
    "adapter": "an adapter (LoRA), which holds only what differs from another model",
    "imatrix": "an importance matrix, which tells a quantizer what matters",
    "mmproj": "the part of a model that reads images or sound",
}
"""What else there is in GGUF files, by ``general.type``."""


def find_architecture(reader: GgufReader) -> tuple[str, Architecture]:
    """The architecture that a file names.

    Raises:
        CheckpointError: it names none.
        UnsupportedError: it is not implemented, or the file holds something else than a model.
    """
    fields = ConfigFields(reader.metadata, reader.path.name)
    of_images = fields.text("general.architecture", "") == "clip"
    kind = "mmproj" if of_images else fields.text("general.type", "model")
    if kind in BESIDE:
        raise UnsupportedError(
            f"{reader.path.name} is {BESIDE[kind]} (general.type {shorten(kind)}).",
            remedy="Name the model's own GGUF file.",
            code="unsupported.gguf",
        )
    name = fields.text("general.architecture")
    if name not in ARCHITECTURES:
        what = f"GGUF files of architecture {shorten(name)}"
        raise refusal(what, beyond(name, _asked_for(name, fields)), ARCHITECTURES)
    return name, ARCHITECTURES[name]


def _asked_for(name: str, fields: ConfigFields) -> Iterator[str]:
    """The traits that the metadata of another architecture speaks of."""
    for trait in EVERY_TRAIT:
        for key in trait.gguf:
            value = fields.values.get(f"{name}.{key}", 0)
            if isinstance(value, int | float) and value not in NEUTRAL.get(key, (0,)):
                yield f"{trait.name} ({said(key, value)})"
                break


def check_options(keys: Keys, read: Collection[str]) -> None:
    """Raise UnsupportedError for an option that changes what a model computes.

    Args:
        read: keys that are no matter, because they were read.
    """
    fields, name = keys.fields, keys.name
    for key, allowed in NEUTRAL.items():
        found = fields.values.get(f"{name}.{key}", allowed[0])
        if key not in read and (not isinstance(found, int | float) or found not in allowed):
            raise UnsupportedError(
                f"{name}.{key} is {shorten(found)} in {fields.where}: not implemented.",
                remedy=f"Use a model without it; see {PAGE}.",
                code="unsupported.option",
            )
