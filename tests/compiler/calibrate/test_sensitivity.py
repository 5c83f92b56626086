"""What rounding a linear costs is measured where it is felt: in the residual stream."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edgewise_compiler.calibrate.budget import budget_recipe
from edgewise_compiler.calibrate.sensitivity import sensitivities
from edgewise_compiler.checkpoint import open_checkpoint
from edgewise_compiler.compile import compile_model
from edgewise_compiler.layouts.schemes import linear_schemes
from edgewise_compiler.models.base import LinearSpec
from edgewise_compiler.quantize import SCHEMES
from edgewise_compiler.quantize.budget import stored_bits
from edgewise_runtime.errors import InputError, UnsupportedError
from edgewise_runtime.format.bundle import Bundle
from tests.parity.reference import load_weights, logits

Checkpoints = Callable[[str], Path]
SOME = tuple(SCHEMES[name] for name in ("q4", "q6", "q8"))


def ignore(done: int, total: int) -> None:
    """Progress that nobody looks at."""


@pytest.mark.parametrize("name", ["llama-gqa2-tied-linear", "qwen3-gqa4-d96-bias"])
def test_every_linear_costs_less_with_more_bits(checkpoints: Checkpoints, name: str) -> None:
    tokens = np.random.default_rng(5).integers(0, 320, (2, 24))
    steps: list[tuple[int, int]] = []
    with open_checkpoint(checkpoints(name)) as checkpoint:
        linears = {
            spec.name
            for spec in checkpoint.family.params(checkpoint.model)
            if isinstance(spec, LinearSpec)
        }
        costs = sensitivities(checkpoint, SOME, tokens, lambda *step: steps.append(step))
    assert costs.keys() == linears
    for found in costs.values():
        assert found["q4"] > 4 * found["q6"] > 4 * 4 * found["q8"] > 0
    assert steps[-1][0] == steps[-1][1] == len(linears)


def test_the_cost_of_the_last_block_is_what_becomes_of_its_output(checkpoints: Checkpoints) -> None:
    tokens = np.random.default_rng(6).integers(0, 320, 24)
    folder = checkpoints("llama-gqa4-bias-llama3")
    weights = load_weights(folder)
    with open_checkpoint(folder) as checkpoint:
        cfg = checkpoint.model
        costs = sensitivities(checkpoint, (SCHEMES["q8"],), tokens[None], ignore)
    head = weights["lm_head.weight"]
    rounded = SCHEMES["q8"].dequantize(SCHEMES["q8"].quantize(head.copy()))
    exact = logits(cfg, weights, tokens)
    change = np.square(logits(cfg, weights | {"lm_head.weight": rounded}, tokens) - exact).sum(1)
    assert costs["lm_head"]["q8"] == pytest.approx((change / np.square(exact).sum(1)).mean(), 1e-2)


@pytest.mark.quick(cases=1)
@pytest.mark.parametrize("bits", [4.62, 5.62, 7])
def test_a_recipe_takes_the_bits_it_may(checkpoints: Checkpoints, bits: float) -> None:
    with open_checkpoint(checkpoints("llama-gqa2-tied-linear")) as checkpoint:
        params = checkpoint.family.params(checkpoint.model)
        recipe = budget_recipe(checkpoint, bits, ignore)
        schemes = linear_schemes(recipe, params)
    linears = [p for p in params if isinstance(p, LinearSpec)]
    taken = sum(stored_bits(schemes[p.name], p.k) * p.weights for p in linears)
    mean = taken / sum(p.weights for p in linears)
    assert bits - 0.5 < mean <= bits
    assert recipe.searched
    assert (len({scheme.name for scheme in schemes.values()}) > 1) == (bits > 4.62)


def test_too_few_bits_are_refused_before_anything_takes_long(checkpoints: Checkpoints) -> None:
    steps: list[tuple[int, int]] = []
    with (
        open_checkpoint(checkpoints("llama-mha")) as checkpoint,
        pytest.raises(InputError, match="3 bits a weight"),
    ):
        budget_recipe(checkpoint, 3, lambda *step: steps.append(step))
    assert not steps


def test_other_options_are_checked_before_anything_takes_long(
    checkpoints: Checkpoints, tmp_path: Path
) -> None:
    phases: list[str] = []
    with pytest.raises(UnsupportedError, match="fp8"):
        compile_model(
            checkpoints("llama-mha"),
            tmp_path / "bundle",
            bits=5.5,
            kv="fp8",
            progress=lambda phase, done, total: phases.append(phase),
        )
    assert "Weighing" not in phases


@pytest.mark.landing
def test_a_bundle_is_called_by_its_bits(checkpoints: Checkpoints, tmp_path: Path) -> None:
    out = compile_model(checkpoints("llama-mha"), tmp_path / "bundle", targets=("cpu",), bits=5.5)
    assert Bundle.open(out).manifest.model.stored == "bits-5.5"
