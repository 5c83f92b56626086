"""How prefill and decode share the time, from made-up times."""

from __future__ import annotations

import pytest

from edgewise_runtime.engine.pace import CREDIT_S, SharedTime

STEP_S = 0.01


def until_some(pace: SharedTime, passing: int) -> int:
    """Steps until the pace has prompt tokens again; every so many has some that it has not asked
    for, and takes five times as long."""
    for step in range(1, 1000):
        if pace.tokens(512, 3, 1):
            return step
        asked = passing and step % passing == 0
        pace.observe(20 if asked else 0, 3, 5 * STEP_S if asked else STEP_S)
    return 0


@pytest.mark.parametrize("passing", [3, 7])
def test_long_prompts_do_not_pay_for_short_ones_that_were_let_in(passing: int) -> None:
    steps = []
    for every in (0, passing):
        pace = SharedTime()
        pace.observe(0, 3, STEP_S)
        pace.observe(32, 3, STEP_S + 1.5 * CREDIT_S)
        assert pace.tokens(512, 3, 1) == 0
        steps.append(until_some(pace, every))
    assert steps[0] == steps[1] > 5
