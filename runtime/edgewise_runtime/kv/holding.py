"""What a sequence holds of KV memory."""

from __future__ import annotations

from dataclasses import dataclass, field

from edgewise_runtime.kv.keys import KeyChain


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
        keys: of its first pages, those that are full and known to the index.
        found: how many of its first tokens were there when it began.
        written: how many of its tokens are in the pages, as far as has been said.
    """

    chain: KeyChain
    pages: list[int] = field(default_factory=list)
    keys: list[bytes] = field(default_factory=list)
    found: Found = Found()
    written: int = 0
