"""How the prompt tokens of a step are divided, and who may join those that are computed.

Prompts are computed in their order, one after the other. Only where one takes more than a step has,
the shortest of those behind it go first, as far as it lets them (`turn`): they have their first
token within a few steps, and it goes on with the rest.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable
from collections.abc import Sequence as Rows
from itertools import accumulate

from edgewise_runtime.engine.pace import MIN_CHUNK
from edgewise_runtime.engine.sequence import Sequence
from edgewise_runtime.engine.turn import missing, order


def shares(prompts: Rows[Sequence], left: int) -> dict[Sequence, int]:
    """Divide `left` tokens among prompts, which are in their order; who gets none is not named."""
    given: dict[Sequence, int] = {}
    for place, sequence in enumerate(prompts):
        if missing(sequence) > left:
            passing = _passing(prompts[place:], max(left // 2, min(left, MIN_CHUNK)))
            left -= sum(passing.values())
            return given | passing | ({sequence: left} if left else {})
        given[sequence] = missing(sequence)
        left -= missing(sequence)
    return given


def _passing(prompts: Rows[Sequence], most: int) -> dict[Sequence, int]:
    """The tokens, `most` in all, of those that go before the first of these prompts."""
    given: dict[Sequence, int] = {}
    passed = 0
    for place in sorted(range(1, len(prompts)), key=lambda place: missing(prompts[place])):
        if passed == most:
            break
        sequence, lacking = prompts[place], missing(prompts[place])
        ahead = [one for one in prompts[:place] if given.get(one, 0) < missing(one)]
        if all(may_pass(lacking, one) for one in ahead):
            now = min(one.turn.lets_pass_now(missing(one)) for one in ahead)
            count = min(lacking, most - passed, now - passed)
            if count > 0:
                given[sequence] = count
                passed += count
    return given


def may_pass(lacking: int, first: Sequence) -> bool:
    """Whether a prompt that lacks so many tokens may go before one that came first: where all of
    them are fewer than this one lacks, and it lets them pass."""
    return lacking < missing(first) and lacking <= first.turn.lets_pass


def charge(prompts: Rows[Sequence], given: dict[Sequence, int]) -> None:
    """Note what each of the prompts, which are in their order, lets pass in a step."""
    later = 0
    for sequence in reversed(prompts):
        count = given.get(sequence, 0)
        if count < missing(sequence):
            sequence.turn.yielded += later
        later += count


class Line:
    """The prompts that are computed, as those see them that wait for a place among them.

    Args:
        prompts: those that are computed.
        rows: prompt tokens of a step at most.
    """

    def __init__(self, prompts: Iterable[Sequence], rows: int) -> None:
        self._prompts = sorted(prompts, key=order)
        self._rows = rows
        self._measure()

    def lets(self, sequence: Sequence, lacking: Callable[[Sequence], int]) -> bool:
        """Whether there is something to do for one that waits, in this step.

        Until then others may compute what it can share.

        Args:
            lacking: how many tokens it would have to compute.
        """
        if self._before[self._place(sequence)] < self._rows:
            return True
        crowded = self._passing >= self._rows // 2
        return not crowded and self._long is not None and may_pass(lacking(sequence), self._long)

    def earlier(self, sequence: Sequence) -> list[Sequence]:
        """The prompts that come before one that waits."""
        return self._prompts[: self._place(sequence)]

    def late(self, sequence: Sequence, short: bool) -> bool:
        """Whether the turn of one of the prompts does not come in this step.

        Args:
            short: or only comes after that of another one.
        """
        before = self._before[self._place(sequence)]
        passes = self._long is not None and may_pass(missing(sequence), self._long)
        return not passes and before >= (1 if short else self._rows)

    def join(self, sequence: Sequence) -> None:
        """One that waited has a place now."""
        insort(self._prompts, sequence, key=order)
        self._measure()

    def _place(self, sequence: Sequence) -> int:
        return bisect_left(self._prompts, order(sequence), key=order)

    def _measure(self) -> None:
        lacking = [missing(sequence) for sequence in self._prompts]
        # Tokens before each of them, and before one behind them all.
        self._before = list(accumulate(lacking, initial=0))
        place = bisect_right(self._before, self._rows) - 1
        self._long = self._prompts[place] if place < len(self._prompts) else None
        later = lacking[place + 1 :] if self._long is not None else []
        self._passing = sum(n for n in later if self._long and may_pass(n, self._long))
