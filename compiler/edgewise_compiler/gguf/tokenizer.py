"""A GGUF file's tokenizer as the files of a checkpoint: tokenizer.json and what goes with it.

Two kinds are read: byte-level BPE (`byte_level`) and SentencePiece's BPE (`sentencepiece`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgewise_compiler.gguf.byte_level import byte_level
from edgewise_compiler.gguf.container import Value
from edgewise_compiler.gguf.pipeline import Pipeline
from edgewise_compiler.gguf.sentencepiece import NAMED, sentencepiece
from edgewise_compiler.gguf.vocabulary import KEYS, Vocabulary
from edgewise_compiler.models.decoder import MAX_EOS
from edgewise_compiler.models.fields import ConfigFields
from edgewise_runtime.errors import UnsupportedError
from edgewise_runtime.format.reading import shorten


@dataclass(frozen=True)
class _Kind:
    """How tokenizers of one kind are read.

    Attributes:
        pipeline: what they do with a text.
        named: ids of tokens that a file need not name, by their keys.
    """

    pipeline: Callable[[Vocabulary], Pipeline]
    named: Mapping[str, int]


KINDS = {"gpt2": _Kind(byte_level, {}), "llama": _Kind(sentencepiece, NAMED)}
"""By ``tokenizer.ggml.model``."""

_END_KEYS = ("eos_token_id", "eot_token_id", "eom_token_id")

_ENDS = (
    *("<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", "<|endoftext|>"),
    *("<end_of_turn>", "<|end|>"),
)
"""Tokens that end a turn or a text whatever a file calls them: old files call them normal."""

_HARMONY = ("<|return|>", "<|call|>")
"""Where these end answers, ``<|end|>`` only ends a part of one."""

_KEEPS_SPACES = {"<unk>", "<s>", "<|endoftext|>"}
"""Of Phi-3's special tokens those that do not take the spaces after them."""

_NAMED = {
    "bos_token": "bos_token_id",
    "eos_token": "eos_token_id",
    "unk_token": "unknown_token_id",
    "pad_token": "padding_token_id",
}


def tokenizer_files(metadata: Mapping[str, Value], path: Path) -> dict[str, Any]:
    """tokenizer.json, tokenizer_config.json and generation_config.json, as JSON values.

    Raises:
        CheckpointError: a key that is missing, of the wrong type, or at odds with another.
        UnsupportedError: a kind of tokenizer that is not read, or one that does what is not known.
    """
    kind = _kind(ConfigFields(metadata, path.name))
    vocabulary = Vocabulary.read(metadata, path)
    tokens, fields = vocabulary.tokens, vocabulary.fields
    named = {name: vocabulary.id(key, kind.named.get(key)) for name, key in _NAMED.items()}
    ids = {name: token for name, token in named.items() if token is not None}
    eos = _ends(vocabulary, kind)
    pipeline = kind.pipeline(vocabulary)
    bos = fields.flag(f"{KEYS}.add_bos_token", pipeline.bos)
    end = fields.flag(f"{KEYS}.add_eos_token", False)
    around = [ids.get("bos_token") if bos else None, ids.get("eos_token") if end else None]
    return {
        "tokenizer.json": {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": _added(
                tokens, pipeline.special | set(eos), pipeline.others, _strips(fields, kind)
            ),
            "post_processor": _post_processor(tokens, *around),
            **pipeline.steps,
        },
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            **{name: tokens[i] for name, i in ids.items()},
            **_templates(metadata, fields),
        },
        "generation_config.json": {"bos_token_id": ids.get("bos_token"), "eos_token_id": eos},
    }


def _kind(fields: ConfigFields) -> _Kind:
    model = fields.text(f"{KEYS}.model")
    if model not in KINDS:
        raise UnsupportedError(
            f"The tokenizer in {fields.where} is of kind {shorten(model)}.",
            remedy="Byte-level BPE (gpt2) and SentencePiece's BPE (llama) are read; use the "
            "original checkpoint in safetensors format with its tokenizer.json.",
            code="unsupported.tokenizer",
        )
    return KINDS[model]


def _ends(vocabulary: Vocabulary, kind: _Kind) -> list[int]:
    """The end token, then those that end a turn, named or known by their text."""
    named = [vocabulary.id(key, kind.named.get(key)) for key in _END_KEYS]
    ids = {text: i for i, text in enumerate(vocabulary.tokens)}
    texts = [t for t in _ENDS if t != "<|end|>"] if ids.keys() >= {*_HARMONY} else _ENDS
    known = [ids[text] for text in texts if text in ids]
    return list(dict.fromkeys(i for i in named + known if i is not None))[:MAX_EOS]


def _strips(fields: ConfigFields, kind: _Kind) -> bool:
    """Whether special tokens take the spaces after them, as those of Phi-3's SentencePiece do."""
    phi3 = fields.text("general.architecture", "") == "phi3"
    return phi3 and kind.pipeline is sentencepiece


def _added(
    tokens: list[str], special: set[int], others: set[int], strips: bool
) -> list[dict[str, Any]]:
    flags = {"single_word": False, "lstrip": False, "normalized": False}

    def stripping(text: str) -> dict[str, bool]:
        return {"rstrip": strips and text not in _KEEPS_SPACES}

    return [
        {"id": i, "content": tokens[i], **flags, **stripping(tokens[i]), "special": i in special}
        for i in sorted(special | others)
        if tokens[i]
    ]


def _post_processor(tokens: list[str], begin: int | None, end: int | None) -> dict[str, Any] | None:
    if begin is None and end is None:
        return None

    def pieces(*texts: str) -> list[dict[str, Any]]:
        kinds = enumerate(texts)
        body = [{"Sequence": {"id": text, "type_id": i}} for i, text in kinds]
        return [*special(begin), *body, *special(end)]

    def special(token: int | None) -> list[dict[str, Any]]:
        return [] if token is None else [{"SpecialToken": {"id": tokens[token], "type_id": 0}}]

    used = {tokens[i]: i for i in (begin, end) if i is not None}
    return {
        "type": "TemplateProcessing",
        "single": pieces("A"),
        "pair": pieces("A", "B"),
        "special_tokens": {
            text: {"id": text, "ids": [i], "tokens": [text]} for text, i in used.items()
        },
    }


def _templates(metadata: Mapping[str, Value], fields: ConfigFields) -> dict[str, Any]:
    """The chat template, or several by name. What a model that ranks is asked is none."""
    key = "tokenizer.chat_template"
    named = {
        name.removeprefix(f"{key}."): fields.text(name)
        for name in metadata
        if name.startswith(f"{key}.") and name != f"{key}.rerank"
    }
    if fields.has(key):
        named["default"] = fields.text(key)
    if set(named) == {"default"}:
        return {"chat_template": named["default"]}
    listed = [{"name": name, "template": source} for name, source in named.items()]
    return {"chat_template": listed} if listed else {}
