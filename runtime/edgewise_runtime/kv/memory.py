"""KV memory as sequences see it: pages that hold what they know already, and room for more.

Pages of earlier sequences stay until their room is needed. A sequence that begins alike shares the
full ones, and copies the one of which only the first tokens fit. What has to go may be kept
elsewhere (`spill`) and comes back when it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from edgewise_runtime.format.state import pages_for
from edgewise_runtime.kv.holding import Found, Holding
from edgewise_runtime.kv.keys import page_key
from edgewise_runtime.kv.pages import PagePool
from edgewise_runtime.kv.prefix import Node, PrefixIndex
from edgewise_runtime.kv.spill import PageStore
from edgewise_runtime.kv.stored import pack, unpack


class PageMover(Protocol):
    """What can move pages about: a `LoadedProgram`."""

    @property
    def page_bytes(self) -> int: ...

    def copy_page(self, source: int, target: int) -> None: ...

    def read_page(self, page: int) -> bytes: ...

    def write_page(self, page: int, data: bytes) -> None: ...


class PageMemory:
    """All pages of a program, those of sequences and those kept for the next ones.

    Args:
        mover: whose pages they are.
        pages: how many.
        page_tokens: how many tokens each holds.
        inexact: whether pages that decode has written may be shared, which is right to the bit
            only where decode and prefill agree (`Program.decode_agrees`).
        store: where pages go that have to leave; None for nowhere.
        finite: whether all numbers of a page are finite: others are not stored.
        moved: hears how many pages were spilled and restored.
    """

    def __init__(
        self,
        mover: PageMover,
        pages: int,
        *,
        page_tokens: int,
        inexact: bool,
        store: PageStore | None = None,
        finite: Callable[[bytes], bool] = lambda data: True,
        moved: Callable[[int, int], None] | None = None,
    ) -> None:
        self.page_tokens = page_tokens
        self._mover = mover
        self._pool = PagePool(pages)
        self._index = PrefixIndex(page_tokens)
        self._inexact = inexact
        self._store = store
        self._finite = finite
        self._moved = moved or (lambda spilled, restored: None)
        # Keys of pages that were published since the device last answered.
        self._unsettled: set[bytes] = set()

    def __len__(self) -> int:
        return len(self._pool)

    @property
    def free(self) -> int:
        """Pages that hold nothing."""
        return self._pool.free

    @property
    def kept(self) -> int:
        """Pages that no sequence holds, kept for the next ones."""
        return sum(self._pool.owners(node.page) == 1 for node in self._index)

    def pages_for(self, tokens: int) -> int:
        """How many pages hold this many tokens."""
        return pages_for(tokens, self.page_tokens)

    def room(self, holding: Holding) -> int:
        """Tokens that a holding's pages have room for."""
        return len(holding.pages) * self.page_tokens

    def acquire(
        self,
        root: bytes,
        tokens: Sequence[int],
        total: int,
        *,
        spare: int = 0,
        later: bool = False,
    ) -> Holding | None:
        """Pages for `total` tokens that begin with `tokens`; None, changing nothing, without room.

        The last of `tokens` is never found: something has to be computed to go on from.

        Args:
            root: the key before the first page.
            spare: pages that must be left for others.
            later: take only pages that hold some of `tokens`; for the others there must be room.
        """
        holding = Holding(root)
        adoptable = len(tokens) - 1
        try:
            found = self._adopt(holding, tokens, adoptable)
            needed = self.pages_for(total) - len(holding.pages)
            taken = self._take(0, needed + spare) if later else self._take(needed, spare)
        except BaseException:
            self._pool.release(holding.pages)
            raise
        if taken is None:
            self._pool.release(holding.pages)
            return None
        holding.pages += taken
        holding.found = found
        self._index.touch(holding.keys)
        return holding

    def grow(self, holding: Holding, tokens: int) -> bool:
        """Make room for this many tokens in all; False, changing nothing, where there is none."""
        if tokens <= self.room(holding):
            return True
        taken = self._take(self.pages_for(tokens) - len(holding.pages), 0)
        if taken is None:
            return False
        holding.pages += taken
        return True

    def fork(self, holding: Holding, tokens: int, total: int, *, exact: int) -> Holding | None:
        """Pages for `total` tokens of which the first `tokens` are another sequence's own, and
        `exact` of these written by prefill.

        Full pages are shared, and the last is copied where it is not full. None without room.
        """
        full, rest = divmod(tokens, self.page_tokens)
        pages = holding.pages[:full]
        self._pool.share(pages)
        try:
            taken = self._take(self.pages_for(total) - full, 0)
            pages += taken or ()
            if taken and rest:
                self._mover.copy_page(holding.pages[full], taken[0])
        except BaseException:
            self._pool.release(pages)
            raise
        if taken is None:
            self._pool.release(pages)
            return None
        return Holding(holding.root, pages, holding.keys[:full], Found(tokens, exact=exact))

    def publish(self, holding: Holding, tokens: Sequence[int], written: int, exact: int) -> int:
        """Let others find the pages that a sequence has filled.

        Returns `exact`, or less where it has been given another's page in place of its own.

        Args:
            tokens: the sequence's tokens, of which `written` are in its pages.
            exact: how many of them, from the first, prefill has written.
        """
        for nth in range(len(holding.keys), written // self.page_tokens):
            start = nth * self.page_tokens
            content = tuple(tokens[start : start + self.page_tokens])
            parent = holding.keys[-1] if holding.keys else holding.root
            key = page_key(parent, content)
            sound = min(max(exact - start, 0), self.page_tokens)
            node = self._index.get(key)
            if node is None:
                self._add(Node(key, parent, holding.pages[nth], content, sound))
            elif self._inexact or sound == node.exact == self.page_tokens:
                # The same tokens twice: one page is enough.
                if node.exact < sound:
                    exact = start + node.exact
                self._pool.share([node.page])
                self._pool.release([holding.pages[nth]])
                holding.pages[nth] = node.page
            elif sound > node.exact:
                self._pool.share([holding.pages[nth]])
                self._pool.release([node.page])
                node.page, node.exact = holding.pages[nth], sound
                self._unsettled.add(node.key)
            holding.keys.append(key)
        return exact

    def retire(self, holding: Holding, tokens: Sequence[int], written: int, exact: int) -> None:
        """Take back a sequence's pages and keep what they hold; arguments as for `publish`."""
        exact = self.publish(holding, tokens, written, exact)
        keys = list(holding.keys)
        start = len(keys) * self.page_tokens
        tail = tuple(tokens[start:written])
        if tail:
            parent = keys[-1] if keys else holding.root
            key = page_key(parent, tail)
            sound = min(max(exact - start, 0), len(tail))
            known = self._index.longest(parent, tail, inexact=self._inexact)
            if self._index.get(key) is None and (known is None or known[1] < len(tail)):
                self._add(Node(key, parent, holding.pages[len(keys)], tail, sound))
            keys.append(key)
        self._index.touch(keys)
        self.discard(holding)

    def settle(self) -> None:
        """The device has answered: what was published until now is in its pages."""
        self._unsettled.clear()

    def distrust(self) -> None:
        """The device has failed, and perhaps with what it had only been handed: let nobody find
        pages published since it last answered."""
        for key in list(self._unsettled):
            node = self._index.get(key)
            if node is not None:
                self._drop(node)

    def withdraw(self, pages: Iterable[int]) -> None:
        """Let nobody find these pages, which hold what is not finite."""
        withdrawn = set(pages)
        for node in [node for node in self._index if node.page in withdrawn]:
            self._drop(node)

    def discard(self, holding: Holding) -> None:
        """Take back a sequence's pages; those it has not published are forgotten."""
        pages, holding.pages, holding.keys = holding.pages, [], []
        self._pool.release(pages)

    def keys_of(self, root: bytes, tokens: Sequence[int]) -> tuple[bytes, ...]:
        """The keys of the full pages on the device that hold the first of these tokens."""
        keys: list[bytes] = []
        for start in range(0, len(tokens) - self.page_tokens + 1, self.page_tokens):
            key = page_key(keys[-1] if keys else root, tokens[start : start + self.page_tokens])
            if self._index.get(key) is None:
                break
            keys.append(key)
        return tuple(keys)

    def pin(self, keys: Iterable[bytes], by: int = 1) -> None:
        """Keep the pages with these keys as long as they are pinned; -1 takes a pin away."""
        for key in keys:
            node = self._index.get(key)
            if node is not None:
                # A page that was distrusted has lost its pins.
                node.pins = max(node.pins + by, 0)

    def forget(self) -> None:
        """Drop all that is kept for the next sequences and not pinned, here and elsewhere."""
        while (node := self._oldest()) is not None:
            self._drop(node)
        if self._store is not None:
            self._store.clear()

    def flush(self) -> None:
        """Store all full pages, so that they may outlive the program; waits for the store."""
        for node in list(self._index):
            self._spill(node, wait=True)

    def check(self, holdings: Iterable[Holding]) -> list[str]:
        """What is inconsistent where sequences hold `holdings`, as sentences; empty if sound."""
        expected = [0] * len(self._pool)
        for page in [p for h in holdings for p in h.pages] + [n.page for n in self._index]:
            expected[page] += 1
        wrong = [
            f"Page {page} has {self._pool.owners(page)} owners, not {count}."
            for page, count in enumerate(expected)
            if self._pool.owners(page) != count
        ]
        return self._pool.check() + self._index.check() + wrong

    def _adopt(self, holding: Holding, tokens: Sequence[int], adoptable: int) -> Found:
        """Begin a holding with pages that are known to hold the first tokens."""
        device = restored = exact = 0
        parent = holding.root
        for start in range(0, adoptable - self.page_tokens + 1, self.page_tokens):
            content = tuple(tokens[start : start + self.page_tokens])
            key = page_key(parent, content)
            node = self._index.get(key)
            if node is not None and node.tokens == content and self._sound(node):
                self._pool.share([node.page])
                device += self.page_tokens
            elif node is None and (node := self._restore(key, parent, content)) is not None:
                self._pool.share([node.page])
                restored += self.page_tokens
            else:
                break
            if exact == start:
                exact += node.exact
            holding.pages.append(node.page)
            holding.keys.append(key)
            parent = key
        first = len(holding.pages) * self.page_tokens
        rest = tokens[first : min(first + self.page_tokens, adoptable)]
        found = self._index.longest(parent, rest, inexact=self._inexact)
        if found is not None:
            node, same = found
            if self._copy(node, holding):
                device += same
                if exact == first:
                    exact += min(node.exact, same)
        return Found(device, restored, exact)

    def _copy(self, node: Node, holding: Holding) -> bool:
        """Give a holding a page of its own with what a node's page holds; False without room."""
        self._pool.share([node.page])
        try:
            taken = self._take(1, 0)
            if taken is not None:
                holding.pages += taken
                self._mover.copy_page(node.page, taken[0])
        finally:
            self._pool.release([node.page])
        self._index.touch([node.key])
        return taken is not None

    def _take(self, count: int, spare: int) -> list[int] | None:
        """Pages nobody else has, older ones making room; None, where that is not enough."""
        count = max(count, 0)
        if self._pool.free + self.kept < count + spare:
            # Nobody has to go where that would not help.
            return None
        while self._pool.free < count + spare:
            node = self._oldest()
            if node is None:
                return None
            self._spill(node)
            self._drop(node)
        return self._pool.allocate(count)

    def _oldest(self) -> Node | None:
        """The page that was used least recently, of those that nobody needs."""
        for node in self._index:
            if not node.children and not node.pins and self._pool.owners(node.page) == 1:
                return node
        return None

    def _add(self, node: Node) -> None:
        self._pool.share([node.page])
        self._index.add(node)
        self._unsettled.add(node.key)

    def _drop(self, node: Node) -> None:
        self._index.remove(node)
        self._unsettled.discard(node.key)
        self._pool.release([node.page])

    def _sound(self, node: Node) -> bool:
        return self._inexact or node.exact == self.page_tokens

    def _spill(self, node: Node, *, wait: bool = False) -> None:
        """Store a page, if it is full, may be shared, and is not there already."""
        full = len(node.tokens) == self.page_tokens
        if self._store is None or not full or not self._sound(node):
            return
        if self._store.touch(node.key):
            return
        state = self._mover.read_page(node.page)
        if not self._finite(state):
            return
        self._store.put(node.key, pack(node.tokens, node.exact, state), wait=wait)
        self._moved(1, 0)

    def _restore(self, key: bytes, parent: bytes, content: tuple[int, ...]) -> Node | None:
        """Bring a page back from the store; None where it is not there, or there is no room."""
        data = None if self._store is None else self._store.get(key)
        found = None if data is None else unpack(data, content, self._mover.page_bytes)
        if found is None:
            return None
        exact, state = found
        node = Node(key, parent, -1, content, exact)
        if not self._sound(node):
            return None
        taken = self._take(1, 0)
        if taken is None:
            return None
        try:
            self._mover.write_page(taken[0], state)
        except BaseException:
            self._pool.release(taken)
            raise
        node.page = taken[0]
        self._index.add(node)
        self._unsettled.add(node.key)
        self._moved(0, 1)
        return node
