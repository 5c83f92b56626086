"""Whole CUDA programs on the emulator: prefill against NumPy, and what decode then says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from edgewise_runtime.devices.base import LoadedProgram
from edgewise_runtime.devices.cpu.device import CpuDevice
from edgewise_runtime.format.bundle import Bundle
from tests.gpu_emulator import programs
from tests.gpu_emulator.programs import Emulate
from tests.parity import make_goldens, reference
from tests.parity.driver import Driver, Floats
from tests.parity.test_parity import F32_TOLERANCE, ROUNDING_NOISE, config, rms
from tests.parity.test_parity_webgpu import F16_LARGEST, F16_NOISE, HALF_TOLERANCE

pytestmark = pytest.mark.landing

CASE = "qwen3-gqa2-tied"
DEMO = Path(__file__).parents[2] / "examples/demo-model"
PAGES = 64
PROGRAMS = [
    pytest.param("cuda-f32"),
    pytest.param("cuda-f16", marks=pytest.mark.full),
    pytest.param("cuda-a8", marks=pytest.mark.full),
]
BOUNDS = [
    pytest.param("cuda-f32", HALF_TOLERANCE),
    pytest.param("cuda-f16", F16_LARGEST, marks=pytest.mark.full),
]
"""What a logit may be off, of float16 in deviations of the logits."""

STEPS = 12


def scored(program: LoadedProgram, tokens: Sequence[int]) -> Floats:
    """The logits of every token, prefilled together."""
    driver = Driver(program, pages=PAGES)
    return driver.prefill([(driver.stream(), tokens)])[0]


def greedy(program: LoadedProgram, prompt: Sequence[int]) -> list[int]:
    """What is decoded after a prompt, in bursts as the engine has them."""
    driver = Driver(program, pages=PAGES)
    stream = driver.stream()
    last = int(driver.prefill([(stream, prompt)])[0][-1].argmax())
    found = [last]
    for k in (1, 3, STEPS - 4):
        [more], _ = driver.decode([(stream, found[-1])], k=k)
        found += more
    return found


def noise(program: str, found: Floats, exact: np.ndarray) -> None:
    """Hold logits to what the arithmetic of a program may move, as tests/parity does on WebGPU."""
    if program == "cuda-f32":
        assert np.abs(found - exact).max() < HALF_TOLERANCE
        assert rms(found - exact) < F32_TOLERANCE / 2
    elif program == "cuda-f16":
        assert rms((found - exact) / exact.std()) < F16_NOISE
    else:
        assert F16_NOISE < rms((found - exact) / exact.std()) < ROUNDING_NOISE


@pytest.mark.parametrize("program", PROGRAMS)
def test_prefill_is_numpys_within_the_arithmetics_noise(
    program: str, emulated: Emulate, checkpoints: Callable[[str], Path]
) -> None:
    tokens, cfg = make_goldens.load(CASE)["tokens"].tolist(), config(checkpoints(CASE))
    weights = reference.dequantized(reference.load_weights(checkpoints(CASE)), "q4")
    kv = "float16" if program == "cuda-f32" else "exact"
    with emulated(CASE, "q4", program, PAGES) as loaded:
        found = scored(loaded, tokens)
    noise(program, found, reference.logits(cfg, weights, tokens, kv=kv))


@pytest.mark.parametrize(("program", "bound"), BOUNDS)
def test_decoded_tokens_are_the_likeliest_wherever_numpy_is_sure(
    program: str, bound: float, emulated: Emulate, checkpoints: Callable[[str], Path]
) -> None:
    """Teacher-forced: NumPy is given what was decoded, and has the same token in front wherever its
    two best differ by more than both may be off."""
    prompt = make_goldens.load(CASE)["tokens"].tolist()[:20]
    with emulated(CASE, "q4", program, PAGES) as loaded:
        tokens = greedy(loaded, prompt)
    assert len(tokens) == STEPS + 1
    cfg = config(checkpoints(CASE))
    weights = reference.dequantized(reference.load_weights(checkpoints(CASE)), "q4")
    exact = reference.logits(cfg, weights, [*prompt, *tokens], kv="float16")[len(prompt) - 1 : -1]
    best = np.sort(exact)[:, -2:]
    sure = best[:, 1] - best[:, 0] > 2 * bound * (1 if program == "cuda-f32" else exact.std())
    assert sure.sum() >= STEPS // 2
    assert np.array_equal(exact.argmax(-1)[sure], np.array(tokens)[sure])


@pytest.mark.full
def test_the_demo_model_says_what_the_cpu_says(shared: Path) -> None:
    """Of 64 tokens read at once every logit within the bound of two programs in float32; and what
    is decoded after them."""
    made = programs.compiled(DEMO, shared / "emulated-demo", "f32", targets=("cpu", "cuda"))
    bundle = Bundle.open(made / "bundle")
    prompt = np.random.default_rng(5).integers(0, bundle.model.vocab, 64).tolist()
    with programs.load(made, "cuda-f32", PAGES) as loaded:
        found, tokens = scored(loaded, prompt), greedy(loaded, prompt)
    with CpuDevice(threads=1).load(bundle, load_symbols={"pages": PAGES}) as cpu:
        expected = scored(cpu, prompt)
        logits = scored(cpu, [*prompt, *tokens])[len(prompt) - 1 : -1]
    assert np.abs(found - expected).max() < F32_TOLERANCE
    best = np.sort(logits)[:, -2:]
    sure = best[:, 1] - best[:, 0] > 2 * F32_TOLERANCE
    assert sure.sum() >= STEPS // 2
    assert np.array_equal(logits.argmax(-1)[sure], np.array(tokens)[sure])
