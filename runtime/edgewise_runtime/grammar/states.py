"""What an automaton may be in after some bytes: sets of its states, each with a stack.

A state here is what is kept of all texts that go on alike. Where a byte leads is found when it is
first asked for, and kept in a table (as lazy automata of regular expressions do).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from edgewise_runtime.errors import InputError
from edgewise_runtime.grammar.automaton import BYTES, CALL, REPEAT, SPLIT, Automaton
from edgewise_runtime.grammar.stacks import BOTTOM, ROOT, Stack, Stacks, again

_MAX_PAIRS = 1 << 12
"""Pairs of a place in the automaton and a stack in a state."""
_MAX_VISITS = 1 << 16
"""Pairs that are looked at from one byte to the next."""
_MAX_KEPT = 64 << 20
"""Bytes, about, of what is kept, but for masks."""
_BYTES_OF_STATE = 300
_BYTES_OF_PAIR = 150
_BYTES_OF_STACK = 300

UNASKED, NOWHERE, BELOW = -1, -2, -3
"""Where a byte leads that was not asked for yet; that may not come; and of which `BOTTOM` leaves
out where it leads."""

_Pair = tuple[int, Stack]
_Key = tuple[tuple[tuple[int, int], ...], bool]


class State:
    """Places of an automaton (all of them BYTES), each with its stack, after some bytes.

    Attributes:
        pairs: places and stacks.
        ends: whether a text may end here.
        row: of the table; -1 where it has none, or has it no more.
    """

    __slots__ = ("ends", "pairs", "row")

    def __init__(self, pairs: tuple[_Pair, ...], ends: bool) -> None:
        self.pairs = pairs
        self.ends = ends
        self.row = -1


class States:
    """Finds states, and where bytes lead from them.

    Attributes:
        table: int32 [rows, classes]: where a byte of each class leads: a row, or a number below 0.
        rows: the state of each row of the table.
        visits: pairs looked at since it was last set to 0.
    """

    def __init__(self, automaton: Automaton) -> None:
        self._automaton = automaton
        self._stacks = Stacks()
        self._made: dict[_Key, State] = {}
        self._kept = 0
        self.table: npt.NDArray[np.int32] = self._empty(16)
        self.rows: list[State] = []
        self.visits = 0
        found = self._closed([(automaton.start, ROOT)])
        self.start = State((), ends=False) if isinstance(found, int) else found

    def row_of(self, state: State) -> int:
        """The row of a state in the table."""
        if state.row < 0:
            state.row = len(self.rows)
            if state.row == len(self.table):
                self.table = np.concatenate([self.table, self._empty(state.row)])
            self.rows.append(state)
        return state.row

    def step(self, state: State, byte_class: int) -> int:
        """Where a byte of a class leads: a row, NOWHERE or BELOW.

        Raises InputError ``constraint.ambiguous``, ``constraint.too_large``.
        """
        row = self.row_of(state)
        to = int(self.table[row, byte_class])
        if to == UNASKED:
            found = self._closed(self._led(state, self._automaton.samples[byte_class]))
            to = found if isinstance(found, int) else self.row_of(found)
            self.table[row, byte_class] = to
        return to

    def cut(self, state: State, depth: int, length: int) -> State:
        """The state with stacks cut (`Stacks.cut`): the same for texts of `length` bytes, but for
        where it leads BELOW."""
        cut = self._stacks.cut
        return self._interned(((p, cut(s, depth, length)) for p, s in state.pairs), state.ends)

    @property
    def full(self) -> bool:
        """Whether so much is kept that it should be forgotten."""
        used = self._kept + self.table.nbytes + _BYTES_OF_STACK * len(self._stacks)
        return used > _MAX_KEPT

    def clear(self) -> None:
        """Forget what is there; states that are in use stay what they are."""
        for state in self.rows:
            state.row = -1
        self.rows, self.table, self._made, self._kept = [], self._empty(16), {}, 0
        self._stacks.clear()

    def _empty(self, rows: int) -> npt.NDArray[np.int32]:
        return np.full((rows, len(self._automaton.samples)), UNASKED, np.int32)

    def _led(self, state: State, byte: int) -> list[_Pair]:
        """Where a byte leads each of a state's pairs."""
        code = self._automaton.code
        led: list[_Pair] = []
        for place, stack in state.pairs:
            for at in range(place + 2, place + 2 + 3 * code[place + 1], 3):
                if code[at] <= byte <= code[at + 1]:
                    led.append((code[at + 2], stack))
        return led

    def _closed(self, pairs: Iterable[_Pair]) -> State | int:
        """What can be reached from pairs without another byte: a state, NOWHERE or BELOW."""
        code = self._automaton.code
        push = self._stacks.push
        left = list(pairs)
        seen: set[tuple[int, int]] = set()
        counted: dict[tuple[int, int], list[tuple[int, int]]] = {}
        found: list[_Pair] = []
        ends = False

        def repeat(place: int, stack: Stack, least: int, most: int) -> None:
            """A body that may go on from `least` to `most` times."""
            before = counted.setdefault((place, stack.id), [])
            if any(low <= least and most <= high for low, high in before):
                return
            before.append((least, most))
            if least == 0:
                left.append((code[place + 4], stack))
            if most > 0:
                left.append((code[place + 1], push(stack, ~place, *again(least, most))))

        while left:
            pair = left.pop()
            place, stack = pair
            key = (place, stack.id)
            if key in seen:
                continue
            seen.add(key)
            if len(seen) > _MAX_VISITS:
                raise _ambiguous(_MAX_VISITS)
            kind = code[place]
            if kind == BYTES:
                found.append(pair)
            elif kind == SPLIT:
                left += [(to, stack) for to in code[place + 2 : place + 2 + code[place + 1]]]
            elif kind == CALL:
                back = code[place + 2]
                # A rule with which another ends goes on where that one does.
                left.append((code[place + 1], push(stack, back) if code[back] else stack))
            elif kind == REPEAT:
                repeat(place, stack, code[place + 2], code[place + 3])
            elif stack is BOTTOM:
                return BELOW
            elif stack.below is None:
                ends = True
            elif stack.back >= 0:
                left.append((stack.back, stack.below))
            else:
                repeat(~stack.back, stack.below, stack.least, stack.most)
        self.visits += len(seen)
        return self._interned(found, ends) if found or ends else NOWHERE

    def _interned(self, pairs: Iterable[_Pair], ends: bool) -> State:
        joined = sorted(self._joined(pairs), key=_order)
        if len(joined) > _MAX_PAIRS:
            raise _ambiguous(_MAX_PAIRS)
        key = (tuple(map(_order, joined)), ends)
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = State(tuple(joined), ends)
            self._kept += _BYTES_OF_STATE + _BYTES_OF_PAIR * len(joined)
        return found

    def _joined(self, pairs: Iterable[_Pair]) -> list[_Pair]:
        """The same pairs, each once. Where all that two differ by are the counts of the repetition
        that they are in, and one goes on where the other stops, they are one pair with the counts
        of both."""
        kept: dict[tuple[int, int], _Pair] = {}
        counted: dict[tuple[int, int, int], list[Stack]] = {}
        for place, stack in pairs:
            if stack.back >= 0 or stack.below is None:
                kept[place, stack.id] = (place, stack)
            else:
                counted.setdefault((place, stack.back, stack.below.id), []).append(stack)
        joined = list(kept.values())
        for (place, back, _), stacks in counted.items():
            stacks.sort(key=_counts)
            last = stacks[0]
            for stack in stacks[1:]:
                if stack.least > last.most + 1:
                    joined.append((place, last))
                    last = stack
                elif stack.most > last.most and stack.below is not None:
                    last = self._stacks.push(stack.below, back, last.least, stack.most)
            joined.append((place, last))
        return joined


def _order(pair: _Pair) -> tuple[int, int]:
    return pair[0], pair[1].id


def _counts(stack: Stack) -> tuple[int, int]:
    return stack.least, -stack.most


def _ambiguous(most: int) -> InputError:
    return InputError(
        f"A text can be read by the grammar in more than {most:,} ways at once.",
        remedy="Write it so that what comes tells alternatives apart.",
        code="constraint.ambiguous",
    )
