"""How a sequence begins: with pages that hold its first tokens already."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic

from edgewise_runtime.kv.holding import Found, Holding
from edgewise_runtime.kv.lookup import Lookup
from edgewise_runtime.kv.prefix import Node
from edgewise_runtime.kv.shelf import Shelf
from edgewise_runtime.kv.stock import K, Stock
from edgewise_runtime.kv.stored import Brought, Elsewhere


@dataclass(frozen=True, slots=True)
class Beginning(Generic[K]):
    """Gives holdings what is known of their tokens.

    Attributes:
        stock: where pages are.
        elsewhere: brings those that are not on the device.
        page_tokens: how many tokens a page holds.
        inexact: whether pages that decode has written may be shared.
    """

    stock: Stock[K]
    elsewhere: Elsewhere
    page_tokens: int
    inexact: bool

    def bring(self, row: list[int], known: K) -> Brought | None:
        """Bring a page from where it is to the end of a row, and let others find it; None where it
        is not there, may not be shared, or there is no room."""
        least = 0 if self.inexact else self.page_tokens
        found = self.elsewhere.find(known.group, known.key, known.tokens, least)
        taken = None if found is None else self.stock.take(1)
        if found is None or taken is None:
            return None
        row += taken
        self.elsewhere.restore(found, taken[0])
        known.page, known.exact = taken[0], found.exact
        self.stock.add(known)
        return found

    def copy_rest(self, holding: Holding, tokens: Sequence[int], exact: int) -> tuple[int, int]:
        """Give a holding whose pages are full pages of its own, in every group, with a copy of the
        one of which only the first tokens follow; how many tokens those are, and `exact` with them.

        Args:
            exact: how many tokens of the full pages, from the first, prefill has written.
        """
        start = len(holding.pages) * self.page_tokens
        rest = tokens[start : min(start + self.page_tokens, len(tokens) - 1)]
        parent = holding.chain.before(len(holding.pages))
        found = self.stock.longest(parent, rest, inexact=self.inexact)
        if found is None or not self._copy(holding, found[0].key):
            return 0, exact
        known, same = found
        return same, exact + min(known.exact, same) if exact == start else exact

    def _copy(self, holding: Holding, key: bytes) -> bool:
        """Give a holding a page of its own in every group with what a page holds; False where it is
        not there or there is no room."""
        there = [self.stock.get(group, key) for group in range(len(holding.rows))]
        sources = [known for known in there if known is not None]
        if len(sources) < len(there):
            return False
        pages = [known.page for known in sources]
        self.stock.hold(pages)
        try:
            taken = self.stock.take(len(pages))
            if taken is not None:
                for row, page in zip(holding.rows, taken, strict=True):
                    row.append(page)
                for source, page in zip(pages, taken, strict=True):
                    self.elsewhere.mover.copy_page(source, page)
        finally:
            self.stock.release(pages)
        self.stock.touch(sources)
        return taken is not None


@dataclass(frozen=True, slots=True)
class Adoption:
    """Gives holdings of one state group without a window what is known of their tokens: pages that
    others hold or have held, pages of the bundle and from the store, and a copy of the one of which
    only the first tokens fit.

    Attributes:
        shelf: where pages are.
        lookup: finds them there.
        beginning: brings the others.
    """

    shelf: Shelf
    lookup: Lookup
    beginning: Beginning[Node]

    def begin(self, holding: Holding, tokens: Sequence[int]) -> Found:
        """Begin a holding with all pages that are known to hold the first tokens.

        What it has been given before something fails, it holds.
        """
        device = restored = shipped = exact = 0
        size = self.lookup.page_tokens
        for nth in range(self.lookup.adoptable(tokens)):
            node = self.lookup.page(holding.chain, tokens, nth)
            if node is not None:
                self.shelf.hold([node.page])
                holding.pages.append(node.page)
                device += size
            else:
                content = self.lookup.content(tokens, nth)
                key = holding.chain.key(nth, content)
                if self.lookup.index.get(key) is not None:
                    break
                node = Node(key, holding.chain.before(nth), -1, content, 0)
                found = self.beginning.bring(holding.pages, node)
                if found is None:
                    break
                shipped += size if found.shipped else 0
                restored += 0 if found.shipped else size
            if exact == nth * size:
                exact += node.exact
            holding.keys.append(node.key)
        same, exact = self.beginning.copy_rest(holding, tokens, exact)
        return Found(device + same, restored, shipped, exact)
