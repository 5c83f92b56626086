"""Vulkan programs against transformers, against the CPU's programs, and against WebGPU's."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from edgewise import Engine
from edgewise_compiler.compile import compile_model
from edgewise_compiler.targets.vulkan.variants import INT8_VARIANTS, VARIANTS
from edgewise_runtime.devices.vulkan.device import VulkanDevice
from edgewise_runtime.devices.wgpu.device import WgpuDevice
from tests.conftest import BundleFactory
from tests.parity import make_goldens, reference
from tests.parity.cases import CASES
from tests.parity.sampled import sampled
from tests.parity.test_parity import F32_TOLERANCE, ROUNDING_NOISE, config, rms
from tests.parity.test_parity_webgpu import (
    F16_LARGEST,
    F16_NOISE,
    holds_in_half,
    holds_over_half,
    top1_agrees,
)

pytestmark = pytest.mark.landing

NAMES = [variant.name for variant in VARIANTS]
CASE = "qwen3-gqa2-tied"


def programs(arithmetic: str) -> list[str]:
    return [variant.name for variant in VARIANTS if variant.arithmetic("f32") == arithmetic]


# The kernels are WebGPU's, whose tests go through all cases: the landing suite takes few of these.
QUANTIZED = sampled(product(["llama-gqa4-bias-llama3"], reference.INTEGERS, NAMES), [])
SAME_BITS = sampled(
    [
        *product(["q4", "fives"], NAMES),
        *product(["q4", "fives"], [variant.name for variant in INT8_VARIANTS]),
    ],
    [("q4", "vulkan-f32-subgroups")],
)


REORDERED = 1e-5
"""Logits of deviation 4: what Mesa reorders in WGSL, which cannot say that it must not, as the
products of a first token's weight, norm and activation where nothing is added to them yet."""


def scores(bundle: Path, program: str, tokens: list[int]) -> np.ndarray:
    device = {"vulkan": "vulkan", "webgpu": "wgpu", "cpu": "cpu"}[program.partition("-")[0]]
    with Engine(bundle, device=device, program=program) as engine:
        assert engine.program == program
        return engine.score(tokens)


@pytest.mark.parametrize("program", sampled(programs("f32"), []))
@pytest.mark.parametrize("case", CASES)
def test_f32_logits_are_those_of_transformers(
    case: str, program: str, bundles: BundleFactory
) -> None:
    golden = make_goldens.load(case)
    bundle = bundles(case, "f32", targets=("vulkan",))
    logits = scores(bundle, program, golden["tokens"].tolist())
    assert np.abs(logits[golden["rows"]] - golden["logits"]).max() < F32_TOLERANCE


@pytest.mark.parametrize("program", sampled(programs("f16"), []))
def test_f16_logits_are_near_those_of_transformers(program: str, bundles: BundleFactory) -> None:
    golden = make_goldens.load(CASE)
    bundle = bundles(CASE, "f32", targets=("vulkan",))
    spread = golden["logits"].std()
    logits = scores(bundle, program, golden["tokens"].tolist())[golden["rows"]]
    error = (logits - golden["logits"]) / spread
    assert rms(error) < F16_NOISE
    assert np.abs(error).max() < F16_LARGEST
    assert top1_agrees(golden["logits"], logits, F16_LARGEST * spread)


@pytest.mark.parametrize("program", sampled(programs("f32"), ["vulkan-f32-subgroups"]))
def test_f32_programs_of_cpu_and_vulkan_agree(program: str, bundles: BundleFactory) -> None:
    tokens = make_goldens.load(CASE)["tokens"].tolist()
    with Engine(bundles(CASE, "f32")) as engine:
        expected = engine.score(tokens)
    logits = scores(bundles(CASE, "f32", targets=("vulkan",)), program, tokens)
    assert np.abs(logits - expected).max() < F32_TOLERANCE
    assert top1_agrees(expected, logits, F32_TOLERANCE)


