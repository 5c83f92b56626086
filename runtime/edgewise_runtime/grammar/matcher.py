"""Which tokens may come next in texts of a grammar, exactly."""

from __future__ import annotations

from threading import RLock

from edgewise_runtime.errors import InputError
from edgewise_runtime.grammar.automaton import Around, automaton_of
from edgewise_runtime.grammar.masks import Kept, Mask, Masks
from edgewise_runtime.grammar.nodes import Grammar
from edgewise_runtime.grammar.states import State, States
from edgewise_runtime.grammar.vocabulary import Vocabulary

_MAX_STATES = 1 << 17
"""States that can be gone back to, at least, where none has more than 16 pairs."""
_MAX_PAIRS = 1 << 21
"""Pairs of those states."""


class Matcher:
    """A grammar over a vocabulary, for any number of threads.

    A state is a number, and stays what it is: going back is taking an earlier one. Of more than
    131,072 states those are forgotten that were not used since.

    A token may come where its bytes are part of a text of the grammar: what is begun can always be
    ended. Tokens that end an answer are for the caller to add where `may_end`.

    Attributes:
        grammar: what it was made of.
        start: the state before any token.
    """

    def __init__(
        self, grammar: Grammar, vocabulary: Vocabulary, around: Around | None = None
    ) -> None:
        """Match texts of a grammar.

        Args:
            around: see `Triggered`.

        Raises:
            InputError: ``constraint.too_large`` for a grammar beyond bounds; ``input.grammar`` for
                rules that are missing, that no text ends, or that begin with themselves.
        """
        self.grammar = grammar
        self._vocabulary = vocabulary
        self._automaton = automaton_of(grammar, around)
        self._sizes = [
            self._automaton.classes.count(i) for i in range(len(self._automaton.samples))
        ]
        self._states = States(self._automaton)
        self._masks = Masks(self._automaton, self._states, vocabulary)
        self._kept: dict[int, Kept] = {}
        self._numbers: dict[State, int] = {}
        self._recent: dict[int, State] = {}
        self._older: dict[int, State] = {}
        self._pairs = 0  # of recent ones
        self._next = 0
        self._lock = RLock()
        self.start = self._number_of(self._states.start)

    def mask(self, state: int) -> Mask:
        """The tokens that may come: uint32 [words], bit t % 32 of word t // 32. It is kept, and not
        to be changed.

        Raises InputError ``constraint.ambiguous``, ``constraint.too_large``, ``constraint.state``.
        """
        kept = self._kept.get(state)  # without waiting for masks that other threads make
        return (self._kept_of(state) if kept is None else kept).mask

    def advance(self, state: int, token: int) -> int | None:
        """The state after a token; None where it may not come. Raises as `mask`."""
        data = self._vocabulary.bytes_of(token)
        if data:
            return self.advance_bytes(state, data)
        if not 0 <= token < self._vocabulary.size:
            return None
        with self._lock:
            return state if self._masks.is_free(self._state_of(state)) else None

    def advance_bytes(self, state: int, data: bytes) -> int | None:
        """The state after bytes; None where they may not come. Raises as `mask`."""
        with self._lock:
            at: State | None = self._state_of(state)
            self._tidy()
            self._states.go_on()
            for byte in data:
                if at is not None:
                    at = self._states.step(at, self._automaton.classes[byte])
            return None if at is None else self._number_of(at)

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
        end. Raises as `mask`."""
        found = bytearray()
        with self._lock:
            at = self._state_of(state)
            self._tidy()
            while len(found) < most and not at.ends:
                to = [(i, self._states.step(at, i)) for i in range(self._states.width)]
                match [(i, led) for i, led in to if led is not None]:
                    case [(only, led)] if self._sizes[only] == 1:
                        found.append(self._automaton.samples[only])
                        at = led
                    case _:
                        break
        return bytes(found)

    def free(self, state: int) -> bool:
        """Whether no mask is needed, since every token may come. Raises as `mask`."""
        kept = self._kept.get(state)
        if kept is None:
            with self._lock:
                if not self._masks.is_free(self._state_of(state)):
                    return False
            kept = self._kept_of(state)
        return kept.whole

    def _kept_of(self, state: int) -> Kept:
        with self._lock:
            at = self._state_of(state)
            self._tidy()
            kept = self._kept[state] = self._masks.of(at)
            return kept

    def _tidy(self) -> None:
        """Forget what can be found again, where there is much of it."""
        full = self._states.full
        if full or self._masks.full or len(self._kept) > _MAX_STATES:
            self._kept = {}
            self._masks.clear()
        if full:
            self._states.clear()

    def _number_of(self, state: State) -> int:
        known = self._numbers.get(state)
        if known is not None and self._known(known):
            return known
        if len(self._recent) >= _MAX_STATES or self._pairs > _MAX_PAIRS:
            self._older, self._recent, self._pairs = self._recent, {}, 0
            self._recent[self.start] = self._states.start
            self._numbers = {state: number for number, state in self._older.items()}
        number = self._next
        self._next += 1
        self._numbers[state] = number
        self._recent[number] = state
        self._pairs += len(state.pairs)
        return number

    def _known(self, number: int) -> State | None:
        state = self._recent.get(number)
        if state is None and (state := self._older.get(number)) is not None:
            self._recent[number] = state
            self._pairs += len(state.pairs)
        return state

    def _state_of(self, number: int) -> State:
        state = self._known(number)
        if state is None:
            raise InputError(
                f"{number} is no state of this constraint, or one that was forgotten.",
                code="constraint.state",
            )
        return state
