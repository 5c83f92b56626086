"""What an answer must follow, as the engine asks for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import numpy as np
import numpy.typing as npt

from edgewise_runtime.errors import EdgewiseError, EngineError, InputError
from edgewise_runtime.format.abi import MASK_BITS

Mask = npt.NDArray[np.uint32]
"""A bit for each token, [words]: bit t % 32 of word t // 32."""

_UNKNOWN: Mask = np.zeros(0, np.uint32)


class Constraint(Protocol):
    """Says which tokens may come next, to any thread. A state is a number, and stays what it is."""

    @property
    def start(self) -> int:
        """The state before an answer."""
        ...

    def mask(self, state: int) -> Mask:
        """The tokens that may come. Not to be changed."""
        ...

    def advance(self, state: int, token: int) -> int | None:
        """The state after a token; None where it may not come."""
        ...

    def may_end(self, state: int) -> bool:
        """Whether an answer may end here: end tokens may come then."""
        ...

    def must_end(self, state: int) -> bool:
        """Whether an answer may end here, and nothing may follow."""
        ...

    def free(self, state: int) -> bool:
        """Whether no mask is needed."""
        ...

    def forced_tokens(self, state: int) -> tuple[int, ...]:
        """The tokens that must come next, as far as that is certain."""
        ...


@contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except EdgewiseError:
        raise
    except Exception as error:
        raise EngineError(
            f"What the answer has to follow has failed with {type(error).__name__}: {error}.",
            remedy="Ask for something simpler, and please report this.",
            code="engine.constraint",
        ) from error


class Guide:
    """Where one answer stands in its constraint.

    Whatever the constraint raises becomes an `EdgewiseError`: EngineError ``engine.constraint``, if
    it is none.

    Attributes:
        due: tokens that have to be drawn next, see `draw`.
    """

    def __init__(self, constraint: Constraint, begun: Iterable[int] = ()) -> None:
        """Begin with tokens of an answer that goes on.

        Raises InputError ``input.begun`` where they do not follow the constraint.
        """
        self._constraint = constraint
        self._state = constraint.start
        self.due: tuple[int, ...] = ()
        self._last: Mask | None = _UNKNOWN
        self._run = 0  # tokens drawn in a row under it
        self._usual: Mask | None = _UNKNOWN
        self._usual_run = 0
        for token in begun:
            if not self.follow(token):
                raise InputError(
                    "The answer that is to go on is not one of what is asked for now.",
                    remedy="Ask for what was asked for then, or begin anew.",
                    code="input.begun",
                )

    def follow(self, token: int) -> bool:
        """Take a token; False where it may not come."""
        if self.due:
            due, self.due = self.due[0], self.due[1:]
            if token != due:
                return False
        with _explained():
            after = self._constraint.advance(self._state, token)
        if after is None:
            return False
        self._state = after
        return True

    @property
    def ended(self) -> bool:
        """Whether nothing may follow."""
        with _explained():
            return self._constraint.must_end(self._state)

    @property
    def forced(self) -> tuple[int, ...]:
        """The tokens that must come next."""
        with _explained():
            return self._constraint.forced_tokens(self._state)

    def draw(self, forced: tuple[int, ...]) -> None:
        """Let tokens that must come next be drawn, one after the other, as those and no others that
        the constraint might take in their place."""
        self.due = forced

    @property
    def free(self) -> bool:
        """Whether any token may come next."""
        if self.due:
            return False
        with _explained():
            return self._constraint.free(self._state)

    def allowed(self, draft: Sequence[int]) -> int:
        """How many tokens of a draft may come, one after the other.

        None where tokens must come after them, which are taken before anything is drawn there.
        """
        if self.due:
            return 0
        at = self._state
        with _explained():
            for count, token in enumerate(draft):
                after = self._constraint.advance(at, token)
                if after is None or self._constraint.forced_tokens(after):
                    return count
                at = after
        return len(draft)

    def masks(
        self, words: int, ends: Iterable[int], draft: Sequence[int] = (), *, short: bool = False
    ) -> list[Mask | None]:
        """The tokens that may come next, and after each token of a draft; None where all may.

        A mask that is the same as the last one is the same array.

        Args:
            words: of a mask.
            ends: tokens that end an answer, where it may end.
            draft: tokens that may come, one after the other.
            short: the answer is to go on as long as it can.

        Raises InputError ``constraint.stuck`` where none may come.
        """
        if self.due:
            return [_only(self.due[0], words)]
        with _explained():
            state: int | None = self._state
            found = [self._mask(self._state, words, ends, short)]
            if found[0] is self._last:
                self._run += 1
            else:
                self._leave(found[0])
            for token in draft:
                state = None if state is None else self._constraint.advance(state, token)
                found.append(None if state is None else self._mask(state, words, ends, short))
        return found

    def goes_on(self, ends: Iterable[int]) -> bool:
        """Whether the next token is one to be drawn under the last mask again: what may come is the
        same, and nothing must come.

        Args:
            ends: as of the last masks, which were not of a `short` answer.
        """
        if self._is_steady(ends):
            self._run += 1
            return True
        self._leave(_UNKNOWN)
        return False

    @property
    def steady(self) -> int:
        """For how many tokens the mask is likely to stay as it is: as many as it has, or had when
        it was there before."""
        return max(self._run, self._usual_run if self._last is self._usual else 0)

    def _leave(self, to: Mask | None) -> None:
        last, run = self._last, self._run
        if last is self._usual or (last is not None and run > self._usual_run):
            self._usual, self._usual_run = last, run
        self._last, self._run = to, 0

    def _is_steady(self, ends: Iterable[int]) -> bool:
        if self.due:
            return False
        with _explained():
            if self._constraint.forced_tokens(self._state):
                return False
            if self._last is None:
                return self._constraint.free(self._state)
            return self._mask(self._state, len(self._last), ends, short=False) is self._last

    def _mask(self, state: int, words: int, ends: Iterable[int], short: bool) -> Mask | None:
        constraint = self._constraint
        if constraint.free(state) or constraint.must_end(state):
            return None  # after the end nobody looks at what is drawn
        mask = np.zeros(words, np.uint32)
        given = constraint.mask(state)[:words]
        mask[: len(given)] = given
        if constraint.may_end(state) and not (short and mask.any()):
            for token in ends:
                mask[token // MASK_BITS] |= np.uint32(1 << token % MASK_BITS)
        if not mask.any():
            raise InputError(
                "No token of this model can go on with an answer that is as asked for.",
                remedy="Ask for what the model's tokens can spell.",
                code="constraint.stuck",
            )
        for known in (self._last, self._usual):
            if known is not None and np.array_equal(mask, known):
                return known
        return mask


def _only(token: int, words: int) -> Mask:
    mask = np.zeros(words, np.uint32)
    mask[token // MASK_BITS] = 1 << token % MASK_BITS
    return mask
