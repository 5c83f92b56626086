"""The NumPy reference agrees with transformers, whose answers are kept in goldens/."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edgewise_compiler.checkpoint import open_checkpoint
from edgewise_compiler.layouts.order import coded_blocks
from edgewise_compiler.layouts.packing import quantized
from edgewise_compiler.models.base import LinearSpec
from edgewise_compiler.quantize import SCHEMES
from edgewise_runtime.format.abi import GROUP
from tests.parity import reference
from tests.parity.cases import CASES
from tests.parity.make_goldens import load, make_golden, weights_sha256


@pytest.fixture(scope="module")
def folders(checkpoints: Callable[[str], Path]) -> dict[str, Path]:
    return {name: checkpoints(name) for name in CASES}


@pytest.mark.parametrize("name", CASES)
def test_seeds_make_the_weights_that_the_goldens_are_about(
    folders: dict[str, Path], name: str
) -> None:
    assert weights_sha256(folders[name]) == str(load(name)["weights_sha256"])


@pytest.mark.quick(cases=8)
@pytest.mark.parametrize("name", CASES)
def test_reference_agrees_with_transformers(folders: dict[str, Path], name: str) -> None:
    golden = load(name)
    weights = reference.load_weights(folders[name])
    with open_checkpoint(folders[name]) as checkpoint:
        logits = reference.logits(checkpoint.model, weights, golden["tokens"])
        np.testing.assert_allclose(logits[golden["rows"]], golden["logits"], rtol=0, atol=1e-4)
        tokens = np.concatenate([golden["prompt"], golden["greedy"]])
        followed = reference.logits(checkpoint.model, weights, tokens)[len(golden["prompt"]) - 1 :]
        assert followed[:-1].argmax(axis=1).tolist() == golden["greedy"].tolist()


@pytest.mark.parametrize("name", CASES)
def test_goldens_can_tell_a_wrong_program(name: str) -> None:
    golden = load(name)
    assert golden["margin"].min() > 0.05, "greedy decoding would hang on rounding errors"
    assert len(set(golden["greedy"].tolist())) > 16, "greedy decoding is stuck in a loop"
    assert 2 < golden["logits"].std() < 8


@pytest.mark.parametrize("scheme", ["f16", "q8", "q6", "q5", "q4", "q4a", "iq4_nl", "mxfp4"])
def test_coarser_schemes_stay_near_and_in_order(folders: dict[str, Path], scheme: str) -> None:
    name = "qwen3-gqa4-d96-bias"
    golden = load(name)
    weights = reference.load_weights(folders[name])
    rounded = reference.dequantized(weights, scheme)
    with open_checkpoint(folders[name]) as checkpoint:
        logits = reference.logits(checkpoint.model, rounded, golden["tokens"])
    error = np.abs(logits[golden["rows"]] - golden["logits"]).mean()
    bounds = {"f16": (1e-5, 1e-2), "q8": (1e-3, 0.15), "q6": (0.02, 0.5), "q5": (0.05, 1.0)}
    least, most = bounds.get(scheme, (0.1, 2.0))
    assert least < error < most


def test_int8_activations_and_f16_pages_change_little(folders: dict[str, Path]) -> None:
    name = "llama-gqa4-bias-llama3"
    golden = load(name)
    weights = reference.load_weights(folders[name])
    with open_checkpoint(folders[name]) as checkpoint:
        exact = reference.logits(checkpoint.model, weights, golden["tokens"])
        tokens = golden["tokens"]
        coarse = reference.logits(checkpoint.model, weights, tokens, a8=True, kv="float16")
    error = np.abs(exact - coarse).mean()
    assert 1e-3 < error < 0.2


@pytest.mark.full
@pytest.mark.parametrize("name", CASES)
def test_transformers_still_says_what_the_goldens_say(folders: dict[str, Path], name: str) -> None:
    kept, made = load(name), make_golden(name, folders[name])
    assert kept.keys() == made.keys()
    np.testing.assert_allclose(made["logits"], kept["logits"], rtol=0, atol=1e-4)
    np.testing.assert_allclose(made["margin"], kept["margin"], rtol=0, atol=1e-4)
    for key in ("weights_sha256", "tokens", "rows", "prompt", "greedy"):
        np.testing.assert_array_equal(made[key], kept[key])


@pytest.mark.parametrize("scheme", [name for name in SCHEMES if SCHEMES[name].columns == GROUP])
def test_the_reference_rounds_weights_as_packing_does(
    folders: dict[str, Path], scheme: str
) -> None:
    name = "qwen3-gqa4-d96-bias"
    rounded = reference.dequantized(reference.load_weights(folders[name]), scheme)
    with open_checkpoint(folders[name]) as checkpoint:
        for spec in checkpoint.family.params(checkpoint.model):
            if not isinstance(spec, LinearSpec) or spec.interleave:
                continue
            source = quantized(SCHEMES[scheme], spec, checkpoint.weights)
            blocks = coded_blocks(SCHEMES[scheme], spec, source)
            values = np.concatenate([SCHEMES[scheme].dequantize(rows) for _, rows in blocks])
            values = values[: sum(spec.rows), : spec.k]
            expected = np.concatenate([rounded[source] for source in spec.sources])
            np.testing.assert_array_equal(values, expected)
