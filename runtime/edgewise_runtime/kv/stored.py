"""A page as a store keeps it: what it holds, then its state; and how pages get there and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from edgewise_runtime.format.state import group_key
from edgewise_runtime.kv.spill import PageStore
from edgewise_runtime.kv.stock import Known

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


class PageSource(Protocol):
    """Bytes of pages by their keys, which nobody here has written."""

    def get(self, key: bytes) -> bytes | None: ...

    def __contains__(self, key: bytes) -> bool: ...


@dataclass(frozen=True, slots=True)
class Brought:
    """What there is of a page elsewhere.

    Attributes:
        exact: how many of its tokens prefill has written.
        state: its bytes.
        shipped: whether they came with the bundle, and not from the store.
    """

    exact: int
    state: bytes
    shipped: bool


def as_it_is(group: int, state: bytes) -> bytes | None:
    """All bytes of a page, whatever they are."""
    return state


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Where pages of a program are that are not on its device, and how they get there and back.

    Attributes:
        mover: whose pages they are.
        store: where they go that have to leave; None for nowhere.
        shipped: those that came with the bundle; None for none.
        own: what of a page's bytes is a group's, of the same length; None where that is of no use:
            it is not stored.
        moved: hears how many pages were stored and restored.
    """

    mover: PageMover
    store: PageStore | None = None
    shipped: PageSource | None = None
    own: Callable[[int, bytes], bytes | None] = as_it_is
    moved: Callable[[int, int], None] = lambda spilled, restored: None

    @property
    def any(self) -> bool:
        """Whether pages can be anywhere but on the device."""
        return self.store is not None or self.shipped is not None

    def room(self, page_tokens: int) -> int:
        """How many pages the store holds."""
        if self.store is None:
            return 0
        return self.store.limit // stored_bytes(page_tokens, self.mover.page_bytes)

    def keep(self, known: Known, *, wait: bool = False) -> bool:
        """Store a full page, if there is where and it is not there already, nor with the bundle;
        whether it was read for that.

        Args:
            wait: as for `PageStore.put`.
        """
        key = group_key(known.key, known.group)
        if self.store is None or (self.shipped is not None and key in self.shipped):
            return False
        if self.store.touch(key):
            return False
        page = self.read(known)
        if page is not None:
            self.store.put(key, page, wait=wait)
            self.moved(1, 0)
        return True

    def read(self, known: Known) -> bytes | None:
        """What to store of a full page; None where it is of no use."""
        state = self.own(known.group, self.mover.read_page(known.page))
        return None if state is None else pack(known.tokens, known.exact, state)

    def has(self, group: int, key: bytes) -> bool:
        """Whether a page seems to be there; `find` may still find it gone."""
        name = group_key(key, group)
        shipped = self.shipped is not None and name in self.shipped
        return shipped or (self.store is not None and name in self.store)

    def find(self, group: int, key: bytes, tokens: Sequence[int], least: int) -> Brought | None:
        """What there is of a page of which so many tokens are exact at least; None for nothing.

        It is looked for in the bundle before the store.
        """
        name = group_key(key, group)
        for source in (self.shipped, self.store):
            data = None if source is None else source.get(name)
            found = None if data is None else unpack(data, tokens, self.mover.page_bytes)
            if found is not None and found[0] >= least:
                return Brought(*found, shipped=source is self.shipped)
        return None

    def restore(self, found: Brought, page: int) -> None:
        """Write what was found to a page."""
        self.mover.write_page(page, found.state)
        if not found.shipped:
            self.moved(0, 1)
