"""WebGPU programs against transformers, against the CPU's programs, and against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from edgewise import Engine
from edgewise_compiler.compile import compile_model
from edgewise_compiler.targets.webgpu.variants import INT8_VARIANTS, VARIANTS
from tests.conftest import BundleFactory
from tests.parity import make_goldens, reference
from tests.parity.cases import CASES
from tests.parity.sampled import sampled
from tests.parity.test_parity import (
    CODE_NOISE,
    CODED_CASES,
    F32_TOLERANCE,
    ROUNDING_NOISE,
    config,
    rms,
)

F16_NOISE = 5e-3
"""Root mean square, relative to the deviation of the logits. float16 keeps 11 bits, so each stored
key, value and matrix entry is off by up to 2^-12 of itself; some thousands of them, of either sign,
add up to a few parts in a thousand over these two- and three-layer models."""

F16_LARGEST = 5e-2
"""Largest difference of one logit, in the same unit: ten deviations of that noise."""

HALF_TOLERANCE = 2 * F32_TOLERANCE
"""Where pages hold float16, and no key or value lies so near the middle of two that it is rounded
to the other one."""

HALF_LARGEST = 5 * F32_TOLERANCE
"""Where one is, which moves the rows behind it: by 4e-3 at most in all cases, where pages of
float32 leave 3e-5. Not to round at all is 8e-3 to 1e-2, and 1.5e-3 of root mean square: three times
what is let through."""

NAMES = [variant.name for variant in VARIANTS]


def programs(arithmetic: str) -> list[str]:
    return [variant.name for variant in VARIANTS if variant.arithmetic("f32") == arithmetic]


# Between them: every scheme, both kinds of pages. A software GPU compiles a program
# for seconds: the landing suite takes some programs for each, and all of them for some test.
FLOATS = sampled(
    [name for name in CASES if name.startswith(("llama", "qwen3-"))],
    ["llama-gqa4-bias-llama3", "qwen3-gqa2-tied"],
)
AGREEING = sampled(
    product(["llama-gqa2-tied-linear", "qwen3-gqa2-tied"], ["f32", "f16"]),
    [("qwen3-gqa2-tied", "f16")],
)
QUANTIZED = sampled(
    product(
        ["llama-gqa4-bias-llama3", "qwen3-gqa4-d96-bias", "qwen3-d24-odd"],
        reference.INTEGERS,
        NAMES,
    ),
    [
        ("llama-gqa4-bias-llama3", "q4", "webgpu-f32"),
        ("llama-gqa4-bias-llama3", "q4", "webgpu-f16-subgroups"),
        ("qwen3-gqa4-d96-bias", "fives", "webgpu-f32-serial"),
    ],
)
ROUNDING = sampled(
    product(["q8", "q6", "q4", *reference.MIXED], [variant.name for variant in INT8_VARIANTS]),
    [("fours", "webgpu-a8-subgroups"), ("q6", "webgpu-a8")],
)
CODED = sampled(CODED_CASES, ["qwen3-gqa2-tied"])
OTHERS = [name for name in CASES if not name.startswith(("llama", "qwen3-"))]
"""Cases of families that share nearly all kernels with the first two."""
ONCE = sampled(
    product(OTHERS, programs("f32")),
    [
        ("phi3-gqa2-longrope", "webgpu-f32"),
        ("gemma3-window", "webgpu-f32-subgroups"),
        ("qwen2moe-shared", "webgpu-f32"),
        ("gemma2-window", "webgpu-f32-serial"),
        ("olmoe-gqa2", "webgpu-f32-subgroups"),
        ("ministral3-gqa2", "webgpu-f32"),
        ("granite4-nope", "webgpu-f32-serial"),
        ("olmo3-window", "webgpu-f32"),
        ("gptoss-window", "webgpu-f32"),
    ],
)
FEW_BITS = sampled(product(OTHERS, ["q8", "q4"]), [])

pytestmark = pytest.mark.sampled(one_in=3)


def scores(bundle: Path, program: str, tokens: list[int]) -> np.ndarray:
    device = "wgpu" if program.startswith("webgpu") else "cpu"
    with Engine(bundle, device=device, program=program) as engine:
        assert engine.program == program
        return engine.score(tokens)


@pytest.mark.landing
@pytest.mark.parametrize(
    "program", sampled(programs("f32"), ["webgpu-f32-subgroups", "webgpu-f32-serial"])
)
@pytest.mark.parametrize("case", FLOATS)
def test_f32_logits_are_those_of_transformers(
    case: str, program: str, bundles: BundleFactory
) -> None:
    golden = make_goldens.load(case)
    bundle = bundles(case, "f32", targets=("webgpu",))
    logits = scores(bundle, program, golden["tokens"].tolist())
    assert np.abs(logits[golden["rows"]] - golden["logits"]).max() < F32_TOLERANCE


@pytest.mark.landing
@pytest.mark.parametrize("program", programs("f16"))
@pytest.mark.parametrize("case", FLOATS)
def test_f16_logits_are_near_those_of_transformers(
    case: str, program: str, bundles: BundleFactory
) -> None:
    golden = make_goldens.load(case)
    bundle = bundles(case, "f32", targets=("webgpu",))
    spread = golden["logits"].std()
    logits = scores(bundle, program, golden["tokens"].tolist())[golden["rows"]]
    error = (logits - golden["logits"]) / spread
    assert rms(error) < F16_NOISE
    assert np.abs(error).max() < F16_LARGEST
    assert top1_agrees(golden["logits"], logits, F16_LARGEST * spread)


@pytest.mark.landing
@pytest.mark.parametrize("program", sampled(programs("f32"), ["webgpu-f32"]))
@pytest.mark.parametrize(("case", "quant"), AGREEING)
def test_f32_programs_of_cpu_and_webgpu_agree(
    case: str, quant: str, program: str, bundles: BundleFactory
) -> None:
    tokens = make_goldens.load(case)["tokens"].tolist()
    bundle = bundles(case, quant, targets=("cpu", "webgpu"))
    with Engine(bundle) as engine:
        expected = engine.score(tokens)
    logits = scores(bundle, program, tokens)
    assert np.abs(logits - expected).max() < F32_TOLERANCE
    assert top1_agrees(expected, logits, F32_TOLERANCE)


@pytest.mark.landing
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
    found = scores(bundles(case, quant, targets=("webgpu",)), program, tokens)
    if program in programs("f16"):
        holds_in_half(found, reference.logits(cfg, weights, tokens))
    else:
        holds_over_half(found, reference.logits(cfg, weights, tokens, kv="float16"))


@pytest.mark.landing
@pytest.mark.parametrize(("quant", "program"), ROUNDING)
def test_integer_prefill_adds_the_noise_of_rounded_activations(
    quant: str, program: str, bundles: BundleFactory, checkpoints: Callable[[str], Path]
) -> None:
    case = "qwen3-gqa2-tied"
    tokens, cfg = make_goldens.load(case)["tokens"].tolist(), config(checkpoints(case))
    weights = reference.dequantized(reference.load_weights(checkpoints(case)), quant)
    exact = reference.logits(cfg, weights, tokens)
    found = scores(bundles(case, quant, targets=("webgpu",)), program, tokens)
    assert F16_NOISE < rms((found - exact) / exact.std()) < ROUNDING_NOISE


@pytest.mark.landing
@pytest.mark.parametrize("program", sampled(programs("f32"), ["webgpu-f32-subgroups"]))
@pytest.mark.parametrize("case", CODED)
def test_int8_pages_add_the_noise_of_their_codes(
    case: str, program: str, bundles: BundleFactory, checkpoints: Callable[[str], Path]
) -> None:
    tokens, cfg = make_goldens.load(case)["tokens"].tolist(), config(checkpoints(case))
    weights = reference.load_weights(checkpoints(case))
    exact = reference.logits(cfg, weights, tokens)
    rounded = reference.logits(cfg, weights, tokens, kv="int8")
    bundle = bundles(case, "f32", targets=("webgpu",), kv="int8")
    noise = rms(scores(bundle, f"{program}-kv8", tokens) - exact) / exact.std()
    assert F16_NOISE < noise < CODE_NOISE
    assert noise < 1.15 * rms(rounded - exact) / exact.std()


@pytest.mark.landing
@pytest.mark.parametrize("program", NAMES)
def test_greedy_tokens_are_those_of_transformers(program: str, bundles: BundleFactory) -> None:
    golden = make_goldens.load("qwen3-gqa2-tied")
    expected = golden["greedy"].tolist()
    bundle = bundles("qwen3-gqa2-tied", "f32", targets=("webgpu",))
    with Engine(bundle, device="wgpu", program=program) as engine:
        found = engine.generate(
            golden["prompt"].tolist(), max_tokens=len(expected), temperature=0, ignore_eos=True
        )
    assert list(found.token_ids) == expected


@pytest.mark.quick(cases=1)
@pytest.mark.parametrize(("case", "program"), ONCE)
def test_a_family_gives_the_logits_and_greedy_tokens_of_transformers(
    case: str, program: str, bundles: BundleFactory
) -> None:
    golden = make_goldens.load(case)
    expected = golden["greedy"].tolist()
    bundle = bundles(case, "f32", targets=("webgpu",))
    with Engine(bundle, device="wgpu", program=program) as engine:
        logits = engine.score(golden["tokens"].tolist())[golden["rows"]]
        found = engine.generate(
            golden["prompt"].tolist(), max_tokens=len(expected), temperature=0, ignore_eos=True
        )
    assert np.abs(logits - golden["logits"]).max() < F32_TOLERANCE
    assert list(found.token_ids) == expected


@pytest.mark.parametrize(("case", "quant"), FEW_BITS)
def test_quantized_weights_of_a_family_are_computed_with_exactly(
    case: str, quant: str, bundles: BundleFactory, checkpoints: Callable[[str], Path]
) -> None:
    tokens, cfg = make_goldens.load(case)["tokens"].tolist(), config(checkpoints(case))
    weights = reference.dequantized(reference.load_weights(checkpoints(case)), quant)
    bundle = bundles(case, quant, targets=("webgpu",), kv="f32")
    found = scores(bundle, "webgpu-f32-kv32", tokens)
    assert np.abs(found - reference.logits(cfg, weights, tokens)).max() < F32_TOLERANCE


def holds_in_half(found: np.ndarray, exact: np.ndarray) -> None:
    """Hold logits of a program in float16 to NumPy's."""
    assert rms((found - exact) / exact.std()) < F16_NOISE


