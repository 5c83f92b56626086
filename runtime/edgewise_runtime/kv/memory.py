"""KV memory of models whose sequences keep all their pages.

A sequence that begins like an earlier one shares its full pages, and copies the one of which only
the first tokens fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from edgewise_runtime.format.state import Footprint
from edgewise_runtime.kv.adoption import Adoption, Beginning
from edgewise_runtime.kv.base import Memory
from edgewise_runtime.kv.holding import Holding
from edgewise_runtime.kv.keys import KeyChain
from edgewise_runtime.kv.lookup import Lookup
from edgewise_runtime.kv.prefix import Node
from edgewise_runtime.kv.shelf import Shelf
from edgewise_runtime.kv.stored import Elsewhere


class PageMemory(Memory[Node]):
    """All pages of a program of one state group without a window.

    Args:
        elsewhere: where pages are that are not on the device, and whose they are.
        pages: how many there are.
        page_tokens: how many tokens each holds.
        inexact, keep: as for `Memory`.
    """

    def __init__(
        self,
        elsewhere: Elsewhere,
        pages: int,
        *,
        page_tokens: int,
        inexact: bool,
        keep: int | None = None,
    ) -> None:
        self._shelf = Shelf(pages, page_tokens, self._leave)
        sizes = Footprint((None,), 1, page_tokens)
        super().__init__(self._shelf, sizes, elsewhere, inexact=inexact, keep=keep)
        self._lookup = Lookup(self._shelf.index, page_tokens, inexact)
        beginning = Beginning(self._shelf, elsewhere, page_tokens, inexact)
        self._adoption = Adoption(self._shelf, self._lookup, beginning)

    def acquire(
        self,
        chain: KeyChain,
        tokens: Sequence[int],
        total: int,
        *,
        spare: int = 0,
        later: bool = False,
    ) -> Holding | None:
        if not self._fits(chain, tokens, self.pages_for(total) + spare):
            return None
        holding = Holding(chain, asked=len(tokens))
        whole = False
        try:
            holding.found = self._adoption.begin(holding, tokens)
            whole = later or self._extend(holding, total)
        finally:
            if not whole:
                self._shelf.release(holding.pages)
        if not whole:
            return None
        holding.written = holding.found.total
        self._shelf.index.touch(holding.keys)
        return holding

    def found(self, chain: KeyChain, tokens: Sequence[int], pages: int = 0) -> int:
        return self._lookup.leading(chain, tokens, pages, lambda node: True)

    def keys_of(
        self, chain: KeyChain, tokens: Sequence[int], *, exact: bool = False
    ) -> tuple[bytes, ...]:
        return self._lookup.keys(chain, tokens, exact=exact)

    def pin(self, keys: Iterable[bytes], by: int = 1) -> None:
        for key in keys:
            node = self._shelf.index.get(key)
            if node is not None:
                # A page that was distrusted has lost its pins.
                self._shelf.pin(node, by)
        self.trim(0)

    def _fits(self, chain: KeyChain, tokens: Sequence[int], pages: int) -> bool:
        """Whether there is room for this many pages, of which the first may be here already.

        Those in use take no room, and come first. One that is idle is part of the room it takes.
        """
        room = self._shelf.room
        if pages <= room:
            return True
        # Who is refused asks again at each step: only what has changed since is looked at.
        chain.used = self._lookup.leading(chain, tokens, chain.used, lambda node: node.needs > 0)
        return pages - chain.used <= room
