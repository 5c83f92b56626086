"""All pages of a program: those that are free, those that sequences hold, and those that are kept
for the next ones, of which the oldest goes where room is needed.

Everything here costs what the pages named in a call cost, never what all there are would.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from edgewise_runtime.kv.pages import PagePool
from edgewise_runtime.kv.prefix import Node, PrefixIndex


class Shelf:
    """Pages and what is known to be in them.

    The index owns each page it knows, and every sequence each page it holds.

    Args:
        pages: how many there are.
        page_tokens: how many tokens each holds.
        leaving: is told of a page that has to make room, while it is still there; says whether it
            was stored.

    Attributes:
        pool: who owns which page.
        index: what is in them; pages are added and dropped here.
        taken: pages that were taken since somebody set it to 0.
    """

    def __init__(self, pages: int, page_tokens: int, leaving: Callable[[Node], bool]) -> None:
        self.pool = PagePool(pages)
        self.index = PrefixIndex(page_tokens)
        self.taken = 0
        self._leaving = leaving
        self._at: dict[int, Node] = {}
        # Keys of pages that were published since the device last answered.
        self._unsettled: set[bytes] = set()

    @property
    def room(self) -> int:
        """Pages that are free or idle, all of which can be taken."""
        return self.pool.free + self.index.idle

    @property
    def held(self) -> int:
        """Pages that sequences hold; one that several hold counts once."""
        return len(self.pool) - self.pool.free - self.index.unheld

    def take(self, count: int) -> list[int] | None:
        """Pages nobody else has, older ones making room; None where there is not enough."""
        if count > self.room:
            return None
        while self.pool.free < count:
            self.evict()
        self.taken += max(count, 0)
        return self.pool.allocate(max(count, 0))

    def evict(self) -> bool:
        """Let the page go that was used least recently of those that are idle, if any are; whether
        it was stored."""
        node = self.index.oldest()
        stored = node is not None and self._leaving(node)
        if node is not None:
            self.drop(node)
        return stored

    def hold(self, pages: Sequence[int]) -> None:
        """One more sequence holds these pages."""
        self.pool.share(pages)
        for page in pages:
            if (node := self._at.get(page)) is not None:
                self.index.hold(node)

    def release(self, pages: Sequence[int]) -> None:
        """One sequence less holds these pages of its own, in their order."""
        self.pool.release(pages)
        # The last first: it is to go before what it follows.
        for page in reversed(pages):
            if (node := self._at.get(page)) is not None:
                self.index.hold(node, -1)

    def add(self, node: Node) -> None:
        """Let others find a page that a sequence holds."""
        node.holders = self.pool.owners(node.page)
        self.pool.share([node.page])
        self.index.add(node)
        self._at[node.page] = node
        self._unsettled.add(node.key)

    def replace(self, node: Node, page: int) -> None:
        """Let others find another page, which a sequence holds, in a node's place."""
        del self._at[node.page]
        self.pool.release([node.page])
        node.page, self._at[page] = page, node
        self.index.hold(node, self.pool.owners(page) - node.holders)
        self.pool.share([page])
        self._unsettled.add(node.key)

    def drop(self, node: Node) -> None:
        """Let nobody find a page; those who hold it go on."""
        self.index.remove(node)
        del self._at[node.page]
        self._unsettled.discard(node.key)
        self.pool.release([node.page])

    def drop_idle(self) -> None:
        """Drop all pages that nobody needs."""
        while (node := self.index.oldest()) is not None:
            self.drop(node)

    def withdraw(self, pages: Iterable[int]) -> None:
        """Let nobody find these pages."""
        for page in pages:
            if (node := self._at.get(page)) is not None:
                self.drop(node)

    def settle(self) -> None:
        """The device has answered: what was published until now is in its pages."""
        self._unsettled.clear()

    def distrust(self) -> None:
        """Let nobody find pages published since the device last answered."""
        for key in list(self._unsettled):
            if (node := self.index.get(key)) is not None:
                self.drop(node)

    def check(self, held: Iterable[int]) -> list[str]:
        """What is inconsistent where sequences hold these pages, as sentences; empty if sound.

        Args:
            held: the pages of each sequence.
        """
        held = list(held)
        expected = [0] * len(self.pool)
        for page in [*held, *(node.page for node in self.index)]:
            expected[page] += 1
        wrong = [
            f"Page {page} has {self.pool.owners(page)} owners, not {count}."
            for page, count in enumerate(expected)
            if self.pool.owners(page) != count
        ]
        if self._at != {node.page: node for node in self.index}:
            wrong.append("Pages are not where the shelf says.")
        if self.held != len(set(held)):
            wrong.append(f"Sequences hold {len(set(held))} pages, not {self.held}.")
        older: set[bytes] = set()
        for node in self.index:
            if node.holders != self.pool.owners(node.page) - 1:
                wrong.append(f"Page {node.page} has not {node.holders} holders.")
            if node.parent in older:
                wrong.append(f"Page {node.page} is used later than the one before it.")
            if not node.needs:
                older.add(node.key)
        return self.pool.check() + self.index.check() + wrong
