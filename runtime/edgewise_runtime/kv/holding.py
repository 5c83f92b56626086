"""What a sequence holds of KV memory."""

from __future__ import annotations

from dataclasses import dataclass, field

from edgewise_runtime.kv.keys import KeyChain

GONE = -1
"""Instead of a page that was given back."""


@dataclass(frozen=True, slots=True)
class Found:
    """Tokens that need not be computed, by where they were.

    `exact` is how many of them, from the first, prefill has written.
    """

    device: int = 0
    restored: int = 0
    shipped: int = 0
    exact: int = 0

    @property
    def total(self) -> int:
        return self.device + self.restored + self.shipped


@dataclass(slots=True, eq=False)
class Holding:
    """The pages of one sequence, in order.

    Attributes:
        chain: the keys of its full pages.
        pages: where they are.
        beside: those of the other state groups, a list for each, as long as `pages`. Of a group
            with a window, `GONE` stands for those behind it, which are given back.
        keys: of its first pages, those that are full and known to the index.
        found: how many of its first tokens were there when it began.
        written: how many of its tokens are in the pages, as far as has been said.
        asked: how many tokens it had when it began; the others are an answer.
    """

    chain: KeyChain
    pages: list[int] = field(default_factory=list)
    beside: tuple[list[int], ...] = ()
    keys: list[bytes] = field(default_factory=list)
    found: Found = Found()
    written: int = 0
    asked: int = 0

    @property
    def rows(self) -> tuple[list[int], ...]:
        """The pages of every group."""
        return (self.pages, *self.beside)

    @property
    def held(self) -> list[int]:
        """All pages that it has."""
        return [page for row in self.rows for page in row if page != GONE]
