"""All pages of a program: those that are free, those that sequences hold, and those that are kept
for the next ones, of which one goes where room is needed.

Everything here costs what the pages named in a call cost, never what all there are would.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from edgewise_runtime.kv.pages import PagePool


@dataclass(slots=True, eq=False)
class Known:
    """A page of which it is known what it holds.

    Attributes:
        key: what it is called, in every group alike.
        parent: the key of the page before it, or a root key.
        page: where it is.
        tokens: what it holds; fewer than a page has room for are the end of a history.
        exact: how many of them, from the first, prefill has written after nothing but prefill.
        group: the state group whose layers it is of.
        answer: whether nothing of it was asked by anybody.
    """

    key: bytes
    parent: bytes
    page: int
    tokens: tuple[int, ...]
    exact: int
    group: int = 0
    answer: bool = False


K = TypeVar("K", bound=Known)


class Stock(ABC, Generic[K]):
    """Pages, and what is known to be in them. It owns each page it knows, and so does every holder.

    Args:
        pages: how many there are.
        leaving: is told of a page that has to make room, while it is still there; says whether it
            was stored.

    Attributes:
        pool: who owns which page.
        taken: pages that were taken since somebody set it to 0.
    """

    kind: type[K]

    def __init__(self, pages: int, leaving: Callable[[K], bool]) -> None:
        self.pool = PagePool(pages)
        self.taken = 0
        self._leaving = leaving
        self._at: dict[int, K] = {}
        # Pages that were published since the device last answered.
        self._unsettled: set[int] = set()

    @abstractmethod
    def __iter__(self) -> Iterator[K]:
        """All that is known: what is idle, the one to go first first, and then the others."""

    @property
    @abstractmethod
    def idle(self) -> int:
        """Pages that nothing needs, all of which can go."""

    @property
    @abstractmethod
    def unheld(self) -> int:
        """Pages that are known and that no sequence holds."""

    @abstractmethod
    def get(self, group: int, key: bytes) -> K | None:
        """The page of a group that is called so."""

    @abstractmethod
    def oldest(self) -> K | None:
        """The idle page whose turn to go it is."""

    @abstractmethod
    def hold(self, pages: Sequence[int]) -> None:
        """One more sequence holds these pages."""

    @abstractmethod
    def release(self, pages: Sequence[int], *, behind: bool = False) -> None:
        """One sequence less holds these pages of its own, in their order; `behind` its window."""

    @abstractmethod
    def add(self, known: K) -> None:
        """Let others find a page that a sequence holds, under a name that is new."""

    @abstractmethod
    def replace(self, known: K, page: int) -> None:
        """Let others find another page, which a sequence holds, in the place of one."""

    @abstractmethod
    def drop(self, known: K) -> None:
        """Let nobody find a page; those who hold it go on."""

    @abstractmethod
    def touch(self, known: Sequence[K]) -> None:
        """Make pages, in the order of their history, the ones used last."""

    @abstractmethod
    def pin(self, known: K, by: int) -> None:
        """Pin a page so many times more; its pins may have been lost, and are never below 0."""

    @abstractmethod
    def longest(
        self, parent: bytes, tokens: Sequence[int], *, inexact: bool
    ) -> tuple[K, int] | None:
        """The page of the first group after `parent` that begins like `tokens` for longest, and for
        how many tokens.

        Args:
            inexact: whether tokens that decode has written count.
        """

    @property
    def room(self) -> int:
        """Pages that are free or idle, all of which can be taken."""
        return self.pool.free + self.idle

    @property
    def held(self) -> int:
        """Pages that sequences hold; one that several hold counts once."""
        return len(self.pool) - self.pool.free - self.unheld

    def take(self, count: int) -> list[int] | None:
        """Pages nobody else has, older ones making room; None where there is not enough."""
        if count > self.room:
            return None
        while self.pool.free < count:
            self.evict()
        self.taken += max(count, 0)
        return self.pool.allocate(max(count, 0))

    def evict(self) -> bool:
        """Let the page go whose turn it is, if any is idle; whether it was stored."""
        known = self.oldest()
        stored = known is not None and self._leaving(known)
        if known is not None:
            self.drop(known)
        return stored

    def drop_idle(self) -> None:
        """Drop all pages that nobody needs."""
        while (known := self.oldest()) is not None:
            self.drop(known)

    def withdraw(self, pages: Iterable[int]) -> None:
        """Let nobody find these pages."""
        for page in pages:
            if (known := self._at.get(page)) is not None:
                self.drop(known)

    def settle(self) -> None:
        """The device has answered: what was published until now is in its pages."""
        self._unsettled.clear()

    def distrust(self) -> None:
        """Let nobody find pages published since the device last answered."""
        self.withdraw(list(self._unsettled))

    def check(self, held: Iterable[int]) -> list[str]:
        """What is inconsistent where sequences hold these pages, as sentences; empty if sound.

        Args:
            held: the pages of each sequence.
        """
        held = list(held)
        expected = [0] * len(self.pool)
        for page in [*held, *self._at]:
            expected[page] += 1
        wrong = [
            f"Page {page} has {self.pool.owners(page)} owners, not {count}."
            for page, count in enumerate(expected)
            if self.pool.owners(page) != count
        ]
        if self._at != {known.page: known for known in self}:
            wrong.append("Pages are not where is said.")
        if self.held != len(set(held)):
            wrong.append(f"Sequences hold {len(set(held))} pages, not {self.held}.")
        return self.pool.check() + wrong

    def _came(self, known: K) -> None:
        """A page is where it says."""
        self._at[known.page] = known
        self._unsettled.add(known.page)

    def _went(self, known: K) -> None:
        """A page is not there any more."""
        del self._at[known.page]
        self._unsettled.discard(known.page)
