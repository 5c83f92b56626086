"""Where an automaton goes on once rules and repetitions have ended: linked lists, each one once."""

from __future__ import annotations

from dataclasses import dataclass

from edgewise_runtime.errors import InputError
from edgewise_runtime.grammar.automaton import ENDLESS

_MAX_DEPTH = 1 << 16
"""Rules and repetitions within one another."""


@dataclass(frozen=True, eq=False, slots=True)
class Stack:
    """A frame and those below it.

    Attributes:
        id: unlike that of any other stack, also of those that are forgotten.
        depth: how many frames there are.
        below: None for `ROOT` and `BOTTOM`, which are no frames.
        back: the state after a rule; of a repetition, ``~`` its state.
        least, most: how often a repetition has to and may go on when its body has ended; 0 for a
            rule. ENDLESS stays what it is.
    """

    id: int
    depth: int = 0
    below: Stack | None = None
    back: int = 0
    least: int = 0
    most: int = 0


ROOT = Stack(0)
"""Nothing is to follow."""

BOTTOM = Stack(1)
"""What is to follow is left out (`Stacks.cut`)."""


class Stacks:
    """Makes stacks, and keeps them."""

    def __init__(self) -> None:
        self._made: dict[tuple[int, int, int, int], Stack] = {}
        self._next = 2

    def __len__(self) -> int:
        return len(self._made)

    def push(self, below: Stack, back: int, least: int = 0, most: int = 0) -> Stack:
        """Raises InputError ``constraint.too_large`` for too many frames."""
        key = (below.id, back, least, most)
        found = self._made.get(key)
        if found is None:
            if below.depth >= _MAX_DEPTH:
                raise InputError(
                    f"A text is more than {_MAX_DEPTH:,} rules and repetitions deep.",
                    code="constraint.too_large",
                )
            found = self._made[key] = Stack(self._next, below.depth + 1, below, back, least, most)
            self._next += 1
        return found

    def cut(self, stack: Stack, depth: int, length: int) -> Stack:
        """The same for all texts of `length` bytes at most that do not come below `depth` frames:
        BOTTOM is in the place of what is below them.

        Each time that a body goes on takes a byte, so counts from `length` on are as good as
        ENDLESS.
        """
        frames: list[Stack] = []
        at = stack
        while at.below is not None and len(frames) < depth:
            frames.append(at)
            at = at.below
        if at.below is not None:
            at = BOTTOM
        for frame in reversed(frames):
            least = frame.least if frame.least < length else ENDLESS
            at = self.push(at, frame.back, least, frame.most if frame.most < length else ENDLESS)
        return at

    def clear(self) -> None:
        """Forget what is there; stacks that are in use stay what they are."""
        self._made = {}


def again(least: int, most: int) -> tuple[int, int]:
    """Counts of a repetition once its body has ended and is to begin again."""
    return (
        least if least == ENDLESS else max(0, least - 1),
        most if most == ENDLESS else most - 1,
    )
