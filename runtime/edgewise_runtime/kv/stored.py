"""A page as a store keeps it: what it holds, then its state; and how pages get there and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from edgewise_runtime.kv.spill import PageStore

_IDS = np.dtype("<u4")


def stored_bytes(page_tokens: int, page_bytes: int) -> int:
    """Bytes of a full page as it is stored: how many of its tokens are exact, its token ids, and
    its state."""
    return (1 + page_tokens) * _IDS.itemsize + page_bytes


def pack(tokens: Sequence[int], exact: int, state: bytes) -> bytes:
    """What to store of a full page whose first `exact` tokens prefill has written."""
    return np.array([exact, *tokens], _IDS).tobytes() + state


def unpack(data: bytes, tokens: Sequence[int], page_bytes: int) -> tuple[int, bytes] | None:
    """How many tokens of a page are exact, and its state; None where it is not that of `tokens`."""
    if len(data) != stored_bytes(len(tokens), page_bytes):
        return None
    exact, *ids = np.frombuffer(data, _IDS, count=1 + len(tokens)).tolist()
    if ids != list(tokens) or exact > len(tokens):
        return None
    return exact, data[len(data) - page_bytes :]


class PageMover(Protocol):
    """What can move pages about: a `LoadedProgram`."""

    @property
    def page_bytes(self) -> int: ...

    def copy_page(self, source: int, target: int) -> None: ...

    def read_page(self, page: int) -> bytes: ...

    def write_page(self, page: int, data: bytes) -> None: ...


@dataclass(frozen=True, slots=True)
class Spill:
    """Takes pages of a program to a store and back.

    Attributes:
        mover: whose pages they are.
        store: where they go.
        finite: whether all numbers of a page are finite: others are not stored.
        moved: hears how many pages were stored and restored.
    """

    mover: PageMover
    store: PageStore
    finite: Callable[[bytes], bool]
    moved: Callable[[int, int], None]

    def room(self, page_tokens: int) -> int:
        """How many pages the store holds."""
        return self.store.limit // stored_bytes(page_tokens, self.mover.page_bytes)

    def keep(
        self, key: bytes, page: int, tokens: Sequence[int], exact: int, *, wait: bool = False
    ) -> bool:
        """Store a full page, if it is not there already; whether it was read for that.

        Args:
            wait: as for `PageStore.put`.
        """
        if self.store.touch(key):
            return False
        state = self.mover.read_page(page)
        if self.finite(state):
            self.store.put(key, pack(tokens, exact, state), wait=wait)
            self.moved(1, 0)
        return True

    def find(self, key: bytes, tokens: Sequence[int]) -> tuple[int, bytes] | None:
        """Of a page how many tokens are exact, and its state; None where it is not there."""
        data = self.store.get(key)
        return None if data is None else unpack(data, tokens, self.mover.page_bytes)

    def restore(self, state: bytes, page: int) -> None:
        """Write what was found to a page."""
        self.mover.write_page(page, state)
        self.moved(0, 1)


class PageSource(Protocol):
    """Bytes of pages by their keys, which nobody here has written."""

    def get(self, key: bytes) -> bytes | None: ...

    def __contains__(self, key: bytes) -> bool: ...


@dataclass(frozen=True, slots=True)
class Shipped:
    """Brings pages to a program that came with its bundle.

    Attributes:
        mover: whose pages they become.
        pages: what there is.
    """

    mover: PageMover
    pages: PageSource

    def find(self, key: bytes, tokens: Sequence[int]) -> tuple[int, bytes] | None:
        """As `Spill.find`."""
        data = self.pages.get(key)
        return None if data is None else unpack(data, tokens, self.mover.page_bytes)

    def restore(self, state: bytes, page: int) -> None:
        """As `Spill.restore`."""
        self.mover.write_page(page, state)
