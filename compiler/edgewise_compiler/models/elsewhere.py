"""Models that no family reads: what they need that is missing, as far as is known.

What config.json says is found by the traits of all families and those of this file. What it leaves
to the architecture's name is in `BEYOND`, for the architectures that people try most.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from edgewise_compiler.models.fields import ConfigFields
from edgewise_compiler.models.rope import TRAITS as ROPE
from edgewise_compiler.models.shape import SHAPE
from edgewise_compiler.models.traits import PAGE, Trait, asked_for, other
from edgewise_runtime.errors import UnsupportedError
from edgewise_runtime.format.reading import shorten

MOST = 4
"""Traits that one message names."""

_CODE = "unsupported.architecture"


@dataclass(frozen=True)
class Elsewhere:
    """What models of an architecture need beyond Llama's shape and do not say in config.json.

    Attributes:
        names: values of ``architectures`` and ``model_type``, and GGUF's ``general.architecture``.
        needs: in words.
    """

    names: tuple[str, ...]
    needs: tuple[str, ...]


def _head(fields: ConfigFields) -> str | None:
    """An architecture that is named after another task than going on with a text."""
    listed = fields.values.get("architectures")
    name = listed[0] if isinstance(listed, list) and listed else None
    if not isinstance(name, str) or name.endswith("LMHeadModel"):
        return None
    return f"architectures is {shorten(listed, 40)}" if name.endswith(_OTHER_TASKS) else None


_OTHER_TASKS = ("Model", "Classification", "MaskedLM", "QuestionAnswering", "RewardModel")


def _unrotated(fields: ConfigFields) -> str | None:
    """``no_rope_layers`` has a one for each layer that is rotated."""
    layers = fields.values.get("no_rope_layers")
    if isinstance(layers, list) and 0 in layers:
        return f"no_rope_layers has {layers.count(0)} of {len(layers)} layers"
    return other("no_rope_layer_interval")(fields)


TRAITS = (
    Trait(
        "another head than the next token's",
        ("architectures",),
        "an architecture that is called …ForCausalLM",
        _CODE,
        _head,
    ),
    Trait(
        "an encoder beside the decoder",
        ("is_encoder_decoder",),
        "a decoder alone",
        _CODE,
        other("is_encoder_decoder"),
    ),
    Trait(
        "images or sound",
        ("vision_config", "audio_config"),
        "text alone",
        _CODE,
        lambda fields: next(
            (f"it has a {key}" for key in ("vision_config", "audio_config") if fields.has(key)),
            None,
        ),
    ),
    Trait(
        "latent attention",
        ("kv_lora_rank",),
        "keys and values of their own for each head or group of heads",
        _CODE,
        other("kv_lora_rank"),
        gguf=("attention.kv_lora_rank",),
    ),
    Trait(
        "keys and values that layers share",
        ("num_kv_shared_layers",),
        "keys and values in every layer",
        _CODE,
        other("num_kv_shared_layers"),
        gguf=("attention.shared_kv_layers",),
    ),
    Trait(
        "a second rotation",
        ("rope_local_base_freq", "local_rope_theta"),
        "one rotation for all layers",
        _CODE,
        other("rope_local_base_freq", "local_rope_theta"),
    ),
    Trait(
        "layers without rotation",
        ("no_rope_layers", "no_rope_layer_interval"),
        "rotation in every layer",
        _CODE,
        _unrotated,
    ),
    Trait(
        "other positions than rotary ones",
        ("alibi", "position_embedding_type"),
        "rotary embeddings",
        _CODE,
        lambda fields: (
            other("alibi")(fields)
            or other("position_embedding_type", neutral=("rope", "rotary"))(fields)
        ),
        gguf=("attention.max_alibi_bias",),
    ),
    Trait(
        "soft caps",
        ("attn_logit_softcapping", "final_logit_softcapping"),
        "scores and logits as they are",
        _CODE,
        other("attn_logit_softcapping", "final_logit_softcapping"),
        gguf=("attn_logit_softcapping", "final_logit_softcapping"),
    ),
    Trait(
        "factors on embeddings, residuals or logits",
        ("embedding_multiplier", "residual_multiplier", "logits_scaling", "logit_scale"),
        "none of them, or 1",
        _CODE,
        other(
            "embedding_multiplier",
            "residual_multiplier",
            "logits_scaling",
            "logit_scale",
            "scale_emb",
            neutral=(0, 1),
        ),
        gguf=("embedding_scale", "residual_scale", "logit_scale"),
    ),
    Trait(
        "attention and MLP side by side",
        ("parallel_attn", "use_parallel_residual"),
        "the MLP after attention",
        _CODE,
        other("parallel_attn", "use_parallel_residual"),
        gguf=("use_parallel_residual",),
    ),
    Trait(
        "clamped values",
        ("clip_qkv", "swiglu_limit"),
        "queries, keys, values and SwiGLU as they are",
        _CODE,
        other("clip_qkv", "swiglu_limit"),
        gguf=("attention.clamp_kqv",),
    ),
    Trait(
        "LayerNorm",
        (),
        "RMSNorm",
        _CODE,
        lambda fields: None,
        gguf=("attention.layer_norm_epsilon",),
    ),
)
"""What configurations of other families say, beside what ours may."""

_LAYER_NORM = "LayerNorm"

BEYOND = (
    Elsewhere(("BloomForCausalLM", "bloom"), (_LAYER_NORM, "ALiBi")),
    Elsewhere(
        ("CohereForCausalLM", "Cohere2ForCausalLM", "command-r", "cohere2"),
        (_LAYER_NORM, "attention and MLP side by side"),
    ),
    Elsewhere(("FalconForCausalLM", "falcon"), (_LAYER_NORM,)),
    Elsewhere(("GPT2LMHeadModel", "gpt2"), (_LAYER_NORM, "learned positions")),
    Elsewhere(("GPTNeoXForCausalLM", "gpt_neox", "gptneox"), (_LAYER_NORM,)),
    Elsewhere(("PhiForCausalLM", "phi", "phi2"), (_LAYER_NORM, "attention and MLP side by side")),
    Elsewhere(("StableLmForCausalLM", "stablelm"), (_LAYER_NORM,)),
    Elsewhere(("Starcoder2ForCausalLM", "starcoder2"), (_LAYER_NORM,)),
)
"""By the architecture's name."""

