"""How the prompt tokens of a step are divided, and who may join those that are computed.

Prompts are computed in their order, one after the other. Only where one takes more than a step has,
the shortest of those behind it go first, as far as it lets them (`turn`): they have their first
token within a few steps, and it goes on with the rest.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from collections.abc import Sequence as Rows
from itertools import accumulate

from edgewise_runtime.engine.pace import MIN_CHUNK, ROUND
from edgewise_runtime.engine.sequence import Sequence
from edgewise_runtime.engine.turn import LAST, SHORT, missing, order


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
    passed, least = 0, min(most, ROUND)
    for place in sorted(range(1, len(prompts)), key=lambda place: missing(prompts[place])):
        sequence, lacking = prompts[place], missing(prompts[place])
        if passed == most or not may_pass(lacking, prompts[0]):
            break
        ahead = [one for one in prompts[:place] if given.get(one, 0) < missing(one)]
        if all(may_pass(lacking, one) for one in ahead):
            now = min(one.turn.lets_pass_now(missing(one)) for one in ahead)
            count = min(lacking, most - passed, now - passed)
            # Fewer tokens than a tile of attention take as long as one.
            if count >= min(lacking, least) > 0:
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

    Those that wait ask one after the other, in their order.

    Args:
        prompts: those that are computed.
        streams: whether there are sequences that decode, beside which a short prompt need not be
            let pass.

    Attributes:
        rows: prompt tokens of a step at most.
    """

    def __init__(self, prompts: Iterable[Sequence], rows: int, *, streams: bool) -> None:
        self.rows = rows
        self._streams = streams
        self._place = 0
        self._prompts = sorted(prompts, key=order)
        self._orders = [*map(order, self._prompts), LAST]
        # Tokens before those of each, and before those of one behind them all.
        self._before = list(accumulate(map(missing, self._prompts), initial=0))
        self._measure()

    def ask(self, sequence: Sequence) -> None:
        """The next of those that wait asks for a place."""
        mine = order(sequence)
        while self._orders[self._place] < mine:
            self._place += 1

    def lets(self, lacking: int) -> bool:
        """Whether there is something to do in this step for the one that asks.

        Until then others may compute what it can share.

        Args:
            lacking: how many tokens it would have to compute.
        """
        if self._before[self._place] < self.rows:
            return True
        return self._passing < self.rows // 2 and self._passes(lacking)

    def join(self, sequence: Sequence) -> None:
        """The one that asks has a place now."""
        place, lacking = self._place, missing(sequence)
        self._prompts.insert(place, sequence)
        self._orders.insert(place, order(sequence))
        self._before[place + 1 :] = [before + lacking for before in self._before[place:]]
        self._measure()

    def __iter__(self) -> Iterator[Sequence]:
        return iter(self._prompts)

    def before(self, sequence: Sequence) -> int | None:
        """Tokens that are computed before those of one of the prompts: none where it may pass
        others; None where it comes behind the one that asks."""
        place = bisect_left(self._orders, order(sequence))
        if place >= self._place:
            return None
        return 0 if self._passes(missing(sequence)) else self._before[place]

    def _passes(self, lacking: int) -> bool:
        """Whether one that comes after the first that a step does not finish may go before it."""
        if self._streams and lacking <= SHORT:
            return True
        return self._long is not None and may_pass(lacking, self._long)

    def _measure(self) -> None:
        """Find the first that a step does not finish, and the tokens of those that may pass it."""
        place = bisect_right(self._before, self.rows) - 1
        self._long = self._prompts[place] if place < len(self._prompts) else None
        later = map(missing, self._prompts[place + 1 :])
        self._passing = sum(lacking for lacking in later if self._passes(lacking))
