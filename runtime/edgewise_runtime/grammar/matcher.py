"""Which tokens may come next in texts of a grammar, exactly."""

from __future__ import annotations

from threading import RLock

import numpy as np
import numpy.typing as npt

from edgewise_runtime.errors import InputError
from edgewise_runtime.grammar.automaton import automaton_of
from edgewise_runtime.grammar.nodes import Grammar
from edgewise_runtime.grammar.states import BELOW, UNASKED, State, States
from edgewise_runtime.grammar.vocabulary import Vocabulary

Mask = npt.NDArray[np.uint32]

_FIRST_DEPTH = 8
"""Frames of stacks that a mask is looked up by first."""
_MAX_WORK = 1 << 20
"""Pairs looked at for one mask: about two seconds."""
_MAX_MASKS = 64 << 20
"""Bytes of masks that are kept."""
_BYTES_OF_STATE = 1000
"""About, of a state that a mask is kept by."""
_MAX_STATES = 1 << 17
"""States that can be gone back to, at least."""


class Matcher:
    """A grammar over a vocabulary, for any number of threads.

    A state is a number, and stays what it is: going back is taking an earlier one. Of more than
    131,072 states those are forgotten that were not used since.

    A token may come where its bytes are part of a text of the grammar: what is begun can always be
    ended. Tokens that end an answer are for the caller to add where `may_end`.

    Attributes:
        start: the state before any token.
    """

    def __init__(self, grammar: Grammar, vocabulary: Vocabulary) -> None:
        """Raises InputError ``constraint.too_large`` for a grammar beyond bounds; ``input.grammar``
        for rules that are missing, that no text ends, or that begin with themselves."""
        self._vocabulary = vocabulary
        self._automaton = automaton_of(grammar)
        self._states = States(self._automaton)
        self._classes = np.frombuffer(self._automaton.classes, np.uint8)[vocabulary.trie.bytes]
        self._sizes = [self._automaton.classes.count(i) for i in range(len(self._states.table[0]))]
        # By the state with stacks cut; None where more of them is needed.
        self._masks: dict[State, Mask | None] = {}
        self._numbers: dict[State, int] = {}
        self._recent: dict[int, State] = {}
        self._older: dict[int, State] = {}
        self._next = 0
        self._lock = RLock()
        self.start = self._number_of(self._states.start)

    def mask(self, state: int) -> Mask:
        """The tokens that may come: uint32 [words], bit t % 32 of word t // 32. It is kept, and not
        to be changed.

        Raises InputError ``constraint.ambiguous``, ``constraint.too_large``, ``constraint.state``.
        """
        with self._lock:
            whole = self._state_of(state)
            self._tidy()
            self._states.visits = 0
            depth = _FIRST_DEPTH
            while True:
                cut = self._states.cut(whole, depth, self._vocabulary.longest)
                if cut not in self._masks:
                    self._masks[cut] = self._walked(cut)
                mask = self._masks[cut]
                if mask is not None:
                    return mask
                depth *= 2

    def advance(self, state: int, token: int) -> int | None:
        """The state after a token; None where it may not come."""
        data = self._vocabulary.bytes_of(token)
        return self.advance_bytes(state, data) if data else None

    def advance_bytes(self, state: int, data: bytes) -> int | None:
        """The state after bytes; None where they may not come."""
        with self._lock:
            at = self._state_of(state)
            self._tidy()
            states, classes = self._states, self._automaton.classes
            for byte in data:
                row = states.step(at, classes[byte])
                if row < 0:
                    return None
                at = states.rows[row]
            return self._number_of(at)

    def may_end(self, state: int) -> bool:
        """Whether a text may end here."""
        with self._lock:
            return self._state_of(state).ends

    def must_end(self, state: int) -> bool:
        """Whether a text may end here, and nothing may follow."""
        with self._lock:
            at = self._state_of(state)
            return at.ends and not at.pairs

    def forced(self, state: int, most: int) -> bytes:
        """The bytes, `most` of them, that must come: none where there is a choice, or a text may
        end."""
        found = bytearray()
        with self._lock:
            at = self._state_of(state)
            self._tidy()
            while len(found) < most and not at.ends:
                to = [(i, self._states.step(at, i)) for i in range(len(self._sizes))]
                match [(i, row) for i, row in to if row >= 0]:
                    case [(only, row)] if self._sizes[only] == 1:
                        found.append(self._automaton.samples[only])
                        at = self._states.rows[row]
                    case _:
                        break
        return bytes(found)

    def free(self, state: int) -> bool:
        """Whether no mask is needed."""
        del state
        return False

    def _walked(self, start: State) -> Mask | None:
        """The mask of a state; None where its stack is cut too short."""
        trie, states = self._vocabulary.trie, self._states
        alive = np.zeros(len(trie.bytes), bool)
        nodes = np.arange(trie.top)
        rows = np.full(trie.top, states.row_of(start), np.int64)
        while len(nodes):
            classes = self._classes[nodes]
            to = states.table[rows, classes]
            unasked = to == UNASKED
            if unasked.any():
                self._ask(rows[unasked], classes[unasked])
                to = states.table[rows, classes]
            if (to == BELOW).any():
                return None
            kept = to >= 0
            nodes = nodes[kept]
            alive[nodes] = True
            counts = trie.count[nodes]
            rows = np.repeat(to[kept], counts)
            firsts = trie.first[nodes] - (np.cumsum(counts) - counts)
            nodes = np.repeat(firsts, counts) + np.arange(len(rows))
        bits = np.zeros(-(-self._vocabulary.size // 32) * 32, bool)
        bits[self._vocabulary.tokens[alive[self._vocabulary.nodes]]] = True
        mask: Mask = np.packbits(bits, bitorder="little").view(np.dtype("<u4"))
        mask.flags.writeable = False
        return mask

    def _ask(self, rows: npt.NDArray[np.int64], classes: npt.NDArray[np.uint8]) -> None:
        """Find where these lead."""
        states, width = self._states, self._states.table.shape[1]
        for key in np.unique(rows * width + classes).tolist():
            row, byte_class = divmod(key, width)
            states.step(states.rows[row], byte_class)
            if states.visits > _MAX_WORK:
                raise InputError(
                    f"It takes more than {_MAX_WORK:,} steps to find the tokens that may come.",
                    remedy="Write the grammar so that what comes tells alternatives apart.",
                    code="constraint.ambiguous",
                )

    def _tidy(self) -> None:
        """Forget what can be found again, where there is much of it."""
        masks = len(self._masks) * (self._vocabulary.size // 8 + _BYTES_OF_STATE)
        if masks > _MAX_MASKS or self._states.full:
            self._masks = {}
        if self._states.full:
            self._states.clear()

    def _number_of(self, state: State) -> int:
        known = self._numbers.get(state)
        if known is not None and self._known(known):
            return known
        if len(self._recent) >= _MAX_STATES:
            self._older = self._recent
            self._recent = {self.start: self._states.start}
            self._numbers = {state: number for number, state in self._older.items()}
        number = self._next
        self._next += 1
        self._numbers[state] = number
        self._recent[number] = state
        return number

    def _known(self, number: int) -> State | None:
        state = self._recent.get(number)
        if state is None and (state := self._older.get(number)) is not None:
            self._recent[number] = state
        return state

    def _state_of(self, number: int) -> State:
        state = self._known(number)
        if state is None:
            raise InputError(
                f"{number} is no state of this constraint, or one that was forgotten.",
                code="constraint.state",
            )
        return state
