"""Compiled programs against transformers (floats) and against NumPy (quantized)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edgewise import Engine
from edgewise_compiler.checkpoint import open_checkpoint
from tests.conftest import BundleFactory
from tests.parity import make_goldens, reference
from tests.parity.make_checkpoints import CASES

F32_TOLERANCE = 1e-3
"""Absolute, on logits of deviation about 4: what the order of float32 sums can move."""

QUANTIZED_TOLERANCE = {"f16": 1e-3, "q8": 2e-2, "q4": 2e-2}
"""Relative to the deviation of the reference's logits. The reference quantizes alike, in float64;
a rounding of an activation that falls to the other side moves a product by one step in 127."""


@pytest.mark.parametrize("case", CASES)
def test_f32_logits_are_those_of_transformers(case: str, bundles: BundleFactory) -> None:
    golden = make_goldens.load(case)
    with Engine(bundles(case, "f32")) as engine:
        logits = engine.score(golden["tokens"].tolist())
    error = np.abs(logits[golden["rows"]] - golden["logits"]).max()
    assert error < F32_TOLERANCE


@pytest.mark.parametrize("case", CASES)
def test_f32_greedy_tokens_are_those_of_transformers(case: str, bundles: BundleFactory) -> None:
    golden = make_goldens.load(case)
    count = len(golden["greedy"])
    with Engine(bundles(case, "f32")) as engine:
        found = engine.generate(
            golden["prompt"].tolist(), max_tokens=count, temperature=0, ignore_eos=True
        )
    assert list(found.token_ids) == golden["greedy"].tolist()


@pytest.mark.parametrize("quant", QUANTIZED_TOLERANCE)
@pytest.mark.parametrize("case", CASES)
def test_quantized_logits_are_those_of_the_dequantized_reference(
    case: str, quant: str, bundles: BundleFactory, checkpoints: Callable[[str], Path]
) -> None:
    tokens = make_goldens.load(case)["tokens"].tolist()
    with open_checkpoint(checkpoints(case)) as checkpoint:
        cfg = checkpoint.model
    weights = reference.dequantized(reference.load_weights(checkpoints(case)), quant)
    integer = quant in reference.LIMITS
    expected = reference.logits(cfg, weights, tokens, a8=integer, f16_kv=integer)
    with Engine(bundles(case, quant)) as engine:
        logits = engine.score(tokens)
    error = np.abs(logits - expected).max() / expected.std()
    assert error < QUANTIZED_TOLERANCE[quant]


@pytest.mark.full
@pytest.mark.parametrize("case", CASES)
def test_goldens_are_what_transformers_computes_today(
    case: str, checkpoints: Callable[[str], Path]
) -> None:
    golden, now = make_goldens.load(case), make_goldens.make_golden(case, checkpoints(case))
    assert str(golden["weights_sha256"]) == now["weights_sha256"]
    assert np.array_equal(golden["tokens"], now["tokens"])
    assert np.array_equal(golden["greedy"], now["greedy"])
    # Another release of torch may sum in another order.
    assert np.abs(golden["logits"] - now["logits"]).max() < 1e-4


@pytest.mark.parametrize("case", CASES)
def test_checkpoints_are_those_the_goldens_were_made_from(
    case: str, checkpoints: Callable[[str], Path]
) -> None:
    expected = str(make_goldens.load(case)["weights_sha256"])
    assert make_goldens.weights_sha256(checkpoints(case)) == expected