def holds_over_half(found: np.ndarray, exact: np.ndarray) -> None:
    """Hold logits of a program in float32 to NumPy's, both over pages of float16."""
    assert np.abs(found - exact).max() < HALF_LARGEST
    assert rms(found - exact) < F32_TOLERANCE / 2


def top1_agrees(expected: np.ndarray, found: np.ndarray, bound: float) -> bool:
    """Whether the best token is the same wherever it leads by more than twice the bound."""
    ordered = np.sort(expected, axis=-1)
    clear = ordered[:, -1] - ordered[:, -2] > 2 * bound
    return bool((expected.argmax(-1) == found.argmax(-1))[clear].all())


@pytest.mark.full
def test_the_demo_model_scores_alike_on_cpu_and_webgpu(tmp_path: Path) -> None:
    demo = Path(__file__).parents[2] / "examples/demo-model"
    bundle = compile_model(
        demo, tmp_path / "demo", targets=("cpu", "webgpu"), quant="f32", context=256
    )
    with Engine(bundle) as engine:
        text = "Once upon a time a fox asked: what is 3 plus 4? The owl said that it is 7."
        tokens = engine.tokenizer.encode(text)
        expected = engine.score(tokens)
    for program in programs("f32"):
        logits = scores(bundle, program, tokens)
        assert np.abs(logits - expected).max() < F32_TOLERANCE
        assert top1_agrees(expected, logits, F32_TOLERANCE)
