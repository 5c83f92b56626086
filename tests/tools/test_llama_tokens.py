"""What differences between greedy tokens amount to."""

from __future__ import annotations

import pytest

from tools.llama_tokens import NEAR, Found


@pytest.mark.parametrize(
    ("equal", "gaps", "verdict"),
    [
        (20, (), "equal"),
        (18, (NEAR / 2, NEAR), "near ties"),
        (18, (0.0, NEAR * 1.01), "different"),
    ],
)
def test_differences_within_the_bound_are_near_ties(
    equal: int, gaps: tuple[float, ...], verdict: str
) -> None:
    assert Found(equal, 20, 640 - len(gaps), 640, gaps, 0.1).verdict == verdict
