"""Exporting from Python: `edgewise export` as a function."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from edgewise.cache import Progress, find_model
from edgewise_runtime.text import ChatTemplate, Tokenizer
from edgewise_runtime.text.files import TextFiles

MOST = 1 << 20
"""Bytes of a conv_template."""


def export(
    path: str | Path,
    out: str | Path,
    *,
    quant: str = "q4f16_1",
    conversation: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> Path:
    """Write a checkpoint as a folder that MLC LLM and WebLLM load, as `edgewise export` does.

    The program that such a folder is run with, a ``.wasm`` of the same architecture and
    quantization, comes from MLC.

    Args:
        path: a checkpoint folder, a GGUF file, or a model at a hub, ``hf:ORG/REPO``.
        out: the folder, which appears whole or not at all.
        quant: ``"q4f16_1"``, ``"q4f32_1"``, ``"q0f16"`` or ``"q0f32"``.
        conversation: ``conv_template`` of mlc-chat-config.json. Default: made of the chat template.
        progress: called with the phase, and how much of how much of it is done. Default: bars, if
            the standard error is a terminal.

    Returns:
        The folder.

    Raises:
        CheckpointError: the checkpoint cannot be read.
        UnsupportedError: a family or an option that is not exported, or a chat template that MLC
            cannot be told of.
        StorageError: the folder exists, or cannot be written.
    """
    # rich takes a while to import, which running a bundle should not wait for.
    from edgewise.conversations import conversation_of
    from edgewise.phases import told
    from edgewise_compiler.checkpoint import open_checkpoint
    from edgewise_compiler.mlc.export import export_mlc

    with told(progress, f"Exporting {path}") as tell:
        checkpoint = find_model(Path(path), tell)
        if conversation is None:
            with open_checkpoint(checkpoint) as opened:
                templates, stops = _templates(opened.files, opened.chat_template), opened.model.eos
            conversation = conversation_of(templates, stops)
        return export_mlc(
            checkpoint,
            out,
            conversation,
            quantization=quant,
            progress=lambda done, total: tell and tell("Writing", done, total),
        )


def _templates(files: Mapping[str, bytes], source: str | None) -> list[ChatTemplate]:
    """The chat template of a checkpoint, at two times."""
    if source is None:
        return []
    texts = TextFiles(Path(), lambda name, limit: files.get(name))
    names = Tokenizer.from_files(texts).special_tokens
    return [
        ChatTemplate(source, names, clock=partial(datetime, year, 2, 3)) for year in (2001, 2034)
    ]
