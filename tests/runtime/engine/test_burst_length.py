"""How many tokens come before the host looks at them: so many as take no time, and eight."""

from __future__ import annotations

import pytest

from edgewise_runtime.engine.pace import (
    BURST_S,
    LONGEST_BURST,
    MAX_BURST,
    Pace,
    SharedTime,
    Unpaced,
)


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


def test_without_a_pace_bursts_are_short() -> None:
    pace: Pace = Unpaced()
    pace.observe(0, 1, 1e-9)
    assert pace.burst() == MAX_BURST
