"""The page pool: which page of KV memory is free, and how many sequences share each other one.

Pages are numbers; their memory is the KV buffers of a loaded program, where page p is row p of
every layer. A page with several owners is never written to again: a full page of a shared prefix.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush

from edgewise_runtime.errors import InputError
from edgewise_runtime.format.state import pages_for


class PagePool:
    """Pages 0..n-1, each free or owned, with the number of its owners.

    The lowest free page is handed out first, so that memory never touched stays untouched. Taking
    and giving back a page costs no more than the logarithm of how many have been.
    """

    def __init__(self, n: int) -> None:
        if n < 1:
            raise InputError(f"A pool needs at least one page, not {n}.", code="input.pages")
        self._owners = [0] * n
        # A heap of the free pages below the first that was never handed out.
        self._free: list[int] = []
        self._untouched = 0

    def __len__(self) -> int:
        return len(self._owners)

    @property
    def free(self) -> int:
        """How many pages are free."""
        return len(self._free) + len(self._owners) - self._untouched

    def owners(self, page: int) -> int:
        """How many own the page; 0 for a free one."""
        return self._owners[self._known(page)]

    def allocate(self, k: int) -> list[int]:
        """Take k pages, each with one owner. Look at `free` before.

        Raises:
            InputError: ``input.pages`` where fewer are free; nothing is taken.
        """
        if not 0 <= k <= self.free:
            message = f"Cannot allocate {k} pages: {self.free} are free."
            raise InputError(message, code="input.pages")
        taken = [heappop(self._free) for _ in range(min(k, len(self._free)))]
        first = self._untouched
        self._untouched += k - len(taken)
        taken += range(first, self._untouched)
        for page in taken:
            self._owners[page] = 1
        return taken

    def share(self, pages: Iterable[int]) -> None:
        """Add an owner to each of these pages, all of which are owned already.

        Raises:
            InputError: ``input.pages`` for a free or unknown page; no page changes.
        """
        shared = list(pages)
        for page in shared:
            if not self._owners[self._known(page)]:
                raise InputError(f"Page {page} is free and cannot be shared.", code="input.pages")
        for page in shared:
            self._owners[page] += 1

    def release(self, pages: Iterable[int]) -> None:
        """Take an owner from each of these pages; those without any become free.

        Raises:
            InputError: ``input.pages`` for a page released more often than owned; no page changes.
        """
        released = list(pages)
        counts: dict[int, int] = {}
        for page in released:
            counts[page] = counts.get(page, 0) + 1
            if counts[page] > self._owners[self._known(page)]:
                raise InputError(f"Page {page} is released too often.", code="input.pages")
        for page, count in counts.items():
            self._owners[page] -= count
            if not self._owners[page]:
                heappush(self._free, page)

    def check(self) -> list[str]:
        """What is inconsistent about the pool, as sentences; empty for a sound one."""
        problems: list[str] = []
        free = {*self._free, *range(self._untouched, len(self._owners))}
        if len(free) != self.free:
            problems.append("A page is twice in the free list.")
        problems += [
            f"Page {page} has {count} owners and is {'also' if page in free else 'not'} free."
            for page, count in enumerate(self._owners)
            if count < 0 or (count == 0) != (page in free)
        ]
        if any(page < self._free[(nth - 1) // 2] for nth, page in enumerate(self._free) if nth):
            problems.append("The free list is out of order.")
        return problems

    def _known(self, page: int) -> int:
        if not 0 <= page < len(self._owners):
            message = f"Page {page} is not one of {len(self._owners)}."
            raise InputError(message, code="input.pages")
        return page


class PageTable:
    """The pages of one sequence in order.

    Args:
        pool: where pages come from and go back to.
        most: pages a row of ``table`` has room for.
        page_tokens: tokens of a page.
        groups: state groups: of each there are as many pages, and none is given back early.
    """

    def __init__(self, pool: PagePool, most: int, page_tokens: int, groups: int = 1) -> None:
        self._pool = pool
        self._most = most
        self._page_tokens = page_tokens
        self.pages: list[int] = []
        self.beside: tuple[list[int], ...] = tuple([] for _ in range(groups - 1))

    def missing(self, tokens: int) -> int:
        """How many more pages this many tokens need."""
        return max(0, pages_for(tokens, self._page_tokens) - len(self.pages))

    def reserve(self, tokens: int) -> bool:
        """Make room for this many tokens in all; False, changing nothing, without enough pages.

        Raises:
            InputError: ``input.pages`` for more tokens than a row of ``table`` can hold.
        """
        needed = self.missing(tokens)
        if len(self.pages) + needed > self._most:
            most = self._most * self._page_tokens
            message = f"A sequence holds at most {most} tokens, not {tokens}."
            raise InputError(message, code="input.pages")
        rows = (self.pages, *self.beside)
        if needed * len(rows) > self._pool.free:
            return False
        for row in rows:
            row += self._pool.allocate(needed)
        return True

    def release(self) -> None:
        """Give all pages back."""
        pages, self.pages = self.pages, []
        others, self.beside = self.beside, tuple([] for _ in self.beside)
        self._pool.release([*pages, *(page for row in others for page in row)])
