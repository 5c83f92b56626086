"""Pages of sequences that keep all of theirs: the ones that follow a page need it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from edgewise_runtime.kv.prefix import Node, PrefixIndex
from edgewise_runtime.kv.stock import Stock


class Shelf(Stock[Node]):
    """A `Stock` of one state group without a window.

    Args:
        pages, leaving: as for `Stock`.
        page_tokens: how many tokens each holds.

    Attributes:
        index: what is in the pages; they are added and dropped here.
    """

    kind = Node

    def __init__(self, pages: int, page_tokens: int, leaving: Callable[[Node], bool]) -> None:
        super().__init__(pages, leaving)
        self.index = PrefixIndex(page_tokens)

    def __iter__(self) -> Iterator[Node]:
        return iter(self.index)

    @property
    def idle(self) -> int:
        """Pages that nothing needs: not held, not pinned, nor before one that is."""
        return self.index.idle

    @property
    def unheld(self) -> int:
        return self.index.unheld

    def get(self, group: int, key: bytes) -> Node | None:
        return self.index.get(key)

    def oldest(self) -> Node | None:
        return self.index.oldest()

    def hold(self, pages: Sequence[int]) -> None:
        self.pool.share(pages)
        for page in pages:
            if (node := self._at.get(page)) is not None:
                self.index.hold(node)

    def release(self, pages: Sequence[int], *, behind: bool = False) -> None:
        self.pool.release(pages)
        # The last first: it is to go before what it follows.
        for page in reversed(pages):
            if (node := self._at.get(page)) is not None:
                self.index.hold(node, -1)

    def add(self, known: Node) -> None:
        known.holders = self.pool.owners(known.page)
        self.pool.share([known.page])
        self.index.add(known)
        self._came(known)

    def replace(self, known: Node, page: int) -> None:
        self._went(known)
        self.pool.release([known.page])
        known.page = page
        self.index.hold(known, self.pool.owners(page) - known.holders)
        self.pool.share([page])
        self._came(known)

    def drop(self, known: Node) -> None:
        self.index.remove(known)
        self._went(known)
        self.pool.release([known.page])

    def touch(self, known: Sequence[Node]) -> None:
        self.index.touch([node.key for node in known])

    def pin(self, known: Node, by: int) -> None:
        self.index.pin(known, by)

    def longest(
        self, parent: bytes, tokens: Sequence[int], *, inexact: bool
    ) -> tuple[Node, int] | None:
        return self.index.longest(parent, tokens, inexact=inexact)

    def check(self, held: Iterable[int]) -> list[str]:
        wrong = super().check(held)
        older: set[bytes] = set()
        for node in self.index:
            if node.holders != self.pool.owners(node.page) - 1:
                wrong.append(f"Page {node.page} has not {node.holders} holders.")
            if node.parent in older:
                wrong.append(f"Page {node.page} is used later than the one before it.")
            if not node.needs:
                older.add(node.key)
        return self.index.check() + wrong
