"""What a sequence holds of KV memory."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Found:
    """Tokens that need not be computed, by where they were.

    `exact` is how many of them, from the first, prefill has written.
    """

    device: int = 0
    restored: int = 0
    exact: int = 0

    @property
    def total(self) -> int:
        return self.device + self.restored


@dataclass(slots=True, eq=False)
class Holding:
    """The pages of one sequence, in order.

    Attributes:
        root: the key before its first page.
        pages: where they are.
        keys: of its first pages, those that are full and known to the index.
        found: how many of its first tokens were there when it began.
    """

    root: bytes
    pages: list[int] = field(default_factory=list)
    keys: list[bytes] = field(default_factory=list)
    found: Found = Found()
