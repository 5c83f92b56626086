"""Whose turn it is: the order of those that wait and run, and what passing others costs them.

A short prompt may go before longer ones that came earlier, as long as these lose little by it: each
lets so many tokens pass, a tenth of its own. And those of a better priority go first, but not for
ever: whoever has been passed often enough is as good as they are.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgewise_runtime.engine.sequence import Sequence

TENTH = 10
"""Of so many tokens of a prompt one may be computed besides for those that came later."""

SHORT = 64
"""Tokens of a short prompt. Every longer one lets so many pass, and at once."""

PASSES = 8
"""Sequences of better priority that begin before one that came earlier; then its turn has come."""


@dataclass(slots=True)
class Turn:
    """What has become of a sequence's turn.

    Attributes:
        come: it has been passed often enough: nobody who came later has a better priority.
        passes: how often it was, as the one that came first of those passed.
        lacked: tokens that it had to compute when it was given its place.
        yielded: tokens computed since then for prompts that came later and went before it.
        found: full pages of it that were on the device when that was last looked up.
        awaits: another one that computes what this one is going to share; None for nobody.
        awaited: for so many tokens of that one it waits, or has waited.
    """

    come: bool = False
    passes: int = 0
    lacked: int = 0
    yielded: int = 0
    found: int = 0
    awaits: Sequence | None = None
    awaited: int = 0

    def begin(self, lacking: int) -> None:
        """It has been given a place, and lacks so many tokens."""
        self.lacked, self.yielded, self.awaits = lacking, 0, None

    def forget(self) -> None:
        """Its tokens are others than before."""
        self.found = self.awaited = 0

    @property
    def lets_pass(self) -> int:
        """Tokens that may be computed for later ones before its own are, in all."""
        return self._due - self.yielded

    def lets_pass_now(self, lacking: int) -> int:
        """How many of them now, where it lacks so many tokens: half of them at any time, the others
        as it gets on, so that some are left for those who come in the middle of a long prompt."""
        now = self._due - self._due * lacking // max(2 * self.lacked, 1)
        return max(now, SHORT) - self.yielded

    @property
    def _due(self) -> int:
        return max(self.lacked // TENTH, SHORT)


def order(sequence: Sequence) -> tuple[bool, int, int]:
    """Who comes first: by priority, then by arrival; those whose turn has come before all others.

    Who is last gives up its pages where they run out.
    """
    come = sequence.turn.come
    return not come, 0 if come else sequence.request.priority, sequence.arrival


LAST = (True, sys.maxsize, sys.maxsize)
"""Later than the order of any sequence."""


def missing(sequence: Sequence) -> int:
    """Tokens that are known and not computed."""
    return len(sequence.known) - sequence.computed


def passed_by(sequence: Sequence, others: Iterable[Sequence]) -> Sequence | None:
    """Note that a sequence has been given a place, and so has passed those that came earlier and
    have a worse priority: the first of them has been passed once more.

    Only the first, so that a thousand that wait do not all have their turn together.

    Args:
        others: that wait for their first token.

    Returns:
        Whose turn has come by that.
    """
    passed = (
        other
        for other in others
        if other.arrival < sequence.arrival
        and not other.turn.come
        and other.request.priority > sequence.request.priority
    )
    first = min(passed, key=lambda other: other.arrival, default=None)
    if first is None:
        return None
    first.turn.passes += 1
    first.turn.come = first.turn.passes >= PASSES
    return first if first.turn.come else None
