"""Models of packed folders answer as their weights in float32 do."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edgewise import Engine
from edgewise_compiler.compile import compile_model
from edgewise_runtime.format.bundle import Bundle
from tests.compiler.packed.writing import Kind, stored_floats, write_packed
from tests.parity.storing import write_safetensors

CASES = {
    "awq": ("llama-gqa2-tied-linear", Kind("awq"), "q4a"),
    "gptq": ("qwen3-gqa2-tied", Kind("gptq", group=64, symmetric=True), "q4"),
    "compressed-tensors": ("llama-gqa4-bias-llama3", Kind("pack", dtype="BF16"), "q4a"),
}


@pytest.mark.landing
@pytest.mark.parametrize(
    "name", ["awq", *(pytest.param(name, marks=pytest.mark.full) for name in list(CASES)[1:])]
)
def test_a_bundle_of_a_packed_folder_computes_nearly_what_its_floats_do(
    name: str, checkpoints: Callable[[str], Path], tmp_path: Path
) -> None:
    case, kind, scheme = CASES[name]
    packed, plain = tmp_path / "packed", tmp_path / "plain"
    left = ("lm_head", "embed_tokens", *(["down_proj"] if kind.group == 64 else []))
    floats = write_packed(checkpoints(case), packed, kind, left=left)
    write_packed(checkpoints(case), plain, kind, left=left)
    config = json.loads((plain / "config.json").read_text())
    del config["quantization_config"]
    (plain / "config.json").write_text(json.dumps(config))
    write_safetensors(
        plain / "model.safetensors",
        {name: stored_floats(values, "F32") for name, values in floats.items()},
    )
    kept = compile_model(packed, tmp_path / "kept", prefill_chunk=128)
    exact = compile_model(plain, tmp_path / "exact", quant="f32", prefill_chunk=128)
    bundle = Bundle.open(kept)
    assert (bundle.model.recipe, bundle.model.quant) == ("as-file", scheme)
    bundle.close()
    with Engine(kept) as ours, Engine(exact) as theirs:
        tokens = list(range(2, 60))
        found, expected = ours.score(tokens), theirs.score(tokens)
    # Activations in 8 bits, as for GGUF files.
    assert np.sqrt(np.mean((found - expected) ** 2)) < 0.035 * expected.std()
