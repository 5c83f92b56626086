"""A GGUF file's tokenizer as the files of a checkpoint: tokenizer.json and what goes with it.

Only byte-level BPE is read. Its vocabulary and merges are in the metadata as they were in the
original; how text is cut before merging is named by ``tokenizer.ggml.pre``, a table of llama.cpp
(src/llama-vocab.cpp) that is repeated here for the models that are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgewise_compiler.gguf.container import Value
from edgewise_compiler.models.decoder import MAX_EOS
from edgewise_compiler.models.fields import ConfigFields
from edgewise_compiler.weights.files import damaged
from edgewise_runtime.errors import CheckpointError, UnsupportedError
from edgewise_runtime.format.reading import shorten

KEYS = "tokenizer.ggml"

_CONTROL, _USER_DEFINED = 3, 4

_END_KEYS = ("eos_token_id", "eot_token_id", "eom_token_id")

_ENDS = ("<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", "<|endoftext|>")
"""Tokens that end a turn or a text whatever a file calls them: old files call them normal."""

_NAMED = {
    "bos_token": "bos_token_id",
    "eos_token": "eos_token_id",
    "unk_token": "unknown_token_id",
    "pad_token": "padding_token_id",
}

_CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_LLAMA3 = (
    rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_QWEN2 = _LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")

_GPT2_STEP = {
    "type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True,
}  # fmt: skip
"""Cuts by GPT-2's regular expression, then spells bytes as characters."""


@dataclass(frozen=True)
class _Rules:
    """How text is cut into the pieces that are merged.

    Attributes:
        steps: pre-tokenizers as tokenizer.json writes them.
        ignore_merges: a piece that is a token is not merged.
        bos: a text begins with the beginning token, unless the file says otherwise.
        nfc: text is composed first.
    """

    steps: tuple[Mapping[str, Any], ...]
    ignore_merges: bool = False
    bos: bool = False
    nfc: bool = False


def _by(regex: str) -> tuple[Mapping[str, Any], ...]:
    split = {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False}
    return split, _GPT2_STEP | {"use_regex": False}


_RULES: dict[str, _Rules] = {
    "gpt-2": _Rules((_GPT2_STEP,)),
    "smollm": _Rules(({"type": "Digits", "individual_digits": True}, _GPT2_STEP)),
    "qwen2": _Rules(_by(_QWEN2), nfc=True),
    "deepseek-r1-qwen": _Rules(_by(_QWEN2)),
    **dict.fromkeys(
        ("llama3", "llama-v3", "llama-bpe"), _Rules(_by(_LLAMA3), ignore_merges=True, bos=True)
    ),
}
"""By ``tokenizer.ggml.pre``."""


def tokenizer_files(metadata: Mapping[str, Value], path: Path) -> dict[str, Any]:
    """tokenizer.json, tokenizer_config.json and generation_config.json, as JSON values.

    Raises:
        CheckpointError: a key that is missing, of the wrong type, or at odds with another.
        UnsupportedError: a tokenizer that is not byte-level BPE, or cuts text in an unknown way.
    """
    fields = ConfigFields(metadata, path.name)
    rules = _rules(fields)
    tokens = _texts(metadata, "tokens", path)
    if len(set(tokens)) != len(tokens):
        raise damaged(path, f"{KEYS}.tokens holds a token twice")
    ids = _named_ids(fields, len(tokens))
    eos = _ends(fields, tokens)
    added = _added(tokens, _types(metadata, len(tokens), path), eos)
    bos = fields.flag(f"{KEYS}.add_bos_token", rules.bos)
    end = fields.flag(f"{KEYS}.add_eos_token", False)
    around = [ids.get("bos_token") if bos else None, ids.get("eos_token") if end else None]
    return {
        "tokenizer.json": {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": added,
            "normalizer": {"type": "NFC"} if rules.nfc else None,
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": list(rules.steps)},
            "post_processor": _post_processor(tokens, *around),
            "decoder": _GPT2_STEP,
            "model": {
                "type": "BPE",
                "dropout": None,
                "unk_token": None,
                "continuing_subword_prefix": None,
                "end_of_word_suffix": None,
                "fuse_unk": False,
                "byte_fallback": False,
                "ignore_merges": rules.ignore_merges,
                "vocab": {token: i for i, token in enumerate(tokens)},
                "merges": [_merge(merge, path) for merge in _texts(metadata, "merges", path)],
            },
        },
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            **{name: tokens[i] for name, i in ids.items()},
            **_templates(metadata, fields),
        },
        "generation_config.json": {"bos_token_id": ids.get("bos_token"), "eos_token_id": eos},
    }


