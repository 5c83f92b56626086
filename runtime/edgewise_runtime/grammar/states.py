"""What an automaton may be in after some bytes: sets of its states, each with a stack.

A state here is what is kept of all texts that go on alike. Where a byte leads is found when it is
first asked for, and kept in a table (as lazy automata of regular expressions do).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from edgewise_runtime.errors import InputError
from edgewise_runtime.grammar.automaton import BYTES, CALL, REPEAT, SPLIT, Automaton
from edgewise_runtime.grammar.stacks import BOTTOM, ROOT, Stack, Stacks, again

_MAX_PAIRS = 1 << 12
"""Pairs of a place in the automaton and a stack in a state."""
_MAX_VISITS = 1 << 16
"""Pairs that are looked at from one byte to the next."""
_MAX_WORK = 1 << 19
"""Pairs that may be looked at at once: about two seconds."""
_LED = 4
"""So many of the pairs that bytes lead to take as long as one that is looked at."""
_MORE_WORK = 1 << 12
"""So many more may be with each mask and each token: those who share a step wait for them."""
_MAX_KEPT = 32 << 20
"""Bytes, about, of what is kept, but for masks."""
_BYTES_OF_STATE = 300
_BYTES_OF_PAIR = 150
_BYTES_OF_EDGE = 100
_BYTES_OF_STACK = 300

UNASKED, BELOW = -1, -2
"""In the place of a row: what was not asked for yet; and where `BOTTOM` leaves out what follows."""
NOWHERE = 0
"""The row of what may not come."""

Rows = npt.NDArray[np.int64]

_Pair = tuple[int, Stack]
_Key = tuple[tuple[tuple[int, int], ...], bool]


class _Lead(NamedTuple):
    """Where some classes of bytes lead: to these pairs; and the classes, from and up to."""

    pairs: tuple[_Pair, ...]
    spans: list[tuple[int, int]]


class State:
    """Places of an automaton (all of them BYTES), each with its stack, after some bytes.

    Attributes:
        pairs: places and stacks.
        ends: whether a text may end here.
        row: where it begins in the table; 0 where it has none, or has it no more.
        leads: where each class of bytes leads; None until asked for.
    """

    __slots__ = ("ends", "leads", "pairs", "row")

    def __init__(self, pairs: tuple[_Pair, ...], ends: bool) -> None:
        self.pairs = pairs
        self.ends = ends
        self.row = 0
        self.leads: list[_Lead | None] | None = None


_HIDDEN = State((), ends=False)


class States:
    """Finds states, and where bytes lead from them.

    Attributes:
        width: classes of bytes.
        table: int64: where a byte of each class leads: where the row of a state begins, NOWHERE
            (of which the row has nothing else), UNASKED or BELOW; row by row.
    """

    def __init__(self, automaton: Automaton) -> None:
        self._automaton = automaton
        self.width = len(automaton.samples)
        self._stacks = Stacks()
        self._made: dict[_Key, State] = {}
        self._kept = 0
        self._left = _MAX_WORK
        nothing = State((), ends=False)
        self._rows: list[State] = [nothing]
        self.table = self._empty()
        found = self._closed([(automaton.start, ROOT)])
        self.start = nothing if found is None else found

    def go_on(self) -> None:
        """Allow for another mask, or token."""
        self._left = min(_MAX_WORK, self._left + _MORE_WORK)

    def row_of(self, state: State) -> int:
        """Where the row of a state begins."""
        if state.row == 0:
            state.row = len(self._rows) * self.width
            if state.row == len(self.table):
                more = np.full(len(self.table), UNASKED, np.int64)
                self.table = np.concatenate([self.table, more])
            self._rows.append(state)
        return state.row

    def step(self, state: State, byte_class: int) -> State | None:
        """The state that a byte of a class leads to.

        Raises InputError ``constraint.ambiguous``, ``constraint.too_large``.
        """
        place = self.row_of(state) + byte_class
        row = int(self.table[place])
        if row == UNASKED:
            self.ask(place)
            row = int(self.table[place])
        return self._rows[row // self.width] if row > 0 else None

    def ask(self, place: int) -> None:
        """Find what stands in a place of the table. Raises as `step`."""
        number, byte_class = divmod(place, self.width)
        state = self._rows[number]
        if state.leads is None:
            state.leads = self._leads(state)
            nowhere = np.array([lead is None for lead in state.leads])
            self.table[state.row : state.row + self.width][nowhere] = NOWHERE
        lead = state.leads[byte_class]
        if lead is None or self.table[place] != UNASKED:
            return
        found = self._closed(lead.pairs)
        to = NOWHERE if found is None else BELOW if found is _HIDDEN else self.row_of(found)
        for first, after in lead.spans:
            self.table[state.row + first : state.row + after] = to

    def cut(self, state: State, depth: int, length: int) -> State:
        """The state with stacks cut (`Stacks.cut`): the same for texts of `length` bytes, but for
        where it leads BELOW."""
        cut = self._stacks.cut
        return self._interned([(p, cut(s, depth, length)) for p, s in state.pairs], state.ends)

    @property
    def full(self) -> bool:
        """Whether so much is kept that it should be forgotten."""
        used = self._kept + self.table.nbytes + _BYTES_OF_STACK * len(self._stacks)
        return used > _MAX_KEPT

    def clear(self) -> None:
        """Forget what is there; states that are in use stay what they are."""
        for state in self._rows:
            state.row, state.leads = 0, None
        self._rows, self.table, self._made, self._kept = self._rows[:1], self._empty(), {}, 0
        self._stacks.clear()

    def _empty(self) -> Rows:
        table = np.full(16 * self.width, UNASKED, np.int64)
        table[: self.width] = NOWHERE
        return table

    def _leads(self, state: State) -> list[_Lead | None]:
        """Where each class of bytes leads a state's pairs; None where nowhere."""
        code, classes = self._automaton.code, self._automaton.classes
        edges = [
            (classes[code[at]], classes[code[at + 1]] + 1, (code[at + 2], stack))
            for place, stack in state.pairs
            for at in range(place + 2, place + 2 + 3 * code[place + 1], 3)
        ]
        cuts = sorted({cut for first, after, _ in edges for cut in (first, after)})
        number = {cut: i for i, cut in enumerate(cuts)}
        led: list[list[_Pair]] = [[] for _ in cuts]
        for first, after, pair in edges:
            for i in range(number[first], number[after]):
                led[i].append(pair)
        self._take(sum(map(len, led)) // _LED)
        same: dict[tuple[_Pair, ...], _Lead] = {}
        leads: list[_Lead | None] = [None] * self.width
        for first, after, pairs in zip(cuts, cuts[1:], map(tuple, led), strict=False):
            if pairs:
                lead = same.setdefault(pairs, _Lead(pairs, []))
                lead.spans.append((first, after))
                leads[first:after] = [lead] * (after - first)
        self._kept += _BYTES_OF_EDGE * len(edges) + 8 * (self.width + sum(map(len, same)))
        return leads

    def _closed(self, pairs: Iterable[_Pair]) -> State | None:
        """The state of what can be reached from pairs without another byte; `_HIDDEN` where that
        cannot be told, None where nothing can."""
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
                return _HIDDEN
            elif stack.below is None:
                ends = True
            elif stack.back >= 0:
                left.append((stack.back, stack.below))
            else:
                repeat(~stack.back, stack.below, stack.least, stack.most)
        self._take(len(seen) + sum(map(len, counted.values())))
        return self._interned(found, ends) if found or ends else None

    def _take(self, work: int) -> None:
        self._left -= work
        if self._left < 0:
            raise _too_slow()

    def _interned(self, pairs: list[_Pair], ends: bool) -> State:
        joined = pairs if len(pairs) < 2 else sorted(self._joined(pairs), key=_order)
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


def _too_slow() -> InputError:
    return InputError(
        f"It takes more than {_MAX_WORK:,} steps to find the tokens that may come.",
        remedy="Write the grammar so that what comes tells alternatives apart.",
        code="constraint.ambiguous",
    )


def _ambiguous(most: int) -> InputError:
    return InputError(
        f"A text can be read by the grammar in more than {most:,} ways at once.",
        remedy="Write it so that what comes tells alternatives apart.",
        code="constraint.ambiguous",
    )
