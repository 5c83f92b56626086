"""Of a model of text and images the text is the model that is released alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from edgewise_compiler.checkpoint import open_checkpoint
from edgewise_compiler.models.families import find_family
from edgewise_compiler.models.text_part import text_part
from edgewise_runtime.errors import CheckpointError
from tests.parity.storing import write_weights

ALONE = {
    "Gemma3ForConditionalGeneration": ("gemma3-window", "gemma3_text"),
    "Mistral3ForConditionalGeneration": ("ministral3-gqa2", "ministral3"),
}
PREFIXES = {
    "released": ("language_model.model.", "language_model."),
    "newer": ("model.language_model.", ""),
}
VISION = {"released": "vision_tower.", "newer": "model.vision_tower."}


def write(alone: Path, folder: Path, outer: str, model_type: str, names: str) -> Path:
    """The checkpoint ``alone`` as the text part of one that also sees."""
    folder.mkdir()
    for path in alone.iterdir():
        if path.suffix == ".json":
            (folder / path.name).write_bytes(path.read_bytes())
    text = json.loads((alone / "config.json").read_text())
    said = {key: text.pop(key) for key in ("bos_token_id", "eos_token_id")}
    del text["architectures"], text["tie_word_embeddings"]
    config = {"architectures": [outer], **said, "text_config": text | {"model_type": model_type}}
    (folder / "config.json").write_text(json.dumps(config | {"vision_config": {}}))
    inner, head = PREFIXES[names]
    tensors = {}
    for name, values in load_file(alone / "model.safetensors").items():
        model = name.startswith("model.")
        tensors[inner + name.removeprefix("model.") if model else head + name] = values
    tensors |= {f"{VISION[names]}encoder.weight": np.zeros((4, 4), "float32")}
    tensors |= {"multi_modal_projector.weight": np.zeros((2, 4), "float32")}
    write_weights(folder, tensors, "F32", 1)
    return folder


@pytest.mark.parametrize("names", PREFIXES)
@pytest.mark.parametrize("outer", ALONE)
def test_the_text_of_a_model_that_sees_is_the_model_alone(
    outer: str, names: str, checkpoints: Callable[[str], Path], tmp_path: Path
) -> None:
    case, model_type = ALONE[outer]
    alone = as_floats(checkpoints(case), tmp_path / "alone")
    folder = write(alone, tmp_path / "both", outer, model_type, names)
    with open_checkpoint(alone) as wanted, open_checkpoint(folder) as found:
        assert found.model == wanted.model
        assert sorted(found.weights.names()) == sorted(wanted.weights.names())
        for name in wanted.weights.names():
            assert np.array_equal(found.weights.read(name), wanted.weights.read(name))


def as_floats(case: Path, folder: Path) -> Path:
    """The checkpoint in float32, which is what `write` reads."""
    folder.mkdir()
    for path in case.iterdir():
        if path.suffix == ".json":
            (folder / path.name).write_bytes(path.read_bytes())
    with open_checkpoint(case) as opened:
        family = opened.family
        shift = 1.0 if family.name == "gemma3" else 0.0
        tensors = {name: opened.weights.read(name) for name in opened.weights.names()}
    stored = {n: x - np.float32(shift) if x.ndim == 1 else x for n, x in tensors.items()}
    write_weights(folder, stored, "F32", 1)
    return folder


def test_what_config_json_leaves_out_is_what_transformers_takes() -> None:
    """What Gemma 3 4B says, but for its vision_config."""
    text = {
        "hidden_size": 2560,
        "intermediate_size": 10240,
        "model_type": "gemma3_text",
        "num_hidden_layers": 34,
        "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
        "sliding_window": 1024,
    }
    config: dict[str, Any] = {
        "architectures": ["Gemma3ForConditionalGeneration"],
        "eos_token_id": [1, 106],
        "text_config": text,
    }
    part = text_part(config)
    assert part is not None
    cfg = find_family(part).read_config(part)
    assert (cfg.heads, cfg.kv_heads, cfg.head_dim, cfg.vocab) == (8, 4, 256, 262208)
    assert (cfg.eos, cfg.context, cfg.tied) == ((1, 106), 131072, True)
    assert (cfg.rope.factor, cfg.local[:6]) == (8.0, (0, 1, 2, 3, 4, 6))


def test_other_models_have_no_text_part_and_a_wrong_one_is_refused() -> None:
    assert text_part({"architectures": ["LlamaForCausalLM"], "text_config": {}}) is None
    assert text_part({"model_type": "gemma3"}) is not None
    unknown = {"architectures": ["Mistral3ForConditionalGeneration"]}
    assert text_part(unknown | {"text_config": {"model_type": "mamba"}}) is None
    with pytest.raises(CheckpointError, match="text_config"):
        text_part(unknown | {"text_config": []})
