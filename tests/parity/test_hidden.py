"""Hidden states, of which embeddings are made, against transformers and against NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from edgewise import Engine
from tests.conftest import BundleFactory
from tests.parity import make_goldens, reference
from tests.parity.cases import CASES
from tests.parity.sampled import sampled
from tests.parity.test_parity import EXPERTS_NOISE, F32_TOLERANCE, ROUNDING_NOISE, config, rms

STATE_TOLERANCE = 1e-4
"""Absolute, on states of deviation about 1, which the order of float32 sums moves by less than a
tenth of that. A head adds up some dozens of them to the logits that `F32_TOLERANCE` is of."""

# Between them: both families, tied and untied heads, padded heads.
FLOATS = sampled(CASES, ["llama-gqa4-bias-llama3", "qwen3-d48-yarn", "llama-gqa2-tied-linear"])
INTEGERS = sampled(
    product(CASES, ["q8", "q4"]), [("qwen3-gqa2-tied", "q4"), ("llama-d80-yarn", "q8")]
)
ON_GPU = sampled(CASES, ["qwen3-gqa2-tied"])


@pytest.mark.landing
@pytest.mark.parametrize("case", FLOATS)
def test_the_head_makes_the_logits_of_transformers_of_them(
    case: str, bundles: BundleFactory, checkpoints: Callable[[str], Path]
) -> None:
    golden, cfg = make_goldens.load(case), config(checkpoints(case))
    weights = reference.load_weights(checkpoints(case))
    head = weights["model.embed_tokens.weight" if cfg.tied else "lm_head.weight"]
    with Engine(bundles(case, "f32")) as engine:
        states = states_of(engine, golden["tokens"].tolist())
    logits = reference.capped(states @ head.T, cfg.logit_softcap)
    assert np.abs(logits[golden["rows"]] - golden["logits"]).max() < F32_TOLERANCE


@pytest.mark.quick(cases=1)
@pytest.mark.parametrize("case", FLOATS)
def test_f32_states_are_those_of_the_reference(
    case: str, bundles: BundleFactory, checkpoints: Callable[[str], Path]
) -> None:
    tokens, cfg = make_goldens.load(case)["tokens"].tolist(), config(checkpoints(case))
    expected = reference.hidden(cfg, reference.load_weights(checkpoints(case)), tokens)
    assert 0.5 < expected.std() < 2
    with Engine(bundles(case, "f32")) as engine:
        states = states_of(engine, tokens)
        mean = engine.embed(tokens, pooling="mean", normalize=False)[0]
    assert np.abs(states - expected).max() < STATE_TOLERANCE
    assert np.abs(mean - expected.mean(axis=0)).max() < STATE_TOLERANCE


@pytest.mark.quick(cases=1)
@pytest.mark.parametrize(("case", "quant"), INTEGERS)
def test_states_of_integer_programs_have_the_noise_of_their_rounding(
    case: str, quant: str, bundles: BundleFactory, checkpoints: Callable[[str], Path]
) -> None:
    tokens, cfg = make_goldens.load(case)["tokens"].tolist(), config(checkpoints(case))
    weights = reference.dequantized(reference.load_weights(checkpoints(case)), quant)
    expected = reference.hidden(cfg, weights, tokens)
    rounded = reference.hidden(cfg, weights, tokens, a8=True, kv="float16")
    with Engine(bundles(case, quant)) as engine:
        states = states_of(engine, tokens)
    noise = rms(states - expected) / expected.std()
    if cfg.mixture is None:
        assert noise < ROUNDING_NOISE
        assert noise < 1.15 * rms(rounded - expected) / expected.std()
    else:
        assert noise < EXPERTS_NOISE


@pytest.mark.landing
@pytest.mark.parametrize("case", ON_GPU)
def test_states_of_a_gpu_are_those_of_the_reference(
    case: str, bundles: BundleFactory, checkpoints: Callable[[str], Path]
) -> None:
    tokens, cfg = make_goldens.load(case)["tokens"].tolist(), config(checkpoints(case))
    expected = reference.hidden(cfg, reference.load_weights(checkpoints(case)), tokens)
    bundle = bundles(case, "f32", targets=("webgpu",))
    with Engine(bundle, device="wgpu", program="webgpu-f32-serial") as engine:
        found = engine.embed(tokens, normalize=False)[0]
    assert np.abs(found - expected[-1]).max() < STATE_TOLERANCE


def states_of(engine: Engine, tokens: Sequence[int]) -> npt.NDArray[np.float32]:
    """The state of each token, float32 [tokens, hidden]."""
    prefixes = [list(tokens[: end + 1]) for end in range(len(tokens))]
    return engine.embed(prefixes, normalize=False)
