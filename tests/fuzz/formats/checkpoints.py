"""Checkpoint folders: config.json and its companions, safetensors and their index."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from edgewise_compiler.checkpoint import open_checkpoint
from edgewise_compiler.models.base import RotationSpec
from edgewise_compiler.models.rotation import rotation_table
from edgewise_compiler.weights.safetensors import INDEX as INDEX_FILE
from edgewise_compiler.weights.safetensors import SINGLE
from tests.fuzz.case import Files, Format, WrongAnswerError, read_files
from tests.fuzz.mutate import raw, values
from tests.parity.make_checkpoints import write_checkpoint

ROTATED = 64
"""Positions whose rotations are computed."""
ROWS = 4
"""Rows of each tensor that are read."""
_WORDS = (
    *("LlamaForCausalLM", "Qwen3ForCausalLM", "llama", "qwen3", "rope_type", "rope_scaling"),
    *("yarn", "longrope", "llama3", "linear", "dynamic", "default", "silu", "gelu", "float16"),
    *("sliding_window", "attention_bias", "mlp_bias", "tie_word_embeddings", "quantization_config"),
    *("F32", "BF16", "F16", "I8", "F8_E4M3", "model.safetensors", "../model.safetensors"),
)


def _seeds(*cases: str) -> Callable[[], Sequence[Files]]:
    def seeds() -> Sequence[Files]:
        with TemporaryDirectory() as place:
            return [read_files(write_checkpoint(case, Path(place))) for case in cases]

    return seeds


def _mutate(*names: str) -> Callable[[Random, Files], Files]:
    def mutate(rng: Random, files: Files) -> Files:
        name = rng.choice(names)
        value = values.changed(rng, json.loads(files[name]), _WORDS)
        return {**files, name: values.written(rng, value)}

    return mutate


def _mutate_weights(rng: Random, files: Files) -> Files:
    data = files[SINGLE]
    size = int.from_bytes(data[:8], "little")
    if rng.random() < 0.4:
        return {**files, SINGLE: raw.changed(rng, data, head=size + 8)}
    header = values.changed(rng, json.loads(data[8 : 8 + size]), _WORDS)
    text = values.written(rng, header)
    length = len(text) if rng.random() < 0.9 else rng.choice(values.INTS) % (1 << 64)
    return {**files, SINGLE: length.to_bytes(8, "little") + text + data[8 + size :]}


def use(folder: Path, files: Files) -> None:
    """What compiling looks at before anything is computed, and some of every tensor."""
    with open_checkpoint(folder) as checkpoint:
        model, weights = checkpoint.model, checkpoint.weights
        for spec in checkpoint.family.params(model):
            if isinstance(spec, RotationSpec):
                rotation_table(spec, min(ROTATED, model.context))
        for name in weights.names():
            shape = weights.shape(name)
            rows = weights.read(name, 0, min(ROWS, shape[0] if shape else 0))
            if rows.shape != (min(ROWS, shape[0]), *shape[1:]):
                raise WrongAnswerError(f"{name} of {shape} is read as {rows.shape}")


CONFIG = Format(
    _seeds("llama-d80-yarn", "qwen3-d48-yarn", "llama-gqa4-bias-llama3"),
    _mutate("config.json", "config.json", "generation_config.json"),
    use,
)
SAFETENSORS = Format(_seeds("llama-gqa2-tied-linear"), _mutate_weights, use)
INDEX = Format(_seeds("llama-gqa4-bias-llama3"), _mutate(INDEX_FILE), use)
