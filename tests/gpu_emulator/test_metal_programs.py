"""Whole Metal programs on the emulator: the numbers are those of CUDA's, and the contract holds.

No Mac was there: nothing here says that Apple's compiler takes the texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from edgewise_runtime.devices.base import LoadedProgram
from tests.gpu_emulator.programs import Emulate
from tests.gpu_emulator.test_programs import (
    CASE,
    PAGES,
    STEPS,
    greedy,
    scored,
)
from tests.parity import make_goldens, reference
from tests.parity.driver import Floats
from tests.parity.test_contract import PAGES as MANY_PAGES
from tests.parity.test_contract import (  # noqa: F401
    Which,
    test_a_burst_is_its_single_steps,
    test_a_burst_stops_at_its_limit_and_leaves_the_other_rows_running,
    test_a_sequence_decodes_alike_alone_and_in_any_batch,
    test_every_cut_of_a_prompt_gives_the_same_logits,
    test_logits_first_and_the_draw_after_them_are_a_step_of_decode,
    test_prompts_prefilled_together_get_the_logits_they_get_alone,
)
from tests.parity.test_parity import F32_TOLERANCE, config, rms
from tests.parity.test_parity_webgpu import F16_LARGEST, F16_NOISE, HALF_TOLERANCE

pytestmark = pytest.mark.landing

CUTS = (1, 16, 17, 33, 64, 69)
CONTRACTS = [
    Which("q4", "metal-f32", CUTS),
    Which("q4", "metal-f16", CUTS),
    Which("q4", "metal-f16-kv8", CUTS, "int8"),
]


@pytest.fixture(
    params=[pytest.param(which, marks=pytest.mark.full) for which in CONTRACTS],
    ids=lambda which: which.program,
)
def which(request: pytest.FixtureRequest) -> Which:
    chosen: Which = request.param
    return chosen


@pytest.fixture
def program(which: Which, emulated: Emulate) -> Iterator[LoadedProgram]:
    with emulated(CASE, which.quant, which.program, MANY_PAGES, which.kv) as loaded:
        yield loaded


def test_prefill_and_decode_are_numpys(
    emulated: Emulate, checkpoints: Callable[[str], Path]
) -> None:
    """Logits of a prompt within the bounds of float32 over pages of float16; and of what is decoded
    after it NumPy, given the same tokens, has each in front wherever its two best differ by more
    than both may be off."""
    tokens, cfg = make_goldens.load(CASE)["tokens"].tolist(), config(checkpoints(CASE))
    weights = reference.dequantized(reference.load_weights(checkpoints(CASE)), "q4")
    with emulated(CASE, "q4", "metal-f32", PAGES) as loaded:
        found, said = scored(loaded, tokens), greedy(loaded, tokens[:20])
    off = found - reference.logits(cfg, weights, tokens, kv="float16")
    assert np.abs(off).max() < HALF_TOLERANCE
    assert rms(off) < F32_TOLERANCE / 2
    exact = reference.logits(cfg, weights, [*tokens[:20], *said], kv="float16")[19:-1]
    best = np.sort(exact)[:, -2:]
    sure = best[:, 1] - best[:, 0] > 2 * HALF_TOLERANCE
    assert sure.sum() >= STEPS // 2
    assert np.array_equal(exact.argmax(-1)[sure], np.array(said)[sure])


@pytest.mark.full
@pytest.mark.parametrize("quant", ["q4", "f32", "q6", "q6_nl"])
@pytest.mark.parametrize(("name", "kv"), [("f32", "auto"), ("f32-kv8", "int8")])
def test_they_compute_what_cudas_do_bit_for_bit(
    quant: str, name: str, kv: str, emulated: Emulate
) -> None:
    """The emulator has the same functions for both, so nothing but the text can differ."""
    metal, cuda = (_answers(emulated, quant, f"{of}-{name}", kv) for of in ("metal", "cuda"))
    assert metal[0].tobytes() == cuda[0].tobytes()
    assert metal[1] == cuda[1]


@pytest.mark.full
@pytest.mark.parametrize("quant", ["q4", "f32", "q6", "q6_nl"])
def test_they_compute_what_tensor_cores_do_as_near_as_float16_is(
    quant: str, emulated: Emulate
) -> None:
    """In float16 CUDA multiplies prompts by `mma.sync`, which Metal's texts do not have."""
    metal, cuda = (_answers(emulated, quant, f"{of}-f16", "auto") for of in ("metal", "cuda"))
    off = (metal[0] - cuda[0]) / cuda[0].std()
    assert 0 < rms(off) < F16_NOISE
    assert np.abs(off).max() < F16_LARGEST
    assert metal[1] == cuda[1]


def _answers(emulated: Emulate, quant: str, program: str, kv: str) -> tuple[Floats, list[int]]:
    """Logits of a prompt, and greedy tokens after its beginning."""
    tokens = make_goldens.load(CASE)["tokens"].tolist()
    with emulated(CASE, quant, program, PAGES, kv) as loaded:
        return scored(loaded, tokens), greedy(loaded, tokens[:20])