def of_both(quant: str, program: str, bundles: BundleFactory) -> tuple[np.ndarray, np.ndarray]:
    """The logits of a Vulkan program and of WebGPU's of the same name, by one driver."""
    assert VulkanDevice().adapter.name == WgpuDevice().adapter.name
    tokens = make_goldens.load(CASE)["tokens"].tolist()
    other = program.replace("vulkan", "webgpu")
    return (
        scores(bundles(CASE, quant, targets=("vulkan",)), program, tokens),
        scores(bundles(CASE, quant, targets=("webgpu",)), other, tokens),
    )


@pytest.mark.parametrize(("quant", "program"), SAME_BITS)
def test_on_one_driver_vulkan_and_webgpu_compute_the_same_bits(
    quant: str, program: str, bundles: BundleFactory
) -> None:
    """WGSL and SPIR-V say the same of a kernel, and lavapipe makes the same of both.

    Another driver may fuse what WGSL leaves open: this is a test for machines without a GPU.
    """
    found, expected = of_both(quant, program, bundles)
    assert np.array_equal(found, expected)


@pytest.mark.parametrize("program", sampled(NAMES, []))
def test_on_one_driver_programs_of_float_weights_differ_in_what_it_reorders(
    program: str, bundles: BundleFactory
) -> None:
    found, expected = of_both("f32", program, bundles)
    assert np.abs(found - expected).max() < REORDERED


@pytest.mark.parametrize(("case", "quant", "program"), QUANTIZED)
def test_quantized_weights_are_computed_with_exactly(
    case: str,
    quant: str,
    program: str,
    bundles: BundleFactory,
    checkpoints: Callable[[str], Path],
) -> None:
    tokens, cfg = make_goldens.load(case)["tokens"].tolist(), config(checkpoints(case))
    weights = reference.dequantized(reference.load_weights(checkpoints(case)), quant)
    found = scores(bundles(case, quant, targets=("vulkan",)), program, tokens)
    if program in programs("f16"):
        holds_in_half(found, reference.logits(cfg, weights, tokens))
    else:
        holds_over_half(found, reference.logits(cfg, weights, tokens, kv="float16"))


@pytest.mark.full
@pytest.mark.parametrize("program", [variant.name for variant in INT8_VARIANTS])
def test_integer_prefill_adds_the_noise_of_rounded_activations(
    program: str, bundles: BundleFactory, checkpoints: Callable[[str], Path]
) -> None:
    tokens, cfg = make_goldens.load(CASE)["tokens"].tolist(), config(checkpoints(CASE))
    weights = reference.dequantized(reference.load_weights(checkpoints(CASE)), "q4")
    exact = reference.logits(cfg, weights, tokens)
    found = scores(bundles(CASE, "q4", targets=("vulkan",)), program, tokens)
    assert F16_NOISE < rms((found - exact) / exact.std()) < ROUNDING_NOISE


@pytest.mark.parametrize("program", sampled(NAMES, ["vulkan-f32-subgroups"]))
def test_greedy_tokens_are_those_of_transformers(program: str, bundles: BundleFactory) -> None:
    golden = make_goldens.load(CASE)
    expected = golden["greedy"].tolist()
    bundle = bundles(CASE, "f32", targets=("vulkan",))
    with Engine(bundle, device="vulkan", program=program) as engine:
        found = engine.generate(
            golden["prompt"].tolist(), max_tokens=len(expected), temperature=0, ignore_eos=True
        )
    assert list(found.token_ids) == expected


@pytest.mark.full
def test_the_demo_model_scores_alike_on_cpu_webgpu_and_vulkan(tmp_path: Path) -> None:
    demo = Path(__file__).parents[2] / "examples/demo-model"
    targets = ("cpu", "webgpu", "vulkan")
    bundle = compile_model(demo, tmp_path / "demo", targets=targets, quant="f32", context=256)
    with Engine(bundle) as engine:
        text = "Once upon a time a fox asked: what is 3 plus 4? The owl said that it is 7."
        tokens = engine.tokenizer.encode(text)
        expected = engine.score(tokens)
    for program in programs("f32"):
        logits = scores(bundle, program, tokens)
        assert np.abs(logits - expected).max() < F32_TOLERANCE
        assert top1_agrees(expected, logits, F32_TOLERANCE)
        assert np.array_equal(logits, scores(bundle, program.replace("vulkan", "webgpu"), tokens))
