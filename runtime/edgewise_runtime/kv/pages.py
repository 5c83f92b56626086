"""The page pool: which page of KV memory is free, and how many sequences share each other one.

Pages are numbers; their memory is the KV buffers of a loaded program, where page p is row p of
every layer. A page with several owners is never written to again: a full page of a shared prefix.
"""

from __future__ import annotations

from collections.abc import Iterable

from edgewise_runtime.errors import InputError
from edgewise_runtime.format.state import pages_for


class PagePool:
    """Pages 0..n-1, each free or owned, with the number of its owners.

    The lowest free page is handed out first, so that memory never touched stays untouched.
    """

    def __init__(self, n: int) -> None:
        if n < 1:
            raise InputError(f"A pool needs at least one page, not {n}.", code="input.pages")
        self._owners = [0] * n
        # Sorted from high to low: the end is the lowest.
        self._free = list(range(n - 1, -1, -1))

    def __len__(self) -> int:
        return len(self._owners)

    @property
    def free(self) -> int:
        """How many pages are free."""
        return len(self._free)

    def owners(self, page: int) -> int:
        """How many own the page; 0 for a free one."""
        return self._owners[self._known(page)]

    def allocate(self, k: int) -> list[int]:
        """Take k pages, each with one owner. Look at `free` before.

        Raises:
            InputError: ``input.pages`` where fewer are free; nothing is taken.
        """
        if not 0 <= k <= len(self._free):
            message = f"Cannot allocate {k} pages: {len(self._free)} are free."
            raise InputError(message, code="input.pages")
        cut = len(self._free) - k
        taken = self._free[cut:][::-1]
        del self._free[cut:]
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
        freed: list[int] = []
        for page, count in counts.items():
            self._owners[page] -= count
            if not self._owners[page]:
                freed.append(page)
        if freed:
            self._free += freed
            self._free.sort(reverse=True)

    def check(self) -> list[str]:
        """What is inconsistent about the pool, as sentences; empty for a sound one."""
        problems: list[str] = []
        free = set(self._free)
        if len(free) != len(self._free):
            problems.append("A page is twice in the free list.")
        problems += [
            f"Page {page} has {count} owners and is {'also' if page in free else 'not'} free."
            for page, count in enumerate(self._owners)
            if count < 0 or (count == 0) != (page in free)
        ]
        if any(a <= b for a, b in zip(self._free, self._free[1:], strict=False)):
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
    """

    def __init__(self, pool: PagePool, most: int, page_tokens: int) -> None:
        self._pool = pool
        self._most = most
        self._page_tokens = page_tokens
        self.pages: list[int] = []

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
        if needed > self._pool.free:
            return False
        self.pages += self._pool.allocate(needed)
        return True

    def release(self) -> None:
        """Give all pages back."""
        pages, self.pages = self.pages, []
        self._pool.release(pages)
