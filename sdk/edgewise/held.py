"""Answers held to a grammar, and thoughts to a number of tokens: what an engine asks at each token.

States are numbers that stay what they are, as a matcher's do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock

import numpy as np

from edgewise_runtime.engine.constraint import Mask
from edgewise_runtime.grammar.matcher import Matcher
from edgewise_runtime.grammar.vocabulary import Vocabulary

Encode = Callable[[str], Sequence[int]]
"""Returns the tokens of a text that goes on one."""
_MOST_FORCED = 256
"""Bytes looked ahead for what must come."""
_FEW = 2
"""Characters that are worth it."""
_MOST_KEPT = 1 << 14
"""States whose forced tokens are kept."""


class Held:
    """An answer that follows a grammar; any number of requests share it."""

    def __init__(self, matcher: Matcher, encode: Encode) -> None:
        self._matcher = matcher
        self._encode = encode
        self._forced: dict[int, tuple[int, ...]] = {}
        self.start = matcher.start
        self.mask = matcher.mask
        self.advance = matcher.advance
        self.advance_bytes = matcher.advance_bytes
        self.may_end = matcher.may_end
        self.must_end = matcher.must_end
        self.free = matcher.free
        self.forced = matcher.forced

    def forced_tokens(self, state: int) -> tuple[int, ...]:
        """The tokens that must come; where a choice follows them without the last one, since it may
        be spelled together with what is chosen."""
        found = self._forced.get(state)
        if found is None:
            if len(self._forced) == _MOST_KEPT:
                self._forced = {}
            found = self._forced[state] = self._tokens(state)
        return found

    def _tokens(self, state: int) -> tuple[int, ...]:
        data = self._matcher.forced(state, _MOST_FORCED)
        # A character of which only a part must come is left to what comes.
        text = data.decode(errors="ignore")
        if len(text) < _FEW or text.encode() != data[: len(text.encode())]:
            return ()
        found = tuple(self._encode(text))
        for token in found:
            after = self._matcher.advance(state, token)
            if after is None:
                return ()
            state = after
        return found if self._matcher.must_end(state) else found[:-1]


class Free:
    """An answer that follows nothing."""

    start = 0

    def __init__(self, size: int) -> None:
        """`size`: tokens of the vocabulary."""
        self._mask: Mask = np.full(-(-size // 32), 0xFFFFFFFF, np.uint32)
        self._mask.flags.writeable = False

    def mask(self, state: int) -> Mask:
        del state
        return self._mask

    def advance(self, state: int, token: int) -> int | None:
        del token
        return state

    def advance_bytes(self, state: int, data: bytes) -> int | None:
        del data
        return state

    def may_end(self, state: int) -> bool:
        del state
        return True

    def must_end(self, state: int) -> bool:
        del state
        return False

    def free(self, state: int) -> bool:
        del state
        return True

    def forced(self, state: int, most: int) -> bytes:
        del state, most
        return b""

    def forced_tokens(self, state: int) -> tuple[int, ...]:
        del state
        return ()


class Thoughtful:
    """An answer whose thought is watched: it has so many tokens at most, after which its end is
    written, or what the answer follows begins only behind it.

    A state is where the inner constraint is, whether that is before a thought, in one, in its end
    or after it, what may be the beginning of a mark, and how many tokens of that there are.
    """

    def __init__(
        self,
        inner: Held | Free,
        vocabulary: Vocabulary,
        *,
        marks: tuple[bytes, bytes],
        opened: bool,
        closing: Sequence[int] = (),
        budget: int | None = None,
        apart: bool = False,
    ) -> None:
        """Watch a thought.

        Args:
            inner: what the answer follows.
            marks: what begins a thought, and what ends it.
            opened: the thought has begun in the prompt.
            closing: tokens that end a thought, the mark and what stands around it.
            budget: tokens that it may have; None for any number.
            apart: what the answer follows does not know of the thought, and begins behind it.
        """
        self._inner = inner
        self._vocabulary = vocabulary
        self._open, self._close = marks
        self._budget = budget
        self._apart = apart
        self._closing = tuple(closing)
        self._lock = Lock()
        self._numbers: dict[_Place, int] = {}
        self._places: list[_Place] = []
        self._single: dict[int, Mask] = {}
        begun = ("thought" if opened else "before", b"", 0)
        self.start = self._number((inner.start, *begun))

    def mask(self, state: int) -> Mask:
        """The tokens that may come; where the thought is closed only the next one of that."""
        inner, _, _, _ = self._places[state]
        left = self._due(state)
        return self._only(left[0]) if left else self._inner.mask(inner)

    def advance(self, state: int, token: int) -> int | None:
        """The state after a token; None where it may not come."""
        inner, phase, seen, count = self._places[state]
        left = self._due(state)
        if left and token != left[0]:
            return None
        apart = self._apart and phase in ("thought", "closing")
        after = inner if apart else self._inner.advance(inner, token)
        if after is None or phase == "after":
            return None if after is None else self._number((after, "after", b"", 0))
        if left:
            written = len(self._closing) - len(left) + 1
            done = written == len(self._closing)
            place = (after, "after", b"", 0) if done else (after, "closing", b"", written)
            return self._number(place)
        text = seen + (self._vocabulary.bytes_of(token) or b"")
        reached = self._read(phase, text, count)
        if apart and reached[0] == "after":
            after = self._inner.advance_bytes(after, text.partition(self._close)[2].lstrip())
        return None if after is None else self._number((after, *reached))

    def may_end(self, state: int) -> bool:
        """Whether the answer may end here."""
        return not self._due(state) and self._inner.may_end(self._places[state][0])

    def must_end(self, state: int) -> bool:
        """Whether nothing may follow."""
        return not self._due(state) and self._inner.must_end(self._places[state][0])

    def free(self, state: int) -> bool:
        """Whether no mask is needed."""
        return not self._due(state) and self._inner.free(self._places[state][0])

    def forced(self, state: int, most: int) -> bytes:
        """The bytes that must come."""
        left = self._due(state)
        if left:
            return b"".join(self._vocabulary.bytes_of(token) or b"" for token in left)[:most]
        return self._inner.forced(self._places[state][0], most)

    def forced_tokens(self, state: int) -> tuple[int, ...]:
        """The tokens that must come."""
        return self._due(state) or self._inner.forced_tokens(self._places[state][0])

    def _due(self, state: int) -> tuple[int, ...]:
        """What is left to be written of the end of a thought that is too long."""
        inner, phase, _, count = self._places[state]
        if phase == "closing":
            return self._closing[count:]
        if phase != "thought" or self._budget is None or count < self._budget:
            return ()
        if self._apart:
            return self._closing
        # Not inside a character, which has some tokens more.
        return self._closing if self._inner.advance(inner, self._closing[0]) is not None else ()

    def _read(self, phase: str, text: bytes, count: int) -> tuple[str, bytes, int]:
        """Where text leads that is thought, or may become a thought."""
        if phase == "before":
            text = text.lstrip()
            if not text.startswith(self._open):
                return ("before", text, 0) if self._open.startswith(text) else ("after", b"", 0)
            phase, text, count = "thought", text[len(self._open) :], -1
        if self._close in text:
            return "after", b"", 0
        return phase, text[-len(self._close) + 1 :], count + 1

    def _only(self, token: int) -> Mask:
        if token not in self._single:
            bits = np.zeros(-(-self._vocabulary.size // 32), np.uint32)
            bits[token // 32] = 1 << token % 32
            bits.flags.writeable = False
            self._single[token] = bits
        return self._single[token]

    def _number(self, place: _Place) -> int:
        with self._lock:
            number = self._numbers.get(place)
            if number is None:
                number = self._numbers[place] = len(self._places)
                self._places.append(place)
            return number


_Place = tuple[int, str, bytes, int]
