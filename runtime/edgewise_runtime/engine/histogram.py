"""Counts of values in buckets: little memory, exact sums, estimated percentiles."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

from edgewise_runtime.errors import InputError

PERCENTILES = (50, 90, 99)
"""What a snapshot estimates."""


def steps_1_2_5(first: int, last: int) -> tuple[float, ...]:
    """Bounds 1, 2, 5, 10, 20, … times 10**`first`, up to 10**`last`."""
    # Parsed, so that 0.0002 is the number people write, and not 2 * 10**-4 a bit off.
    decades = (float(f"{digit}e{e}") for e in range(first, last) for digit in (1, 2, 5))
    return (*decades, float(f"1e{last}"))


class Histogram:
    """How many values lie at or below each of a few bounds, as Prometheus counts them.

    Written and read under the owner's lock: not safe by itself for several threads.
    """

    def __init__(self, bounds: Sequence[float]) -> None:
        """Count by upper `bounds`, rising and finite; above the last lies one more bucket.

        Raises InputError ``input.bounds``.
        """
        rising = all(low < high for low, high in pairwise(bounds))
        if not bounds or not rising or not all(math.isfinite(bound) for bound in bounds):
            raise InputError(
                f"Histogram bounds {list(bounds)} are not finite numbers that rise.",
                remedy="Pass at least one bound, each larger than the one before.",
                code="input.bounds",
            )
        self._bounds = tuple(map(float, bounds))
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0
        self._low = math.inf
        self._high = -math.inf

    @property
    def count(self) -> int:
        return sum(self._counts)

    @property
    def sum(self) -> float:
        return self._sum

    def observe(self, value: float, times: int = 1) -> None:
        """Count a finite value, `times` times."""
        if times <= 0:
            return
        self._counts[bisect_left(self._bounds, value)] += times
        self._sum += value * times
        self._low = min(self._low, value)
        self._high = max(self._high, value)

    def percentile(self, percent: float) -> float | None:
        """Estimate what `percent` of the values do not exceed; None before the first value.

        Straight lines between the bounds, as Prometheus's ``histogram_quantile``, but between the
        smallest and the largest value seen; so the estimate lies in the bucket of the value it is
        for, and equal values give themselves.
        """
        rank = self.count * percent / 100
        below = 0
        edges = (-math.inf, *self._bounds, math.inf)
        for (start, end), count in zip(pairwise(edges), self._counts, strict=True):
            if count and below + count >= rank:
                low, high = max(start, self._low), min(end, self._high)
                part = max(rank - below, 0.0) / count
                return min(low + (high - low) * part, high)
            below += count
        return None

    def snapshot(self) -> dict[str, Any]:
        """Return ``count``, ``sum``, percentiles (``p50``, …; None where nothing was counted) and
        ``buckets``: the values at or below each bound, by the bound as text, ``+Inf`` at the end.
        """
        names = [*(f"{bound:g}" for bound in self._bounds), "+Inf"]
        return {
            "count": self.count,
            "sum": self._sum,
            **{f"p{percent}": self.percentile(percent) for percent in PERCENTILES},
            "buckets": dict(zip(names, accumulate(self._counts), strict=True)),
        }