def _rules(fields: ConfigFields) -> _Rules:
    model = fields.text(f"{KEYS}.model")
    if model != "gpt2":
        raise UnsupportedError(
            f"The tokenizer in {fields.where} is of kind {shorten(model)}.",
            remedy="Byte-level BPE (gpt2) is read; use the original checkpoint in safetensors "
            "format with its tokenizer.json.",
            code="unsupported.tokenizer",
        )
    pre = fields.text(f"{KEYS}.pre", "default")
    if pre not in _RULES:
        raise UnsupportedError(
            f"{KEYS}.pre in {fields.where} is {shorten(pre)}: how it cuts text is not known.",
            remedy=f"Known: {', '.join(_RULES)}. A file that names none was made by an old "
            "llama.cpp: convert the model again.",
            code="unsupported.tokenizer",
        )
    return _RULES[pre]


def _texts(metadata: Mapping[str, Value], key: str, path: Path) -> list[str]:
    found = metadata.get(f"{KEYS}.{key}")
    if not isinstance(found, list) or not found:
        raise damaged(path, f"{KEYS}.{key} is {shorten(found)}, not a list of texts")
    return found


def _types(metadata: Mapping[str, Value], count: int, path: Path) -> list[int]:
    found = metadata.get(f"{KEYS}.token_type")
    if found is None:
        return [1] * count
    if not isinstance(found, np.ndarray) or found.dtype.kind not in "iu" or len(found) != count:
        raise damaged(path, f"{KEYS}.token_type does not give {count} tokens a type")
    types: list[int] = found.tolist()
    return types


def _named_ids(fields: ConfigFields, count: int) -> dict[str, int]:
    found = {name: _id(fields, key, count) for name, key in _NAMED.items()}
    return {name: token for name, token in found.items() if token is not None}


def _id(fields: ConfigFields, key: str, count: int) -> int | None:
    if not fields.has(f"{KEYS}.{key}"):
        return None
    # All ones stands for none.
    token = fields.integer(f"{KEYS}.{key}", -1, (1 << 32) - 1)
    if token in (-1, (1 << 32) - 1):
        return None
    if token >= count:
        raise CheckpointError(
            f"{KEYS}.{key} in {fields.where} is {token}, beyond its {count} tokens.",
            remedy="Download the model again.",
            code="checkpoint.tokenizer",
        )
    return token


def _ends(fields: ConfigFields, tokens: list[str]) -> list[int]:
    """The end token, then those that end a turn, named or known by their text."""
    named = [_id(fields, key, len(tokens)) for key in _END_KEYS]
    known = [tokens.index(text) for text in _ENDS if text in tokens]
    return list(dict.fromkeys(i for i in named + known if i is not None))[:MAX_EOS]


def _added(tokens: list[str], types: list[int], eos: list[int]) -> list[dict[str, Any]]:
    special = {i for i, kind in enumerate(types) if kind == _CONTROL} | set(eos)
    others = {i for i, kind in enumerate(types) if kind == _USER_DEFINED}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return [
        {"id": i, "content": tokens[i], **flags, "special": i in special}
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


def _merge(text: str, path: Path) -> list[str]:
    # The first part may itself begin with a space.
    at = text.find(" ", 1)
    if at < 0:
        raise damaged(path, f"{KEYS}.merges holds {shorten(text)}, which is no pair")
    return [text[:at], text[at + 1 :]]


def _templates(metadata: Mapping[str, Value], fields: ConfigFields) -> dict[str, Any]:
    """The chat template, or several by name."""
    key = "tokenizer.chat_template"
    named = {
        name.removeprefix(f"{key}."): fields.text(name)
        for name in metadata
        if name.startswith(f"{key}.")
    }
    if fields.has(key):
        named["default"] = fields.text(key)
    if set(named) == {"default"}:
        return {"chat_template": named["default"]}
    listed = [{"name": name, "template": source} for name, source in named.items()]
    return {"chat_template": listed} if listed else {}
