"""What an answer must follow, as the engine asks it."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.uint32]
"""A bit for each token, bit t % 32 of word t // 32: whether it may come."""


class Constraint(Protocol):
    """A text's grammar over tokens. States are numbers, and stay what they are; any thread asks.

    Attributes:
        start: the state before the first token.
    """

    @property
    def start(self) -> int: ...

    def mask(self, state: int) -> Mask:
        """The tokens that may come, those that end an answer left out. Not to be changed.

        Raises EdgewiseError where that cannot be found in bounded time and memory.
        """

    def advance(self, state: int, token: int) -> int | None:
        """The state after a token; None where it may not come."""

    def may_end(self, state: int) -> bool:
        """Whether the answer may end here."""

    def must_end(self, state: int) -> bool:
        """Whether it may, and nothing may follow."""

    def free(self, state: int) -> bool:
        """Whether every token may come, and every end."""

    def forced_tokens(self, state: int) -> tuple[int, ...]:
        """The tokens that must come next, as far as they are known."""
