"""Where an answer is in what it must follow."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np

from edgewise_runtime.engine.constraint import Constraint, Mask
from edgewise_runtime.errors import EngineError
from edgewise_runtime.format.abi import MASK_BITS


class Following:
    """An answer's place in its constraint.

    Attributes:
        allowed: the tokens that may come next, with those that end the answer where it may end;
            None where all may.
    """

    def __init__(self, constraint: Constraint, ends: Collection[int]) -> None:
        """Begin at the start. Raises what `go` does."""
        self._constraint = constraint
        self._ends = ends
        self._state = constraint.start
        self.allowed: Mask | None = None
        self._look()

    @property
    def done(self) -> bool:
        """Whether nothing may follow."""
        return self._constraint.must_end(self._state)

    def go(self, tokens: Iterable[int]) -> None:
        """Take the tokens that have come.

        Raises EngineError ``engine.constraint`` for one that may not come, and where none may;
        and what `Constraint.mask` does.
        """
        for token in tokens:
            after = self._constraint.advance(self._state, token)
            if after is None:
                raise EngineError(
                    f"The token {token} has come, and what the answer must follow has no place for "
                    "it.",
                    remedy="Please report this.",
                    code="engine.constraint",
                )
            self._state = after
        self._look()

    def _look(self) -> None:
        constraint, state = self._constraint, self._state
        if constraint.must_end(state) or constraint.free(state):
            self.allowed = None
            return
        mask = constraint.mask(state)
        if constraint.may_end(state):
            mask = mask.copy()
            for token in self._ends:
                mask[token // MASK_BITS] |= np.uint32(1 << token % MASK_BITS)
        elif not mask.any():
            raise EngineError(
                "No token of the model goes on with what the answer must follow.",
                remedy="Ask for another format, or use a model that can write all characters.",
                code="engine.constraint",
            )
        self.allowed = mask
