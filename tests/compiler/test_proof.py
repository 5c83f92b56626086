"""What programs must answer is what NumPy in float64 says of the weights as they were rounded."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edgewise_compiler.checkpoint import open_checkpoint
from edgewise_compiler.compile import compile_model
from edgewise_compiler.proof import LENGTH
from edgewise_runtime.format.bundle import Bundle
from edgewise_runtime.format.proof import PROOF, UNIT, read_proof
from tests.parity.reference import dequantized, load_weights, logits

pytestmark = pytest.mark.landing

Checkpoints = Callable[[str], Path]


def compiled(source: Path, out: Path, **options: object) -> Bundle:
    """A bundle for WebGPU."""
    return Bundle.open(compile_model(source, out, targets=("webgpu",), **options))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("case", "quant"),
    [
        ("qwen3-gqa2-tied", "q4"),
        pytest.param("qwen3-gqa4-d96-bias", "q8", marks=pytest.mark.full),
        pytest.param("llama-mha", "fives", marks=pytest.mark.full),
    ],
)
def test_a_proof_is_what_the_model_says(
    case: str, quant: str, checkpoints: Checkpoints, tmp_path: Path
) -> None:
    source = checkpoints(case)
    recipe = Path(__file__).parents[1] / "parity" / f"{quant}.toml"
    stored = {"recipe": recipe} if recipe.is_file() else {"quant": quant}
    proof = read_proof(compiled(source, tmp_path / "bundle", **stored))
    assert proof is not None
    assert len(proof.tokens) == LENGTH
    with open_checkpoint(source) as checkpoint:
        weights = dequantized(load_weights(source), quant)
        expected = logits(checkpoint.model, weights, proof.tokens)[:, proof.ids]
    np.testing.assert_allclose(np.array(proof.logits) / UNIT, expected, rtol=0, atol=2e-3)


def test_a_proof_needs_a_context_and_programs_for_a_gpu(
    checkpoints: Checkpoints, tmp_path: Path
) -> None:
    source = checkpoints("llama-mha")
    short = compiled(source, tmp_path / "short", quant="f32", context=LENGTH)
    assert read_proof(short) is None
    cpu = Bundle.open(compile_model(source, tmp_path / "cpu", quant="f32"))
    assert read_proof(cpu) is None


def test_a_proof_stays_where_another_target_is_added(
    checkpoints: Checkpoints, tmp_path: Path
) -> None:
    source, out = checkpoints("llama-mha"), tmp_path / "bundle"
    compiled(source, out, quant="q4")
    before = json.loads((out / PROOF).read_text())
    added = Bundle.open(compile_model(source, out, quant="q4"))
    assert {program.target for program in added.manifest.programs} == {"cpu", "webgpu"}
    assert json.loads((out / PROOF).read_text()) == before
