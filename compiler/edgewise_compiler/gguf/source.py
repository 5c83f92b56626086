"""A GGUF file as a checkpoint: the small files it stands for, and its tensors."""

from __future__ import annotations

import json
from collections.abc import Mapping

from edgewise_compiler.gguf.architecture import read_config
from edgewise_compiler.gguf.reader import GgufReader
from edgewise_compiler.gguf.tensors import CheckpointTensors
from edgewise_compiler.gguf.tokenizer import tokenizer_files
from edgewise_compiler.gguf.vectors import HEAD, vector_rules
from edgewise_runtime.format.vectors import NAME as VECTORS


def translate(reader: GgufReader) -> tuple[Mapping[str, bytes], CheckpointTensors]:
    """The files that a checkpoint folder of the same model would have, and its weights.

    Raises:
        CheckpointError: metadata that is missing or contradicts itself.
        UnsupportedError: an architecture, option or tokenizer that is not implemented.
    """
    config = read_config(reader)
    files = tokenizer_files(reader.metadata, reader.path)
    config |= files["generation_config.json"]
    rules = vector_rules(reader, config["hidden_size"])
    contents = {"config.json": config, **files, **({VECTORS: rules} if rules else {})}
    tensors = CheckpointTensors(reader, config, (HEAD,) if "yes_less_no" in rules else ())
    return {name: _bytes(value) for name, value in contents.items()}, tensors


def _bytes(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