NEEDS: Mapping[str, tuple[str, ...]] = {name: e.needs for e in BEYOND for name in e.names}

EVERY_TRAIT = (*SHAPE, *ROPE, *TRAITS)
"""In the order in which messages name them."""


def missing(name: str, hf: Mapping[str, Any]) -> list[str]:
    """What the model of a parsed config.json needs and there is not, in words.

    Of a model of text and images the part about text counts, too.
    """
    text = hf.get("text_config")
    fields = ConfigFields({**hf, **text} if isinstance(text, dict) else hf)
    return beyond(name, asked_for(EVERY_TRAIT, fields))


def beyond(name: str, found: Iterable[str]) -> list[str]:
    """What was found that a model needs, and what its architecture's name implies besides."""
    said = [*found]
    implied = NEEDS.get(name, ())
    return said + [need for need in implied if not any(one.startswith(need) for one in said)]


def refusal(what: str, needs: list[str], implemented: Iterable[str]) -> UnsupportedError:
    """The error for a model that no family reads.

    Args:
        what: "Models of architecture 'X'", or files.
        needs: what they have beyond Llama's shape, as far as is known; some families here have some
            of it.
        implemented: architectures to use instead.
    """
    if needs:
        more = f"; and {len(needs) - MOST} more" if len(needs) > MOST else ""
        why = f". Beyond Llama's shape they need: {'; '.join(needs[:MOST])}{more}"
    else:
        why = ": no family reads them, though nothing that they say of themselves is missing"
    return UnsupportedError(
        f"{what} are not implemented{why}.",
        remedy=f"Implemented: {', '.join(implemented)}; see {PAGE}.",
        code=_CODE,
    )
