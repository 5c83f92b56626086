"""KV memory as sequences see it: pages that hold what they know already, and room for more.

Pages of earlier sequences stay until their room is needed. A sequence that begins alike shares the
full ones, and copies the one of which only the first tokens fit. What has to go may be kept
elsewhere (`spill`) and comes back when it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from edgewise_runtime.format.state import pages_for
from edgewise_runtime.kv.adoption import Adoption
from edgewise_runtime.kv.holding import Found, Holding
from edgewise_runtime.kv.keys import KeyChain, page_key
from edgewise_runtime.kv.lookup import Lookup
from edgewise_runtime.kv.prefix import Node
from edgewise_runtime.kv.shelf import Shelf
from edgewise_runtime.kv.spill import PageStore
from edgewise_runtime.kv.stored import PageMover, PageSource, Shipped, Spill, pack

TIDIED = 4
"""Pages that are stored in one go because more are kept than may be."""


class PageMemory:
    """All pages of a program, those of sequences and those kept for the next ones.

    Args:
        mover: whose pages they are.
        pages: how many.
        page_tokens: how many tokens each holds.
        inexact: whether pages that decode has written may be shared, which is right to the bit
            only where decode and prefill agree (`Program.decode_agrees`).
        store: where pages go that have to leave; None for nowhere.
        shipped: pages that came with the bundle; None for none.
        finite: whether all numbers of a page are finite: others are not stored.
        moved: hears how many pages were spilled and restored.
        keep: pages for the next sequences that may be kept, those that are pinned not counted; None
            for as many as there is room for.

    Attributes:
        page_tokens: how many tokens each page holds.
        keep: how many pages may be idle.
    """

    def __init__(
        self,
        mover: PageMover,
        pages: int,
        *,
        page_tokens: int,
        inexact: bool,
        store: PageStore | None = None,
        shipped: PageSource | None = None,
        finite: Callable[[bytes], bool] = lambda data: True,
        moved: Callable[[int, int], None] = lambda spilled, restored: None,
        keep: int | None = None,
    ) -> None:
        self.page_tokens = page_tokens
        self._mover = mover
        self._spill = None if store is None else Spill(mover, store, finite, moved)
        self._shipped = shipped
        self._shelf = Shelf(pages, page_tokens, self._leave)
        self._lookup = Lookup(self._shelf.index, page_tokens, inexact)
        bundled = None if shipped is None else Shipped(mover, shipped)
        self._adoption = Adoption(self._shelf, self._lookup, mover, self._spill, bundled)
        self.keep = pages if keep is None else min(keep, pages)

    def __len__(self) -> int:
        return len(self._shelf.pool)

    @property
    def free(self) -> int:
        """Pages that hold nothing."""
        return self._shelf.pool.free

    @property
    def kept(self) -> int:
        """Pages that no sequence holds, kept for the next ones."""
        return self._shelf.index.unheld

    @property
    def idle(self) -> int:
        """Pages that nothing needs: of `kept` those that are not pinned, nor before one that is."""
        return self._shelf.index.idle

    @property
    def held(self) -> int:
        """Pages that sequences hold; one that several hold counts once."""
        return self._shelf.held

    def pages_for(self, tokens: int) -> int:
        """How many pages hold this many tokens."""
        return pages_for(tokens, self.page_tokens)

    def lacking(self, holding: Holding | None, tokens: int) -> int:
        """How many pages more so many tokens take than a sequence has."""
        held = 0 if holding is None else len(holding.pages)
        return max(self.pages_for(tokens) - held, 0)

    def room(self, holding: Holding) -> int:
        """Tokens that a holding's pages have room for."""
        return len(holding.pages) * self.page_tokens

    def acquire(
        self,
        chain: KeyChain,
        tokens: Sequence[int],
        total: int,
        *,
        spare: int = 0,
        later: bool = False,
    ) -> Holding | None:
        """Pages for `total` tokens that begin with `tokens`; None, changing nothing, without room.

        The last of `tokens` is never found: something has to be computed to go on from.

        Args:
            chain: the keys of `tokens`, as far as they have been computed.
            spare: pages that must be left for others.
            later: take only pages that hold some of `tokens`; for the others there must be room,
                which is made as they are taken.
        """
        if not self._fits(chain, tokens, self.pages_for(total) + spare):
            return None
        holding = Holding(chain)
        taken: list[int] | None = None
        try:
            holding.found = self._adoption.begin(holding, tokens)
            missing = 0 if later else self.pages_for(total) - len(holding.pages)
            taken = self._shelf.take(missing)
        finally:
            if taken is None:
                self._shelf.release(holding.pages)
        if taken is None:
            return None
        holding.pages += taken
        holding.written = holding.found.total
        self._shelf.index.touch(holding.keys)
        return holding

    def grow(self, holding: Holding, tokens: int) -> bool:
        """Make room for this many tokens in all; False, changing nothing, where there is none."""
        if tokens <= self.room(holding):
            return True
        taken = self._shelf.take(self.pages_for(tokens) - len(holding.pages))
        if taken is None:
            return False
        holding.pages += taken
        return True

    def can_fork(self, holding: Holding, tokens: int) -> bool:
        """Whether another sequence can begin with the first `tokens` of one."""
        return True

    def fork(self, holding: Holding, tokens: int, total: int, *, exact: int) -> Holding | None:
        """Pages for `total` tokens of which the first `tokens` are another sequence's own, and
        `exact` of these written by prefill.

        Full pages are shared, and the last is copied where it is not full. None without room.
        """
        full, rest = divmod(tokens, self.page_tokens)
        taken = self._shelf.take(self.pages_for(total) - full)
        if taken is None:
            return None
        shared, keys = holding.pages[:full], holding.keys[:full]
        self._shelf.hold(shared)
        pages = shared + taken
        try:
            if taken and rest:
                self._mover.copy_page(holding.pages[full], taken[0])
        except BaseException:
            self._shelf.release(pages)
            raise
        chain = KeyChain(holding.chain.root, keys)
        return Holding(chain, pages, (), keys, Found(tokens, exact=exact), tokens)

    def publish(self, holding: Holding, tokens: Sequence[int], written: int, exact: int) -> int:
        """Let others find the pages that a sequence has filled.

        Returns `exact`, or less where it has been given another's page in place of its own.

        Args:
            tokens: the sequence's tokens, of which `written` are in its pages.
            exact: how many of them, from the first, prefill has written.
        """
        holding.written = written
        for nth in range(len(holding.keys), written // self.page_tokens):
            start = nth * self.page_tokens
            content = self._lookup.content(tokens, nth)
            key = holding.chain.key(nth, content)
            sound = min(max(exact - start, 0), self.page_tokens)
            node, page = self._shelf.index.get(key), holding.pages[nth]
            if node is None:
                self._shelf.add(Node(key, holding.chain.before(nth), page, content, sound))
            elif self._lookup.inexact or sound == node.exact == self.page_tokens:
                # The same tokens twice: one page is enough.
                if node.exact < sound:
                    exact = start + node.exact
                self._shelf.hold([node.page])
                self._shelf.release([page])
                holding.pages[nth] = node.page
            elif sound > node.exact:
                self._shelf.replace(node, page)
                node.exact = sound
            holding.keys.append(key)
        return exact

    def retire(self, holding: Holding, tokens: Sequence[int], written: int, exact: int) -> None:
        """Take back a sequence's pages and keep what they hold; arguments as for `publish`."""
        exact = self.publish(holding, tokens, written, exact)
        keys, index = list(holding.keys), self._shelf.index
        start = len(keys) * self.page_tokens
        tail = tuple(tokens[start:written])
        if tail:
            parent = holding.chain.before(len(keys))
            key = page_key(parent, tail)
            sound = min(max(exact - start, 0), len(tail))
            known = index.longest(parent, tail, inexact=self._lookup.inexact)
            if index.get(key) is None and (known is None or known[1] < len(tail)):
                self._shelf.add(Node(key, parent, holding.pages[len(keys)], tail, sound))
            keys.append(key)
        index.touch(keys)
        self.discard(holding)

    def settle(self) -> None:
        """The device has answered: what was published until now is in its pages."""
        self._shelf.settle()

    def distrust(self) -> None:
        """The device has failed, and perhaps with what it had only been handed: let nobody find
        pages published since it last answered."""
        self._shelf.distrust()
        self.trim(0)

    def withdraw(self, pages: Iterable[int]) -> None:
        """Let nobody find these pages, which hold what is not finite."""
        self._shelf.withdraw(pages)
        self.trim(0)

    def discard(self, holding: Holding) -> None:
        """Take back a sequence's pages; those it has not published are forgotten."""
        pages, holding.pages, holding.keys = holding.pages, [], []
        self._shelf.release(pages)
        self.trim(0)

    def trim(self, most: int) -> bool:
        """Let pages go that are more than may be kept, the least recently used first.

        Returns whether there are still more.

        Args:
            most: how many may be stored for that, which takes time. Without a store all go at once.
        """
        while self.idle > self.keep and (most > 0 or self._spill is None):
            most -= self._shelf.evict()
        return self.idle > self.keep

    def tidy(self) -> bool:
        """As `trim` of so few that nobody waits long, but of more than were taken since."""
        most, self._shelf.taken = TIDIED + 2 * self._shelf.taken, 0
        return self.trim(most)

    def key(self, chain: KeyChain, tokens: Sequence[int], nth: int) -> bytes | None:
        """The key of a full page of these tokens, None for one that is not; the keys of those
        before it are known to the chain."""
        content = self._lookup.content(tokens, nth)
        return chain.key(nth, content) if len(content) == self.page_tokens else None

    def found(self, chain: KeyChain, tokens: Sequence[int], pages: int = 0) -> int:
        """How many full pages on the device hold the first of these tokens and may be shared.

        It costs what has changed since there were `pages`.

        Args:
            chain: the keys of `tokens`, as far as they have been computed.
        """
        return self._lookup.leading(chain, tokens, pages, lambda node: True)

    def keys_of(self, chain: KeyChain, tokens: Sequence[int]) -> tuple[bytes, ...]:
        """The keys of the full pages on the device that hold the first of these tokens.

        Args:
            chain: the keys of `tokens`, as far as they have been computed.
        """
        return self._lookup.keys(chain, tokens)

    def read(self, chain: KeyChain, tokens: Sequence[int]) -> list[tuple[bytes, bytes]]:
        """The full pages on the device that prefill has written of these tokens, from the first:
        their keys, and their bytes as a store keeps them."""
        found: list[tuple[bytes, bytes]] = []
        for key in self.keys_of(chain, tokens):
            node = self._shelf.index.get(key)
            if node is None or node.exact < self.page_tokens:
                break
            found.append((key, pack(node.tokens, node.exact, self._mover.read_page(node.page))))
        return found

    def pin(self, keys: Iterable[bytes], by: int = 1) -> None:
        """Keep the pages with these keys as long as they are pinned; -1 takes a pin away."""
        for key in keys:
            node = self._shelf.index.get(key)
            if node is not None:
                # A page that was distrusted has lost its pins.
                self._shelf.index.pin(node, by)
        self.trim(0)

    def forget(self) -> None:
        """Drop all that is kept for the next sequences and not pinned, here and elsewhere."""
        self._shelf.drop_idle()
        if self._spill is not None:
            self._spill.store.clear()

    def flush(self) -> None:
        """Store the full pages that were used last, as many as the store holds, so that they may
        outlive the program; waits for the store."""
        if self._spill is not None:
            lasting = [node for node in self._shelf.index if self._storable(node)]
            for node in lasting[max(len(lasting) - self._spill.room(self.page_tokens), 0) :]:
                self._leave(node, wait=True)

    def check(self, holdings: Iterable[Holding]) -> list[str]:
        """What is inconsistent where sequences hold `holdings`, as sentences; empty if sound."""
        return self._shelf.check(page for holding in holdings for page in holding.pages)

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

    def _storable(self, node: Node) -> bool:
        """Whether a page may be stored: it is full and may be shared."""
        return len(node.tokens) == self.page_tokens and self._lookup.sound(node)

    def _leave(self, node: Node, *, wait: bool = False) -> bool:
        """Store a page, if there is where and it may be; whether it was."""
        if self._spill is None or not self._storable(node):
            return False
        if self._shipped is not None and node.key in self._shipped:
            return False
        return self._spill.keep(node.key, node.page, node.tokens, node.exact, wait=wait)
