"""Whether numbers drawn at random follow a distribution: Pearson's chi-square test.

The seeds of tests are fixed, so a test passes always or never; the level says how easily a correct
sampler might have been refused when seeds were chosen. At one in a million a suite of hundreds of
such tests refuses a correct one with a probability below one in a thousand, and 4,000 draws still
tell settings apart that differ as `test_distributions.py` shows.
"""

from __future__ import annotations

from math import erfc, exp, lgamma, log, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

SIGNIFICANCE = 1e-6
"""Probability with which numbers that do follow the distribution are said not to."""

FEWEST = 10
"""Draws expected in a cell, below which cells are taken together: the statistic's distribution is
chi-square only where each has several."""

Array = npt.NDArray[Any]


def p_value(seen: Array, p: Array) -> float:
    """The probability of frequencies at least as far from `p` as these.

    Args:
        seen: how often each number was drawn, int [n].
        p: how likely each is, float64 [n]; a number seen that is impossible gives 0.
    """
    assert len(seen) == len(p)
    if seen[p == 0].any():
        return 0.0
    expected = p * seen.sum()
    rare = expected < FEWEST
    observed = np.append(seen[~rare], seen[rare].sum())
    expected = np.append(expected[~rare], expected[rare].sum())
    used = expected > 0
    statistic = ((observed - expected)[used] ** 2 / expected[used]).sum()
    freedom = int(used.sum()) - 1
    return tail(float(statistic), freedom) if freedom else 1.0


def assert_follow(seen: Array, p: Array) -> None:
    """Frequencies are those of a distribution; arguments as for `p_value`."""
    found = p_value(seen, p)
    assert found > SIGNIFICANCE, f"{found:.1e}"


def tail(x: float, freedom: int) -> float:
    """The probability that a chi-square variable with so many degrees of freedom exceeds x.

    Finite sums for whole numbers of them: Abramowitz and Stegun, "Handbook of Mathematical
    Functions", 26.4.4 and 26.4.5.
    """
    half = x / 2
    if half <= 0:
        return 1.0
    start = 0.5 if freedom % 2 else 0.0
    total = erfc(sqrt(half)) if freedom % 2 else 0.0
    for step in range(freedom // 2):
        power = start + step
        total += exp(power * log(half) - half - lgamma(power + 1))
    return min(total, 1.0)
