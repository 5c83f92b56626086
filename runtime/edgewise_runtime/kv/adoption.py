"""How a sequence begins: with pages that hold its first tokens already."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edgewise_runtime.kv.holding import Found, Holding
from edgewise_runtime.kv.lookup import Lookup
from edgewise_runtime.kv.prefix import Node
from edgewise_runtime.kv.shelf import Shelf
from edgewise_runtime.kv.stored import PageMover, Shipped, Spill


@dataclass(frozen=True, slots=True)
class Adoption:
    """Gives holdings what is known of their tokens: pages that others hold or have held, pages
    of the bundle and from the store, and a copy of the one of which only the first tokens fit.

    Attributes:
        shelf: where pages are.
        lookup: finds them there.
        mover: copies them.
        spill: brings them back; None where there is no store.
        shipped: brings those of the bundle; None where it has none.
    """

    shelf: Shelf
    lookup: Lookup
    mover: PageMover
    spill: Spill | None
    shipped: Shipped | None

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
            elif (node := self._restore(holding, tokens, self.shipped)) is not None:
                shipped += size
            elif (node := self._restore(holding, tokens, self.spill)) is not None:
                restored += size
            else:
                break
            if exact == nth * size:
                exact += node.exact
            holding.keys.append(node.key)
        first = len(holding.pages) * size
        rest = tokens[first : min(first + size, len(tokens) - 1)]
        parent = holding.chain.before(len(holding.pages))
        found = self.lookup.index.longest(parent, rest, inexact=self.lookup.inexact)
        if found is not None:
            node, same = found
            if self._copy(node, holding):
                device += same
                if exact == first:
                    exact += min(node.exact, same)
        return Found(device, restored, shipped, exact)

    def _copy(self, node: Node, holding: Holding) -> bool:
        """Give a holding a page of its own with what a node's page holds; False without room."""
        source = [node.page]
        self.shelf.hold(source)
        try:
            taken = self.shelf.take(1)
            if taken is not None:
                holding.pages += taken
                self.mover.copy_page(node.page, taken[0])
        finally:
            self.shelf.release(source)
        self.lookup.index.touch([node.key])
        return taken is not None

    def _restore(
        self, holding: Holding, tokens: Sequence[int], source: Shipped | Spill | None
    ) -> Node | None:
        """Bring a holding's next page from where it is; None where it is not there, or there is no
        room."""
        nth = len(holding.pages)
        content = self.lookup.content(tokens, nth)
        key = holding.chain.key(nth, content)
        if source is None or self.lookup.index.get(key) is not None:
            return None
        found = source.find(key, content)
        if found is None:
            return None
        exact, state = found
        node = Node(key, holding.chain.before(nth), -1, content, exact)
        taken = self.shelf.take(1) if self.lookup.sound(node) else None
        if taken is None:
            return None
        holding.pages += taken
        source.restore(state, taken[0])
        node.page = taken[0]
        self.shelf.add(node)
        return node
