"""An MLC folder as a checkpoint: the small files it stands for, and its tensors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from edgewise_compiler.mlc.config import find_kind, read_config
from edgewise_compiler.mlc.names import CONFIG
from edgewise_compiler.mlc.reader import MlcReader
from edgewise_compiler.mlc.template import chat_template
from edgewise_compiler.weights.files import checkpoint_json
from edgewise_runtime.errors import CheckpointError
from edgewise_runtime.format.reading import shorten
from edgewise_runtime.format.tokenizer import open_tokenizer

TEMPLATE = "chat_template.jinja"


def translate(files: Mapping[str, bytes], reader: MlcReader) -> dict[str, bytes]:
    """The files that a checkpoint folder of the same model would have; ``reader`` gets its names.

    Args:
        files: of the folder, its configuration among them.

    Raises:
        CheckpointError: files that are malformed or contradict each other.
        UnsupportedError: a model, quantization or option that is not implemented.
    """
    chat = _object(files[CONFIG], CONFIG)
    config, sampling = read_config(chat, reader.stored_names())
    reader.named(config, find_kind(chat)[1])
    conversation = chat.get("conv_template")
    conversation = conversation if isinstance(conversation, dict) else {}
    added = open_tokenizer(files["tokenizer.json"], "tokenizer.json").backend
    texts = {int(i): str(t.content) for i, t in added.get_added_tokens_decoder().items()}
    ends = {text: token for token, text in texts.items()}
    stops = _stop_texts(conversation)
    more = [ends[text] for text in stops if text in ends]
    config["eos_token_id"] = list(dict.fromkeys([*(config["eos_token_id"] or []), *more])) or None
    made = {"config.json": config}
    if stops := [text for text in stops if text not in ends]:
        sampling["stop_strings"] = stops
    if "generation_config.json" not in files and sampling:
        made["generation_config.json"] = sampling
    found = {name: json.dumps(value, ensure_ascii=False).encode() for name, value in made.items()}
    rest = {name: content for name, content in files.items() if name != CONFIG}
    if conversation and not _has_template(files):
        text = chat_template(conversation, partial(_token_text, texts))
        found[TEMPLATE] = text.encode()
    return {**rest, **found}


def _has_template(files: Mapping[str, bytes]) -> bool:
    name = "tokenizer_config.json"
    if TEMPLATE in files:
        return True
    return name in files and _object(files[name], name).get("chat_template") is not None


def _stop_texts(conversation: Mapping[str, Any]) -> list[str]:
    found = conversation.get("stop_str") or []
    found = [found] if isinstance(found, str) else found
    if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
        raise CheckpointError(
            f"'stop_str' in conv_template of {CONFIG} is {shorten(found)}, expected texts.",
            remedy="Correct the file, or download the folder again.",
            code="checkpoint.config",
        )
    return [text for text in found if text]


def _token_text(texts: Mapping[int, str], token: int) -> str:
    """The text of a token that is found in a text before it is cut."""
    if token not in texts:
        raise CheckpointError(
            f"system_prefix_token_ids in {CONFIG} has {token}, which is no added token of "
            "tokenizer.json.",
            remedy="Use the tokenizer of this model.",
            code="checkpoint.tokenizer",
        )
    return texts[token]


def _object(raw: bytes, name: str) -> dict[str, Any]:
    content = checkpoint_json(raw, Path(name))
    if not isinstance(content, dict):
        raise CheckpointError(
            f"{name} holds {shorten(content)} instead of an object.",
            remedy="Download the folder again.",
            code="checkpoint.file",
        )
    return content
