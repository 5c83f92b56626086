"""Pages of several state groups in one pool: who holds which, what is in those that are kept, and
which of these goes first.

A page is kept for itself, not for what follows it: of a group with a window nobody needs what lies
behind it. The one to go is the one used least recently; a page that a sequence has left behind its
window goes before all others, unless it has begun another sequence once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from edgewise_runtime.kv.pages import PagePool
from edgewise_runtime.kv.prefix import MAX_SCANNED, common_length


@dataclass(slots=True, eq=False)
class Kept:
    """A page that is known.

    Attributes:
        group: whose layers it is of.
        key, parent: what it and the page before it are called, in every group alike.
        page: where it is.
        tokens: what it holds; fewer than a page has room for are the end of a history.
        exact: how many of them, from the first, prefill has written after nothing but prefill.
        pins: how often it must not go.
        used: whether another sequence has begun with it.
    """

    group: int
    key: bytes
    parent: bytes
    page: int
    tokens: tuple[int, ...]
    exact: int
    pins: int = 0
    used: bool = False


class Rack:
    """All pages of a program with windows. It owns each page it knows, and so does every holder.

    Attributes:
        pool: who owns which page.
        known: pages by their group and what they are called; they are added and dropped here.
    """

    def __init__(self, pages: int) -> None:
        self.pool = PagePool(pages)
        self.known: dict[tuple[int, bytes], Kept] = {}
        self._at: dict[int, Kept] = {}
        # Of the first group: those that follow a page, by its key, the latest last.
        self._following: dict[bytes, dict[bytes, Kept]] = {}
        # Those that nobody holds, and of these those that are not pinned, the next to go first.
        self._unheld: set[int] = set()
        self._idle: OrderedDict[int, Kept] = OrderedDict()
        self._unsettled: set[int] = set()

    @property
    def unheld(self) -> int:
        """Pages that are kept and that no sequence holds."""
        return len(self._unheld)

    @property
    def idle(self) -> int:
        """Pages of those that can go."""
        return len(self._idle)

    @property
    def room(self) -> int:
        """Pages that are free or idle, all of which can be taken."""
        return self.pool.free + len(self._idle)

    @property
    def held(self) -> int:
        """Pages that sequences hold; one that several hold counts once."""
        return len(self.pool) - self.pool.free - len(self._unheld)

    def get(self, group: int, key: bytes) -> Kept | None:
        """The page of a group that is called so."""
        return self.known.get((group, key))

    def is_idle(self, kept: Kept) -> bool:
        """Whether a page is part of the room."""
        return kept.page in self._idle

    def take(self, count: int) -> list[int] | None:
        """Pages nobody else has, idle ones making room; None where there is not enough."""
        if count > self.room:
            return None
        while self.pool.free < count:
            self.evict()
        return self.pool.allocate(max(count, 0))

    def evict(self) -> None:
        """Let the idle page go whose turn it is."""
        self.drop(next(iter(self._idle.values())))

    def hold(self, pages: Sequence[int]) -> None:
        """One more sequence holds these pages."""
        self.pool.share(pages)
        for page in pages:
            self._unheld.discard(page)
            self._idle.pop(page, None)

    def release(self, pages: Sequence[int], *, behind: bool = False) -> None:
        """One sequence less holds these pages, in their order; `behind` its window."""
        self.pool.release(pages)
        # The last first: it is to go before what it follows.
        for page in reversed(pages):
            kept = self._at.get(page)
            if kept is not None and self.pool.owners(page) == 1:
                self._unheld.add(page)
                self._rest(kept)
                if behind and not kept.used and page in self._idle:
                    self._idle.move_to_end(page, last=False)

    def add(self, kept: Kept) -> None:
        """Let others find a page that a sequence holds, under a name that is new."""
        self.pool.share([kept.page])
        self.known[kept.group, kept.key] = self._at[kept.page] = kept
        self._unsettled.add(kept.page)
        if kept.group == 0:
            self._following.setdefault(kept.parent, {})[kept.key] = kept

    def replace(self, kept: Kept, page: int) -> None:
        """Let others find another page, which a sequence holds, in the place of one."""
        self._leave(kept)
        self.pool.release([kept.page])
        kept.page, self._at[page] = page, kept
        self.pool.share([page])
        self._unsettled.add(page)

    def drop(self, kept: Kept) -> None:
        """Let nobody find a page; those who hold it go on."""
        self._leave(kept)
        del self.known[kept.group, kept.key]
        if kept.group == 0:
            following = self._following[kept.parent]
            del following[kept.key]
            if not following:
                del self._following[kept.parent]
        self.pool.release([kept.page])

    def touch(self, kept: Iterable[Kept]) -> None:
        """Make pages, in the order of their history, the ones used last."""
        for one in reversed(list(kept)):
            if one.page in self._idle:
                self._idle.move_to_end(one.page)
            if one.group == 0:
                following = self._following[one.parent]
                following[one.key] = following.pop(one.key)

    def pin(self, kept: Kept, by: int) -> None:
        """Pin a page so many times more; its pins may have been lost, and are never below 0."""
        kept.pins = max(kept.pins + by, 0)
        if kept.pins:
            self._idle.pop(kept.page, None)
        elif kept.page in self._unheld:
            self._rest(kept)

    def longest(
        self, parent: bytes, tokens: Sequence[int], *, inexact: bool
    ) -> tuple[Kept, int] | None:
        """As `PrefixIndex.longest`, of the first group."""
        best: tuple[Kept, int] | None = None
        for kept in islice(reversed(self._following.get(parent, {}).values()), MAX_SCANNED):
            usable = kept.tokens if inexact else kept.tokens[: kept.exact]
            same = common_length(usable, tokens)
            if same and (best is None or same > best[1]):
                best = (kept, same)
        return best

    def withdraw(self, pages: Iterable[int]) -> None:
        """Let nobody find these pages."""
        for page in pages:
            if (kept := self._at.get(page)) is not None:
                self.drop(kept)

    def settle(self) -> None:
        """The device has answered: what was published until now is in its pages."""
        self._unsettled.clear()

    def distrust(self) -> None:
        """Let nobody find pages published since the device last answered."""
        self.withdraw(list(self._unsettled))

    def drop_idle(self) -> None:
        """Drop all pages that nobody needs."""
        while self._idle:
            self.evict()

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
        if {kept.page: kept for kept in self.known.values()} != self._at:
            wrong.append("Pages are not where the rack says.")
        following = {key: kept for each in self._following.values() for key, kept in each.items()}
        if following != {key: kept for (group, key), kept in self.known.items() if not group}:
            wrong.append("Pages follow that are not known.")
        unheld = self._at.keys() - set(held)
        if unheld != self._unheld:
            wrong.append(f"{len(unheld)} pages have no holder, not {len(self._unheld)}.")
        if {page for page in unheld if not self._at[page].pins} != self._idle.keys():
            wrong.append(f"{len(self._idle)} pages are idle.")
        return self.pool.check() + wrong

    def _rest(self, kept: Kept) -> None:
        if not kept.pins:
            self._idle[kept.page] = kept

    def _leave(self, kept: Kept) -> None:
        del self._at[kept.page]
        self._unheld.discard(kept.page)
        self._idle.pop(kept.page, None)
        self._unsettled.discard(kept.page)
