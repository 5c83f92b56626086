"""Masks of states: which tokens of a vocabulary may come, kept by as much of a state as matters."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from edgewise_runtime.errors import InputError
from edgewise_runtime.grammar.automaton import Automaton
from edgewise_runtime.grammar.states import BELOW, UNASKED, Rows, State, States
from edgewise_runtime.grammar.vocabulary import Level, Trie, Vocabulary

Mask = npt.NDArray[np.uint32]

_FIRST_DEPTH = 8
"""Frames of stacks that a mask is looked up by first."""
_MAX_WORK = 1 << 20
"""Pairs looked at for one mask: about two seconds."""
_MAX_KEPT = 64 << 20
"""Bytes of masks that are kept."""
_BYTES_OF_STATE = 1000
"""About, of a state that a mask is kept by."""
_FEW = 8
"""Where not one node in so many may come, those below the others are not looked at."""


class Kept(NamedTuple):
    """A mask, and whether every token is in it."""

    mask: Mask
    whole: bool


class Masks:
    """Makes masks of one automaton's states, and keeps them."""

    def __init__(self, automaton: Automaton, states: States, vocabulary: Vocabulary) -> None:
        self._automaton = automaton
        self._states = states
        self._vocabulary = vocabulary
        classes = np.frombuffer(automaton.classes, np.uint8)
        self._classes = [[classes[level.bytes] for level in t.levels] for t in vocabulary.tries]
        self._size = -(-vocabulary.size // 32) * 4
        # Of each trie by the state with stacks cut; None where more of them is needed.
        self._parts: dict[tuple[int, State], Mask | None] = {}
        self._made: dict[tuple[State, ...], Kept] = {}

    def of(self, state: State) -> Kept:
        """The mask of a state. Raises InputError ``constraint.ambiguous``,
        ``constraint.too_large``."""
        self._states.visits = 0
        parts = [self._part(number, state) for number in range(len(self._classes))]
        key = tuple(cut for cut, _ in parts)
        kept = self._made.get(key)
        if kept is None:
            kept = self._made[key] = self._joined(self.is_free(state), [mask for _, mask in parts])
        return kept

    def is_free(self, state: State) -> bool:
        """Whether free text may go on."""
        return bool(state.pairs) and state.pairs[0][0] < self._automaton.free

    @property
    def full(self) -> bool:
        """Whether so much is kept that it should be forgotten."""
        count = len(self._parts) + len(self._made)
        return count * (self._size + _BYTES_OF_STATE) > _MAX_KEPT

    def clear(self) -> None:
        """Forget what is there."""
        self._parts, self._made = {}, {}

    def _joined(self, free: bool, parts: list[Mask]) -> Kept:
        mask = _packed(self._vocabulary.silent, self._size) if free else parts[0].copy()
        for part in parts:
            mask |= part
        mask.flags.writeable = False
        bits = np.unpackbits(mask.view(np.uint8)) if free else np.zeros(1, np.uint8)
        return Kept(mask, int(np.count_nonzero(bits)) == self._vocabulary.size)

    def _part(self, number: int, state: State) -> tuple[State, Mask]:
        """The mask of one trie's tokens, and the state with its stacks cut that it is kept by."""
        trie = self._vocabulary.tries[number]
        depth = _FIRST_DEPTH
        while True:
            cut = self._states.cut(state, depth, trie.longest)
            key = (number, cut)
            if key not in self._parts:
                self._parts[key] = self._walked(trie, self._classes[number], cut)
            mask = self._parts[key]
            if mask is not None:
                return cut, mask
            depth *= 2

    def _walked(
        self, trie: Trie, classes: list[npt.NDArray[np.uint8]], start: State
    ) -> Mask | None:
        """Where the bytes of all tokens lead, level by level; None where the stack is too short."""
        bits = np.zeros(self._vocabulary.size, bool)
        rows: Rows = np.array([self._states.row_of(start)], np.int64)
        above: Level | None = None
        for level, level_classes in zip(trie.levels, classes, strict=True):
            alive = np.flatnonzero(rows)
            if not len(alive):
                break
            nodes = None if above is None else _below(above, alive)
            if nodes is None:
                led = self._led(rows.take(level.parents) + level_classes)
            else:
                led = self._led(rows.take(level.parents[nodes]) + level_classes[nodes])
            if led is None:
                return None
            if nodes is None:
                rows = led
            else:
                rows = np.zeros(len(level.bytes), np.int64)
                rows[nodes] = led
            bits[level.tokens] = rows.take(level.nodes) > 0
            above = level
        return _packed(bits, self._size)

    def _led(self, places: Rows) -> Rows | None:
        """What stands in these places of the table; None where a stack is too short to tell."""
        states = self._states
        led = states.table.take(places)
        if not len(led) or led.min() >= 0:
            return led
        for place in np.unique(places[led == UNASKED]).tolist():
            states.ask(place)
            if states.visits > _MAX_WORK:
                raise InputError(
                    f"It takes more than {_MAX_WORK:,} steps to find the tokens that may come.",
                    remedy="Write the grammar so that what comes tells alternatives apart.",
                    code="constraint.ambiguous",
                )
        led = states.table.take(places)
        return None if led.min() == BELOW else led


def _below(level: Level, nodes: npt.NDArray[np.intp]) -> npt.NDArray[np.intp] | None:
    """The nodes of the next level that are below some of a level; None where those are many."""
    if len(nodes) * _FEW > len(level.bytes):
        return None
    counts = level.count[nodes]
    first = level.first[nodes] - (np.cumsum(counts) - counts)
    return np.repeat(first, counts) + np.arange(counts.sum())


def _packed(bits: npt.NDArray[np.bool_], size: int) -> Mask:
    """Bits as words, of so many bytes."""
    packed = np.zeros(size, np.uint8)
    packed[: -(-len(bits) // 8)] = np.packbits(bits, bitorder="little")
    return packed.view(np.dtype("<u4"))
