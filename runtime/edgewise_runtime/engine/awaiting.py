"""Who computes pages that another one could share, if it waited for them.

A prompt that begins like one that is being computed waits until that one has come far enough, and
then finds its pages. Others go before it meanwhile.
"""

from __future__ import annotations

from edgewise_runtime.engine.sequence import Sequence
from edgewise_runtime.engine.shares import Line
from edgewise_runtime.engine.turn import SHORT
from edgewise_runtime.kv.base import KvMemory

WORTH_WAITING = 2
"""Pages of a prompt that another one is computing, for which it is better to wait."""


def still_awaits(sequence: Sequence) -> bool:
    """Whether what one that waits has been waiting for has not been computed yet."""
    other = sequence.turn.awaits
    return other is not None and other.computed < sequence.turn.awaited and other.prefilling


def leader_of(sequence: Sequence) -> Sequence | None:
    """The choice whose prompt one that waits shares: its leader, unless either has another by now
    or the leader has no pages."""
    leader = sequence.leader
    if leader is None or leader.holding is None or sequence.tokens:
        return None
    return leader if leader.prompt_len == sequence.prompt_len else None


class Awaited:
    """Which pages are computed now, and by whom.

    Args:
        line: the prompts that are computed, and who asks for a place among them.
    """

    def __init__(self, line: Line, memory: KvMemory) -> None:
        self._line = line
        self._memory = memory
        self._computing: dict[bytes, Sequence] = {}
        for sequence in line:
            self.add(sequence)

    def add(self, sequence: Sequence) -> None:
        """A prompt is computed, too."""
        if sequence.holding is not None and sequence.pooled is None:
            nth = sequence.computed // self._memory.page_tokens
            key = self._memory.key(sequence.holding.chain, sequence.known, nth)
            if key is not None:
                self._computing.setdefault(key, sequence)

    def by(self, sequence: Sequence) -> bool:
        """Whether the one that asks should wait for what another one is computing.

        Never for what it has waited for before, so not for ever. What has been found of it is up to
        date after that.
        """
        if sequence.pooled is not None:
            return False
        leader, turn = leader_of(sequence), sequence.turn
        if leader is not None:
            return leader.computed < sequence.prompt_len
        turn.found = self._memory.found(sequence.chain, sequence.known, turn.found)
        key = self._memory.key(sequence.chain, sequence.known, turn.found)
        other = None if key is None else self._computing.get(key)
        shared = 0 if other is None else self._shared(other, sequence)
        turn.awaits = other if shared > turn.awaited else None
        turn.awaited = max(shared, turn.awaited)
        return turn.awaits is not None

    def _shared(self, other: Sequence, sequence: Sequence) -> int:
        """Tokens in the pages that one could share with another soon; 0 where they are too few.

        Soon is in this step, as far as is known; or next of all, for one that lacks few itself.
        """
        size, found = self._memory.page_tokens, sequence.turn.found
        short = len(sequence.known) - found * size <= SHORT
        before = self._line.before(other)
        if before is None or before >= (1 if short else self._line.rows):
            return 0
        alike, most = found, (min(len(other.known), len(sequence.known)) - 1) // size
        while alike < most and _page(other, alike, size) == _page(sequence, alike, size):
            alike += 1
        return alike * size if alike >= found + WORTH_WAITING else 0


def _page(sequence: Sequence, nth: int, size: int) -> list[int]:
    return sequence.known[nth * size : (nth + 1) * size]
