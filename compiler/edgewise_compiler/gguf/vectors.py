"""What a GGUF file says of vectors: how they are pooled, and whether its model ranks texts."""

from __future__ import annotations

from typing import Any

from edgewise_compiler.gguf.reader import GgufReader
from edgewise_compiler.models.fields import ConfigFields
from edgewise_compiler.vectors import RANKING, as_text, refused
from edgewise_compiler.weights.files import damaged
from edgewise_runtime.format.reading import shorten
from edgewise_runtime.format.vectors import AFTER, BEFORE, BETWEEN, INSTRUCTION

HEAD = "cls.output.weight"
"""The head's rows of the labels, where a model ranks."""

_NONE, _MEAN, _CLS, _LAST, _RANK = range(5)
_POOLINGS = {_MEAN: "mean", _LAST: "last"}
_WORDS = {_CLS: "the state of a first token that stands for the text"}
_LABELS = ["yes", "no"]
_TEMPLATE = "tokenizer.chat_template.rerank"
"""What the model is asked; no template of chats."""

_ASKED = BEFORE + BETWEEN.replace("{instruction}", INSTRUCTION) + AFTER


def vector_rules(reader: GgufReader, hidden: int) -> dict[str, Any]:
    """What vectors.json is to say by ``{architecture}.pooling_type``; nothing without it, or where
    every token has a vector of its own.

    Args:
        hidden: width of a state.

    Raises:
        CheckpointError: a head that is none of the model's.
        UnsupportedError: ``unsupported.pooling`` for another pooling, or another way to rank.
    """
    fields = ConfigFields(reader.metadata, reader.path.name)
    name = fields.text("general.architecture")
    kind = fields.integer(f"{name}.pooling_type", -1, 1 << 31, _NONE)
    if kind in (-1, _NONE):
        return {}
    if kind in _POOLINGS:
        return {"pooling": _POOLINGS[kind]}
    if kind != _RANK:
        raise refused(_WORDS.get(kind, f"pooling_type {kind}"))
    labels = reader.metadata.get(f"{name}.classifier.output_labels")
    if name not in RANKING or labels != _LABELS or HEAD not in reader.names():
        raise refused(f"a head with the labels {shorten(labels)}, of architecture {name}")
    if (asked := fields.text(_TEMPLATE, _ASKED)) != _ASKED:
        raise refused(f"to be asked otherwise than Qwen3-Reranker is: {shorten(asked)}")
    if (shape := reader.shape(HEAD)) != (len(_LABELS), hidden):
        raise damaged(reader.path, f"{HEAD} has shape {shorten(list(shape))}")
    yes, no = reader.read(HEAD)
    return {"pooling": "last", "normalize": True, "yes_less_no": as_text(yes - no)}
