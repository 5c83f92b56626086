"""How many tokens come before the host looks at them: so many as take no time, and eight."""

from __future__ import annotations

import pytest

from edgewise_runtime.engine.config import EngineOptions
from edgewise_runtime.engine.engine import GenerationEngine
from edgewise_runtime.engine.pace import (
    BURST_S,
    LONGEST_BURST,
    MAX_BURST,
    Pace,
    SharedTime,
    Unpaced,
)
from edgewise_runtime.engine.sampling import SamplingParams
from edgewise_runtime.engine.sequence import Request
from tests.runtime.engine.toy import ToyProgram
from tests.runtime.engine.toy_bundle import Bounds, tokenizer


@pytest.mark.parametrize(
    ("seconds", "longest"),
    [
        (BURST_S, MAX_BURST),
        (BURST_S / MAX_BURST, MAX_BURST),
        (BURST_S / 20, 20),
        (BURST_S / 1000, LONGEST_BURST),
    ],
)
def test_a_burst_takes_little_time_or_is_short(seconds: float, longest: int) -> None:
    pace = SharedTime()
    assert pace.burst() == MAX_BURST
    pace.observe(0, 1, seconds)
    assert pace.burst() in (longest, longest - 1)


class Hurried(Unpaced):
    """Tokens take no time."""

    def burst(self) -> int:
        return LONGEST_BURST


def bursts(pages: int, *, prompts: int, tokens: int, kept: int = 0) -> list[int]:
    """Of so many tokens for each prompt, in a pool in which some pages are kept for others."""
    program = ToyProgram(Bounds(pages=pages, rows=64, context=512))
    options = EngineOptions(pace=Hurried())
    core = GenerationEngine(program, tokenizer(), pages=pages, context=512, options=options)
    for first in range(kept // 2):
        prompt = Request((first, *range(30)), SamplingParams(max_tokens=1, temperature=0))
        list(core.run([core.sequence(prompt)]))
    assert core._memory.kept == kept // 2 * 2
    program.calls.clear()
    params = SamplingParams(max_tokens=tokens, temperature=0, ignore_eos=True)
    list(core.run([core.sequence(Request((9, 9, nth), params)) for nth in range(prompts)]))
    assert core.metrics.snapshot()["num_preemptions_total"] == 0
    return [k for plan, k in program.calls if plan.startswith("decode")]


def test_pages_that_are_kept_for_others_make_no_burst_shorter() -> None:
    alone = bursts(40, prompts=1, tokens=200)
    assert alone == [1, 2, 4, 8, 16, 32, 64, 64, 8]
    assert bursts(40, prompts=1, tokens=200, kept=38) == alone


def test_where_few_pages_are_left_bursts_are_short() -> None:
    found = bursts(15, prompts=2, tokens=100)
    assert found[:6] == [1, 2, 4, 8, 16, 32]
    assert set(found[6:]) == {MAX_BURST, (100 - 1 - 63) % MAX_BURST}


def test_without_a_pace_bursts_are_short() -> None:
    pace: Pace = Unpaced()
    pace.observe(0, 1, 1e-9)
    assert pace.burst() == MAX_BURST
