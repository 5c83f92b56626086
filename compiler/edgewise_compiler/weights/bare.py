"""Checkpoints of a model without its head, whose tensors lack the ``model.`` that others have."""

from __future__ import annotations

from collections.abc import Iterable

from edgewise_compiler.weights.base import WeightReader

PREFIX = "model."
TABLE, HEAD = "embed_tokens.weight", "lm_head.weight"


def is_bare(reader: WeightReader) -> bool:
    """Whether transformers saved the model inside of one that generates text, and not that."""
    names = reader.names()
    return TABLE in names and not any(name.startswith(PREFIX) for name in names)


def with_prefix(names: Iterable[str]) -> dict[str, str]:
    """What such tensors are called in a model with a head, and how they are stored."""
    return {name if name == HEAD else f"{PREFIX}{name}": name for name in names}
