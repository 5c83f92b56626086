"""Who computes pages that another one could share, if it waited for them.

A prompt that begins like one that is being computed waits until that one has come far enough, and
then finds its pages. Others go before it meanwhile.
"""

from __future__ import annotations

from edgewise_runtime.engine.sequence import Sequence
from edgewise_runtime.engine.shares import Line
from edgewise_runtime.engine.turn import SHORT
from edgewise_runtime.kv.memory import PageMemory

WORTH_WAITING = 2
"""Pages of a prompt that another one is computing, for which it is better to wait."""


def lacking(sequence: Sequence, memory: PageMemory) -> int:
    """Tokens that one that waits would have to compute, if it began now; or a few more.

    It costs what has changed since the last time, not what the prompt is long.
    """
    known, turn = len(sequence.known), sequence.turn
    if known <= SHORT:
        return known
    turn.found = memory.found(sequence.chain, sequence.known, turn.found)
    return known - turn.found * memory.page_tokens


def leader_of(sequence: Sequence) -> Sequence | None:
    """The choice whose prompt one that waits shares: its leader, unless either has another by now
    or the leader has no pages."""
    leader = sequence.leader
    if leader is None or leader.holding is None or sequence.tokens:
        return None
    return leader if leader.prompt_len == sequence.prompt_len else None


def awaits(sequence: Sequence, line: Line, memory: PageMemory) -> bool:
    """Whether one that waits should go on waiting, for what another one is computing.

    Never for what it has waited for before, so not for ever.
    """
    leader, turn = leader_of(sequence), sequence.turn
    if leader is not None:
        return leader.computed < sequence.prompt_len
    other = turn.awaits
    if other is None or not other.prefilling or other.computed >= turn.awaited:
        turn.awaits, turn.awaited = _look(sequence, line, memory)
    return turn.awaits is not None


def _look(sequence: Sequence, line: Line, memory: PageMemory) -> tuple[Sequence | None, int]:
    """Whose pages one that waits could share soon, and how many tokens these hold."""
    turn, size = sequence.turn, memory.page_tokens
    turn.found = memory.found(sequence.chain, sequence.known, turn.found)
    short = len(sequence.known) - turn.found * size <= SHORT
    best, most = None, turn.awaited
    for other in line.earlier(sequence):
        same = other.request.extras == sequence.request.extras
        if same and other.computed // size == turn.found and not line.late(other, short):
            shared = _alike(other.known, sequence.known, turn.found, size)
            if shared >= turn.found + WORTH_WAITING and shared * size > most:
                best, most = other, shared * size
    return best, most


def _alike(one: list[int], other: list[int], begun: int, size: int) -> int:
    """Full pages that two begin with alike, `begun` at least or 0; never with the last token."""
    if one[: begun * size] != other[: begun * size]:
        return 0
    shared, most = begun, (min(len(one), len(other)) - 1) // size
    while shared < most and _page(one, shared, size) == _page(other, shared, size):
        shared += 1
    return shared


def _page(tokens: list[int], nth: int, size: int) -> list[int]:
    return tokens[nth * size : (nth + 1) * size]
