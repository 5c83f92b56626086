"""The median of how long one waited, in little memory however often that was."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from math import log2

EXACT = 128
"""Different times that are kept as they are."""

STEPS = 32
"""Times that are kept between one and its double, where there are more."""


class Waits:
    """Times, and how often each came: after `EXACT` different ones, to 1.1%."""

    __slots__ = ("_rounds", "_times")

    def __init__(self) -> None:
        self._times: dict[float, int] = {}
        self._rounds = False

    def __len__(self) -> int:
        """How many different ones are kept."""
        return len(self._times)

    def add(self, wait: float, times: int) -> None:
        """Count a wait, seconds of at least 0, that came so many times."""
        if self._rounds:
            wait = _rounded(wait)
        self._times[wait] = self._times.get(wait, 0) + times
        if len(self._times) > EXACT and not self._rounds:
            kept, self._times, self._rounds = self._times, {}, True
            for each, count in kept.items():
                self.add(each, count)

    def median(self) -> float | None:
        """Return it; of an even number the mean of the two in the middle, of none None."""
        if not self._times:
            return None
        waits, counts = zip(*sorted(self._times.items()), strict=True)
        until = list(accumulate(counts))
        middle = [bisect_right(until, place) for place in ((until[-1] - 1) // 2, until[-1] // 2)]
        return float(waits[middle[0]] + waits[middle[1]]) / 2


def _rounded(wait: float) -> float:
    return 2.0 ** (round(log2(wait) * STEPS) / STEPS) if wait > 0 else 0.0
