"""Every format by its name, each where it is made, so that a child imports what it needs."""

from __future__ import annotations

from importlib import import_module

from tests.fuzz.case import Format

FORMATS = {
    "bundle": "bundles:BUNDLE",
    "plan": "bundles:PLAN",
    "params": "bundles:PARAMS",
    "proof": "bundles:PROOF_FILE",
    "shader": "shaders:SHADER",
    "config": "checkpoints:CONFIG",
    "safetensors": "checkpoints:SAFETENSORS",
    "index": "checkpoints:INDEX",
    "gguf": "gguf:GGUF",
    "packed": "quantized:PACKED",
    "mxfp4": "quantized:MXFP4",
    "mlc": "quantized:MLC",
    "tokenizer": "tokenizers:TOKENIZER",
    "template": "templates:TEMPLATE",
    "generation_config": "texts:GENERATION_CONFIG",
    "recipe": "texts:RECIPE",
    "conversation": "texts:CONVERSATION",
    "regex": "grammars:REGEX",
    "grammar": "grammars:GRAMMAR",
    "matcher": "grammars:MATCHER",
    "pages": "pages:PAGES",
    "packs": "packs:PACKS",
    "requests": "requests:REQUESTS",
    "hub": "hub:HUB",
}
"""Module of this folder and name in it."""


def find(name: str) -> Format:
    """A format by its name, or by where it is made."""
    module, _, constant = FORMATS.get(name, name).partition(":")
    form = getattr(import_module(f"tests.fuzz.formats.{module}"), constant)
    assert isinstance(form, Format)
    return form
