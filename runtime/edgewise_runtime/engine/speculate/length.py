"""How many tokens to draft: as many as have lately been worth it, down to none."""

from __future__ import annotations

from edgewise_runtime.engine.speculate.base import VERIFYING
from edgewise_runtime.errors import InputError

MEMORY = 0.9
"""What an older outcome counts for, beside the next one."""

FIRST_PAUSE, LONGEST_PAUSE = 4, 64
"""Steps without a draft after a failed attempt; every further failure in a row doubles them."""


class AdaptiveLength:
    """The length of the next draft of one sequence, from how the last ones were accepted.

    With a the chance that a drafted token is accepted, k of them give (1 - a**(k+1)) / (1 - a)
    tokens a step on average, for the price of 1 + cost*k plain ones: the best k follows (Yaniv
    Leviathan, Matan Kalman, Yossi Matias, "Fast Inference from Transformers via Speculative
    Decoding", ICML 2023). It is `most` while everything is accepted and 0 once a falls below the
    cost; then one token is tried now and then, ever more rarely while that fails. At a cost of a
    whole step or more not even drafts that are always right save time: there are none.
    """

    def __init__(self, most: int = 7, *, max_batch: int = 4, cost: float = VERIFYING) -> None:
        """Begin halfway confident.

        Args:
            most: the longest draft.
            max_batch: with more sequences running than these there are no drafts, because a step
                of many rows has no spare arithmetic.
            cost: what drafting and verifying one more token takes, in plain decode steps.

        Raises InputError ``input.draft`` for a value out of range.
        """
        if most < 0 or max_batch < 0 or not cost > 0:
            raise InputError(
                f"Drafts of at most {most} tokens at cost {cost:g} with up to {max_batch} "
                "sequences are not possible.",
                remedy="Choose lengths and batches of at least 0 and a cost above 0.",
                code="input.draft",
            )
        self._most = most if best_length(1.0, cost, most) else 0
        self._max_batch = max_batch
        self._cost = cost
        # Drafted tokens that were looked at, and those of them that were right; faded.
        self._tried, self._right = 2.0, 1.5
        self._pause, self._left = FIRST_PAUSE, 0

    @property
    def acceptance(self) -> float:
        """The chance that a drafted token is accepted, as the last outcomes have it."""
        return self._right / self._tried

    def next(self, running: int = 1, waiting: int = 0) -> int:
        """Tokens to draft in the coming step, 0 for none.

        Args:
            running: sequences in the step.
            waiting: requests for which the step's tokens are better spent.
        """
        if waiting or running > self._max_batch or not self._most:
            return 0
        best = best_length(self.acceptance, self._cost, self._most)
        if best:
            return best
        if self._left:
            self._left -= 1
            return 0
        return 1

    def observe(self, proposed: int, accepted: int) -> None:
        """Take in what became of a draft; one of no tokens says nothing.

        Raises InputError ``input.draft`` unless 0 ≤ accepted ≤ proposed.
        """
        if not 0 <= accepted <= proposed:
            message = f"{accepted} of {proposed} drafted tokens cannot have been accepted."
            raise InputError(message, code="input.draft")
        if not proposed:
            return
        # Nothing is known about the tokens after the first that was wrong.
        wrong = int(accepted < proposed)
        self._tried = MEMORY * self._tried + accepted + wrong
        self._right = MEMORY * self._right + accepted
        if best_length(self.acceptance, self._cost, self._most):
            self._pause, self._left = FIRST_PAUSE, 0
        elif wrong:
            self._left = self._pause
            self._pause = min(2 * self._pause, LONGEST_PAUSE)


def best_length(acceptance: float, cost: float, most: int) -> int:
    """The k from 0 to `most` with the most tokens for the time; the least of equals.

    Args:
        acceptance: chance of each drafted token, from 0 to 1.
        cost: of each drafted token, in plain decode steps.
        most: the longest draft.
    """
    best, best_speed, tokens = 0, 1.0, 1.0
    for k in range(1, most + 1):
        tokens += acceptance**k
        speed = tokens / (1 + cost * k)
        if speed > best_speed:
            best, best_speed = k, speed
    return best
