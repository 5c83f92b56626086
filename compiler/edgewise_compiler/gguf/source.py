"""A GGUF file as a checkpoint: the small files it stands for, and its tensors."""

from __future__ import annotations

import json
from collections.abc import Mapping

from edgewise_compiler.gguf.architecture import read_config
from edgewise_compiler.gguf.reader import GgufReader
from edgewise_compiler.gguf.tensors import CheckpointTensors
from edgewise_compiler.gguf.tokenizer import tokenizer_files


def translate(reader: GgufReader) -> tuple[Mapping[str, bytes], CheckpointTensors]:
    """The files that a checkpoint folder of the same model would have, and its weights.

    Raises:
        CheckpointError: metadata that is missing or contradicts itself.
        UnsupportedError: an architecture, option or tokenizer that is not implemented.
    """
    config = read_config(reader)
    files = tokenizer_files(reader.metadata, reader.path)
    config |= files["generation_config.json"]
    contents = {"config.json": config, **files}
    return {name: _bytes(value) for name, value in contents.items()}, CheckpointTensors(
        reader, config
    )


def _bytes(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
