"""The text part of models that also see: its configuration, and which tensors are its.

A release of text and images has the part's config.json as ``text_config`` and its tensors behind a
prefix, which transformers has changed over time. Images are refused where somebody sends one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from edgewise_compiler.models.fields import ConfigFields

PARTS: Mapping[str, Mapping[str, str]] = {
    "Gemma3ForConditionalGeneration": {"gemma3_text": "Gemma3ForCausalLM"},
    "Mistral3ForConditionalGeneration": {
        "ministral3": "Ministral3ForCausalLM",
        "mistral": "MistralForCausalLM",
    },
}
"""Architectures of models of text and images: what the text part is called by its model type, the
first of which is meant where nothing is said."""

_MODEL_TYPES = {
    "gemma3": "Gemma3ForConditionalGeneration",
    "mistral3": "Mistral3ForConditionalGeneration",
}
_BESIDE = ("bos_token_id", "eos_token_id")
"""What may stand beside ``text_config``."""
_PREFIXES = {
    "language_model.model.": "model.",
    "model.language_model.": "model.",
    "language_model.lm_head.": "lm_head.",
    "lm_head.": "lm_head.",
}
"""Beginnings of names, and what they are in models of text alone."""
OTHERS = ("vision_tower.", "multi_modal_projector.", "model.vision_tower.", "model.multi_modal_")
"""Beginnings of the names of tensors that text does without."""


def text_part(hf: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """config.json of the text part; None for a model of text alone, or one that is not known.

    Raises:
        CheckpointError: ``text_config`` is no object.
    """
    listed = hf.get("architectures")
    name = listed[0] if isinstance(listed, list) and listed else _MODEL_TYPES.get(_type(hf))
    kinds = PARTS.get(name) if isinstance(name, str) else None
    if kinds is None:
        return None
    text = ConfigFields(hf).mapping("text_config") or {}
    beside = {key: hf[key] for key in _BESIDE if key in hf}
    called = kinds.get(_type(text) or next(iter(kinds)))
    if called is None:
        return None
    # A head of its own is found in the file, whatever either of the two says.
    return {**beside, **text, "architectures": [called], "tie_word_embeddings": True}


def text_tensors(names: Collection[str]) -> dict[str, str]:
    """The tensors that are not for images, by the names of a model of text alone."""
    found: dict[str, str] = {}
    for name in names:
        if name.startswith(OTHERS):
            continue
        prefix = next((prefix for prefix in _PREFIXES if name.startswith(prefix)), "")
        found[_PREFIXES.get(prefix, "") + name.removeprefix(prefix)] = name
    return found


def _type(hf: Mapping[str, Any]) -> str:
    said = hf.get("model_type")
    return said if isinstance(said, str) else ""
