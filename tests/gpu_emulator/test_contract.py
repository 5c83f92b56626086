"""The bitwise contract of tests/parity, of CUDA programs on the emulator."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from edgewise_runtime.devices.base import LoadedProgram
from tests.gpu_emulator.programs import Emulate
from tests.parity.test_contract import (  # noqa: F401
    CASE,
    PAGES,
    Which,
    test_a_burst_is_its_single_steps,
    test_a_burst_stops_at_its_limit_and_leaves_the_other_rows_running,
    test_a_sequence_decodes_alike_alone_and_in_any_batch,
    test_every_cut_of_a_prompt_gives_the_same_logits,
    test_logits_first_and_the_draw_after_them_are_a_step_of_decode,
    test_prompts_prefilled_together_get_the_logits_they_get_alone,
)

CUTS = (1, 16, 17, 33, 64, 69)
PROGRAMS = [
    Which("q4", "cuda-f32", CUTS),
    Which("q4", "cuda-f16", CUTS),
    Which("q4", "cuda-a8", CUTS),
    Which("q4", "cuda-f16-kv8", CUTS, "int8"),
]

pytestmark = pytest.mark.full


@pytest.fixture(params=PROGRAMS, ids=lambda which: which.program)
def which(request: pytest.FixtureRequest) -> Which:
    chosen: Which = request.param
    return chosen


@pytest.fixture
def program(which: Which, emulated: Emulate) -> Iterator[LoadedProgram]:
    with emulated(CASE, which.quant, which.program, PAGES, which.kv) as loaded:
        yield loaded
