"""Masks of states: which tokens of a vocabulary may come, kept by as much of a state as matters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from edgewise_runtime.grammar.automaton import Automaton
from edgewise_runtime.grammar.states import BELOW, UNASKED, Rows, State, States
from edgewise_runtime.grammar.tries import Indices, Level, Trie, below, rest_of
from edgewise_runtime.grammar.vocabulary import Vocabulary

Mask = npt.NDArray[np.uint32]

_MAX_KEPT = 32 << 20
"""Bytes of masks that are kept."""
_BYTES_OF_STATE = 1000
"""About, of a state that a mask is kept by."""
_BYTES_OF_NODE = 40
_FEW = 8
"""Where not one node in so many may come, those below the others are not looked at."""
_MANY = 4
"""Where one node in so many cannot be told, the stack is cut less short for all of them."""


class Kept(NamedTuple):
    """A mask, and whether every token is in it."""

    mask: Mask
    whole: bool


@dataclass(frozen=True, eq=False)
class _Part:
    """Some tokens, and the class of each node's byte, level by level."""

    trie: Trie
    classes: list[npt.NDArray[np.uint8]]


class _Walk(NamedTuple):
    """What is known of a part: tokens that may come, and those that a longer stack has to tell."""

    mask: Mask
    rest: _Part | None


class Masks:
    """Makes masks of one automaton's states, and keeps them.

    Of most tokens a stack's upper frames tell whether they may come, and many states have those in
    common (each text in an object is followed by another key). Only for the rest more is looked at.
    """

    def __init__(self, automaton: Automaton, states: States, vocabulary: Vocabulary) -> None:
        self._automaton = automaton
        self._states = states
        self._vocabulary = vocabulary
        self._class_of = np.frombuffer(automaton.classes, np.uint8)
        self._parts = [self._part(trie) for trie in vocabulary.tries]
        self._size = -(-vocabulary.size // 32) * 4
        # By the state with stacks cut; None where more of them is needed.
        self._walks: dict[tuple[_Part, State], _Walk | None] = {}
        self._made: dict[tuple[State, ...], Kept] = {}
        self._nodes = 0  # of parts that are kept

    def of(self, state: State) -> Kept:
        """The mask of a state. Raises InputError ``constraint.ambiguous``,
        ``constraint.too_large``."""
        self._states.go_on()
        masks: list[Mask] = []
        key = tuple(self._followed(part, state, masks) for part in self._parts)
        kept = self._made.get(key)
        if kept is None:
            kept = self._made[key] = self._joined(self.is_free(state), masks)
        return kept

    def is_free(self, state: State) -> bool:
        """Whether free text may go on."""
        return bool(state.pairs) and state.pairs[0][0] < self._automaton.free

    @property
    def full(self) -> bool:
        """Whether so much is kept that it should be forgotten."""
        count = len(self._walks) + len(self._made)
        return count * (self._size + _BYTES_OF_STATE) + self._nodes * _BYTES_OF_NODE > _MAX_KEPT

    def clear(self) -> None:
        """Forget what is there."""
        self._walks, self._made, self._nodes = {}, {}, 0

    def _part(self, trie: Trie) -> _Part:
        return _Part(trie, [self._class_of[level.bytes] for level in trie.levels])

    def _joined(self, free: bool, parts: list[Mask]) -> Kept:
        mask = _packed(self._vocabulary.silent, self._size) if free else parts[0].copy()
        for part in parts:
            mask |= part
        mask.flags.writeable = False
        bits = np.unpackbits(mask.view(np.uint8)) if free else np.zeros(1, np.uint8)
        return Kept(mask, int(np.count_nonzero(bits)) == self._vocabulary.size)

    def _followed(self, part: _Part, state: State, masks: list[Mask]) -> State:
        """Adds masks that together are that of a part; returns as much of the state as matters."""
        depth = 1
        while True:
            cut = self._states.cut(state, depth, part.trie.longest)
            key = (part, cut)
            if key not in self._walks:
                self._walks[key] = self._walked(part, cut)
            walk = self._walks[key]
            if walk is not None:
                masks.append(walk.mask)
                if walk.rest is None:
                    return cut
                part = walk.rest
            depth *= 2

    def _walked(self, part: _Part, start: State) -> _Walk | None:
        """Where the bytes of all tokens lead, level by level; None where too many lead below the
        stack."""
        bits = np.zeros(self._vocabulary.size, bool)
        rows: Rows = np.array([self._states.row_of(start)], np.int64)
        above: Level | None = None
        hidden: dict[int, Indices] = {}
        for number, level in enumerate(part.trie.levels):
            alive = np.flatnonzero(rows)
            if not len(alive):
                break
            classes = part.classes[number]
            if above is None or len(alive) * _FEW > len(rows):
                rows = self._led(rows.take(level.parents) + classes)
            else:
                nodes = below(above, alive)
                led = self._led(rows.take(level.parents[nodes]) + classes[nodes])
                rows = np.zeros(len(classes), np.int64)
                rows[nodes] = led
            if len(rows) and rows.min() == BELOW:
                hidden[number] = np.flatnonzero(rows == BELOW)
                if len(hidden[number]) * _MANY > len(alive) + len(rows) // _MANY:
                    return None
                rows[hidden[number]] = 0
            bits[level.tokens] = rows.take(level.nodes) > 0
            above = level
        rest = self._part(rest_of(part.trie, hidden)) if hidden else None
        self._nodes += rest.trie.size if rest else 0
        return _Walk(_packed(bits, self._size), rest)

    def _led(self, places: Rows) -> Rows:
        """What stands in these places of the table: rows, NOWHERE or BELOW."""
        states = self._states
        led = states.table.take(places)
        if not len(led) or led.min() >= 0:
            return led
        for place in np.unique(places[led == UNASKED]).tolist():
            states.ask(place)
        return states.table.take(places)


def _packed(bits: npt.NDArray[np.bool_], size: int) -> Mask:
    """Bits as words, of so many bytes."""
    packed = np.zeros(size, np.uint8)
    packed[: -(-len(bits) // 8)] = np.packbits(bits, bitorder="little")
    return packed.view(np.dtype("<u4"))
