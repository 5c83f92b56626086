"""Pages of several state groups in one pool: who holds which, what is in those that are kept, and
which of these goes first.

A page is kept for itself, not for what follows it: of a group with a window nobody needs what lies
behind it. The one to go is the one used least recently; a page that a sequence has left behind its
window goes before all others, unless it has begun another sequence once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from edgewise_runtime.kv.prefix import MAX_SCANNED, common_length
from edgewise_runtime.kv.stock import Known, Stock


@dataclass(slots=True, eq=False)
class Kept(Known):
    """A page of a group.

    Attributes:
        pins: how often it must not go.
        used: whether another sequence has begun with it.
        behind: whether a sequence has left it behind its window since it was used.
    """

    pins: int = 0
    used: bool = False
    behind: bool = False


class Rack(Stock[Kept]):
    """A `Stock` of a program with windows.

    Attributes:
        known: pages by their group and what they are called; they are added and dropped here.
    """

    kind = Kept

    def __init__(self, pages: int, leaving: Callable[[Kept], bool]) -> None:
        super().__init__(pages, leaving)
        self.known: dict[tuple[int, bytes], Kept] = {}
        # Of the first group: those that follow a page, by its key, the latest last.
        self._following: dict[bytes, dict[bytes, Kept]] = {}
        # Those that nobody holds, and of these those that are not pinned, the next to go first.
        self._unheld: set[int] = set()
        self._idle: OrderedDict[int, Kept] = OrderedDict()

    def __iter__(self) -> Iterator[Kept]:
        yield from self._idle.values()
        yield from (kept for kept in self.known.values() if kept.page not in self._idle)

    @property
    def unheld(self) -> int:
        return len(self._unheld)

    @property
    def idle(self) -> int:
        return len(self._idle)

    def get(self, group: int, key: bytes) -> Kept | None:
        return self.known.get((group, key))

    def is_idle(self, kept: Kept) -> bool:
        """Whether a page is part of the room."""
        return kept.page in self._idle

    def oldest(self) -> Kept | None:
        return next(iter(self._idle.values()), None)

    def hold(self, pages: Sequence[int]) -> None:
        self.pool.share(pages)
        for page in pages:
            self._unheld.discard(page)
            self._idle.pop(page, None)

    def release(self, pages: Sequence[int], *, behind: bool = False) -> None:
        self.pool.release(pages)
        # The last first: it is to go before what it follows.
        for page in reversed(pages):
            kept = self._at.get(page)
            if kept is not None and self.pool.owners(page) == 1:
                self._unheld.add(page)
                self._rest(kept)
                kept.behind = behind and not kept.used
                if kept.behind and page in self._idle:
                    self._idle.move_to_end(page, last=False)

    def add(self, known: Kept) -> None:
        self.pool.share([known.page])
        self.known[known.group, known.key] = known
        self._came(known)
        if known.group == 0:
            self._following.setdefault(known.parent, {})[known.key] = known

    def replace(self, known: Kept, page: int) -> None:
        self._leave(known)
        self.pool.release([known.page])
        known.page = page
        self.pool.share([page])
        self._came(known)

    def drop(self, known: Kept) -> None:
        self._leave(known)
        del self.known[known.group, known.key]
        if known.group == 0:
            following = self._following[known.parent]
            del following[known.key]
            if not following:
                del self._following[known.parent]
        self.pool.release([known.page])

    def touch(self, known: Sequence[Kept]) -> None:
        for one in reversed(known):
            if one.page in self._idle:
                self._idle.move_to_end(one.page)
            if one.group == 0:
                following = self._following[one.parent]
                following[one.key] = following.pop(one.key)

    def pin(self, known: Kept, by: int) -> None:
        known.pins = max(known.pins + by, 0)
        if known.pins:
            self._idle.pop(known.page, None)
        elif known.page in self._unheld:
            self._rest(known)

    def longest(
        self, parent: bytes, tokens: Sequence[int], *, inexact: bool
    ) -> tuple[Kept, int] | None:
        best: tuple[Kept, int] | None = None
        for kept in islice(reversed(self._following.get(parent, {}).values()), MAX_SCANNED):
            usable = kept.tokens if inexact else kept.tokens[: kept.exact]
            same = common_length(usable, tokens)
            if same and (best is None or same > best[1]):
                best = (kept, same)
        return best

    def check(self, held: Iterable[int]) -> list[str]:
        held = list(held)
        wrong = super().check(held)
        following = {key: kept for each in self._following.values() for key, kept in each.items()}
        if following != {key: kept for (group, key), kept in self.known.items() if not group}:
            wrong.append("Pages follow that are not known.")
        unheld = self._at.keys() - set(held)
        if unheld != self._unheld:
            wrong.append(f"{len(unheld)} pages have no holder, not {len(self._unheld)}.")
        if {page for page in unheld if not self._at[page].pins} != self._idle.keys():
            wrong.append(f"{len(self._idle)} pages are idle.")
        return wrong

    def _rest(self, kept: Kept) -> None:
        if not kept.pins:
            self._idle[kept.page] = kept

    def _leave(self, kept: Kept) -> None:
        self._went(kept)
        self._unheld.discard(kept.page)
        self._idle.pop(kept.page, None)
