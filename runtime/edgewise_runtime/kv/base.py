"""What an engine asks of KV memory, whichever groups of state it is for: pages that hold what
sequences know already, and room for more.

Pages of earlier sequences stay until their room is needed. What has to go may be kept elsewhere
(`stored.Elsewhere`) and comes back when it is asked for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, Generic, TypeAlias

from edgewise_runtime.errors import EngineError
from edgewise_runtime.format.state import Footprint, group_key, pages_for
from edgewise_runtime.kv.holding import GONE, Found, Holding
from edgewise_runtime.kv.keys import KeyChain, page_key
from edgewise_runtime.kv.stock import K, Stock
from edgewise_runtime.kv.stored import Elsewhere

TIDIED = 4
"""Pages that are stored in one go because more are kept than may be."""


@dataclass
class Prefix:
    """The full pages of a prefix, as they are kept elsewhere.

    Attributes:
        keys: of its pages, in order.
        pages: their bytes, of every group that has them, by what they are called there.
    """

    keys: tuple[bytes, ...] = ()
    pages: dict[bytes, bytes] = field(default_factory=dict)


class Memory(ABC, Generic[K]):
    """All pages of a program, those of sequences and those kept for the next ones.

    `memory.PageMemory` is that of bundles whose sequences keep all their pages,
    `windowed.WindowedMemory` that of bundles with windows.

    Args:
        stock: the pages.
        footprint: how many of them sequences take.
        elsewhere: where pages are that are not on the device.
        inexact: whether pages that decode has written may be shared, which is right to the bit
            only where decode and prefill agree (`Program.decode_agrees`).
        keep: pages for the next sequences that may be kept, those that are pinned not counted; None
            for as many as there is room for.

    Attributes:
        page_tokens: how many tokens each page holds.
        keep: how many pages may be idle.
    """

    def __init__(
        self,
        stock: Stock[K],
        footprint: Footprint,
        elsewhere: Elsewhere,
        *,
        inexact: bool,
        keep: int | None,
    ) -> None:
        pages = len(stock.pool)
        self.page_tokens = footprint.page_tokens
        self.keep = pages if keep is None else min(keep, pages)
        self._stock = stock
        self._footprint = footprint
        self._elsewhere = elsewhere
        self._inexact = inexact

    @abstractmethod
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

    @abstractmethod
    def found(self, chain: KeyChain, tokens: Sequence[int], pages: int = 0) -> int:
        """How many full pages on the device hold the first of these tokens and may be shared.

        It costs what has changed since there were `pages`.

        Args:
            chain: the keys of `tokens`, as far as they have been computed.
        """

    @abstractmethod
    def keys_of(
        self, chain: KeyChain, tokens: Sequence[int], *, exact: bool = False
    ) -> tuple[bytes, ...]:
        """The keys of the full pages on the device that hold the first of these tokens.

        Args:
            chain: the keys of `tokens`, as far as they have been computed.
            exact: only of those that prefill has written.
        """

    @abstractmethod
    def pin(self, keys: Iterable[bytes], by: int = 1) -> None:
        """Keep the pages with these keys, of one text from its first, as long as they are pinned;
        -1 takes a pin away."""

    def __len__(self) -> int:
        return len(self._stock.pool)

    @property
    def free(self) -> int:
        """Pages that hold nothing."""
        return self._stock.pool.free

    @property
    def kept(self) -> int:
        """Pages that no sequence holds, kept for the next ones."""
        return self._stock.unheld

    @property
    def idle(self) -> int:
        """Pages that nothing needs: of `kept` those that are not pinned, nor before one that is."""
        return self._stock.idle

    @property
    def held(self) -> int:
        """Pages that sequences hold; one that several hold counts once."""
        return self._stock.held

    def pages_for(self, tokens: int) -> int:
        """The most pages that so many tokens of a sequence take, of all groups."""
        return self._footprint.pages(tokens)

    def lacking(self, holding: Holding | None, tokens: int) -> int:
        """How many pages more so many tokens take than a sequence has, at most."""
        if holding is None:
            return self.pages_for(tokens)
        more = max(pages_for(tokens, self.page_tokens) - len(holding.pages), 0)
        lacking = 0
        for row, window in zip(holding.rows, self._footprint.windows, strict=True):
            most = self._footprint.most(window)
            held = sum(page != GONE for page in row[-(most or 0) :]) if more and most else 0
            lacking += more if most is None else min(more, max(most - held, 0))
        return lacking

    def room(self, holding: Holding) -> int:
        """Tokens that a holding's pages have room for."""
        return len(holding.pages) * self.page_tokens

    def grow(self, holding: Holding, tokens: int) -> bool:
        """Make room for this many tokens in all; False, giving no pages, where there is none."""
        if tokens <= self.room(holding):
            return True
        self._leave_behind(holding)
        return self._extend(holding, tokens)

    def can_fork(self, holding: Holding, tokens: int) -> bool:
        """Whether a sequence still has what the token after its first `tokens` sees, so that
        another one can begin with them."""
        return all(
            window is None
            or GONE not in row[self._footprint.behind(window, tokens) : self._pages(tokens)]
            for row, window in zip(holding.rows, self._footprint.windows, strict=True)
        )

    def fork(self, holding: Holding, tokens: int, total: int, *, exact: int) -> Holding | None:
        """Pages for `total` tokens of which the first `tokens` are another sequence's own, and
        `exact` of these written by prefill.

        Full pages are shared, and the last is copied where it is not full. None without room.
        """
        full, rest = divmod(tokens, self.page_tokens)
        if (self._pages(total) - full) * len(holding.rows) > self._stock.room:
            return None
        keys = holding.keys[:full]
        fork = Holding(
            KeyChain(holding.chain.root, keys),
            beside=tuple([] for _ in holding.beside),
            keys=keys,
            found=Found(tokens, exact=exact),
            written=tokens,
            asked=tokens,
        )
        for mine, row, window in zip(fork.rows, holding.rows, self._footprint.windows, strict=True):
            behind = min(self._footprint.behind(window, tokens), full)
            self._stock.hold(row[behind:full])
            mine += [GONE] * behind + row[behind:full]
        whole = False
        try:
            if self._extend(fork, total):
                if rest and len(fork.pages) > full:
                    for mine, row in zip(fork.rows, holding.rows, strict=True):
                        self._elsewhere.mover.copy_page(row[full], mine[full])
                whole = True
        finally:
            if not whole:
                self.discard(fork)
        return fork if whole else None

    def publish(self, holding: Holding, tokens: Sequence[int], written: int, exact: int) -> int:
        """Let others find the pages that a sequence has filled.

        Returns `exact`, or less where it has been given another's page in place of its own.

        Args:
            tokens: the sequence's tokens, of which `written` are in its pages.
            exact: how many of them, from the first, prefill has written.
        """
        holding.written = written
        stock = self._stock
        for nth in range(len(holding.keys), written // self.page_tokens):
            start = nth * self.page_tokens
            content = self._content(tokens, nth)
            key, before = holding.chain.key(nth, content), holding.chain.before(nth)
            sound = min(max(exact - start, 0), self.page_tokens)
            answer = start >= holding.asked
            for group, row in enumerate(holding.rows):
                known, page = stock.get(group, key), row[nth]
                if known is None:
                    stock.add(stock.kind(key, before, page, content, sound, group, answer))
                    continue
                known.answer &= answer
                if self._inexact or sound == known.exact == self.page_tokens:
                    # The same tokens twice: one page is enough.
                    if known.exact < sound:
                        exact = min(exact, start + known.exact)
                    stock.hold([known.page])
                    stock.release([page])
                    row[nth] = known.page
                elif sound > known.exact:
                    stock.replace(known, page)
                    known.exact = sound
            holding.keys.append(key)
        return exact

    def retire(self, holding: Holding, tokens: Sequence[int], written: int, exact: int) -> None:
        """Take back a sequence's pages and keep what they hold; arguments as for `publish`."""
        exact = self.publish(holding, tokens, written, exact)
        stock, full = self._stock, len(holding.keys)
        start = full * self.page_tokens
        tail = tuple(tokens[start:written])
        last = list(self._needed(holding.chain, full))
        if tail:
            parent = holding.chain.before(full)
            key = page_key(parent, tail)
            sound = min(max(exact - start, 0), len(tail))
            best = stock.longest(parent, tail, inexact=self._inexact)
            wanted = best is None or best[1] < len(tail) or best[0].key == key
            for group, row in enumerate(holding.rows):
                known = stock.get(group, key)
                if known is None and wanted:
                    known = stock.kind(key, parent, row[full], tail, sound, group)
                    stock.add(known)
                last += [] if known is None else [known]
        stock.touch(last)
        self.discard(holding)

    def settle(self) -> None:
        """The device has answered: what was published until now is in its pages."""
        self._stock.settle()

    def distrust(self) -> None:
        """The device has failed, and perhaps with what it had only been handed: let nobody find
        pages published since it last answered."""
        self._stock.distrust()
        self.trim(0)

    def withdraw(self, pages: Iterable[int]) -> None:
        """Let nobody find these pages, which hold what is not finite."""
        self._stock.withdraw(pages)
        self.trim(0)

    def discard(self, holding: Holding) -> None:
        """Take back a sequence's pages; those it has not published are forgotten."""
        # What lies at the same place of every group goes together.
        columns = zip_longest(*holding.rows, fillvalue=GONE)
        pages = [page for column in columns for page in column if page != GONE]
        for row in holding.rows:
            row.clear()
        holding.keys = []
        self._stock.release(pages)
        self.trim(0)

    def trim(self, most: int) -> bool:
        """Let pages go that are more than may be kept, those whose turn it is first.

        Returns whether there are still more.

        Args:
            most: how many may be stored for that, which takes time. Without a store all go at once.
        """
        while self.idle > self.keep and (most > 0 or self._elsewhere.store is None):
            most -= self._stock.evict()
        return self.idle > self.keep

    def tidy(self) -> bool:
        """As `trim` of so few that nobody waits long, but of more than were taken since."""
        most, self._stock.taken = TIDIED + 2 * self._stock.taken, 0
        return self.trim(most)

    def key(self, chain: KeyChain, tokens: Sequence[int], nth: int) -> bytes | None:
        """The key of a full page of these tokens, None for one that is not; the keys of those
        before it are known to the chain."""
        content = self._content(tokens, nth)
        return chain.key(nth, content) if len(content) == self.page_tokens else None

    def read(self, chain: KeyChain, tokens: Sequence[int]) -> Prefix:
        """The pages with which sequences go on that begin with these tokens, as far as they are
        full, on the device and written by prefill.

        Raises:
            EngineError: ``engine.not_finite`` where one holds what is not finite.
        """
        prefix = Prefix(self.keys_of(chain, tokens, exact=True))
        for known in self._needed(chain, len(prefix.keys)):
            state = self._elsewhere.read(known)
            if state is None:
                raise EngineError(
                    "A page of the prefix holds what is not finite.", code="engine.not_finite"
                )
            prefix.pages[group_key(known.key, known.group)] = state
        return prefix

    def forget(self) -> None:
        """Drop all that is kept for the next sequences and not pinned, here and elsewhere."""
        self._stock.drop_idle()
        if self._elsewhere.store is not None:
            self._elsewhere.store.clear()

    def flush(self) -> None:
        """Store the full pages that were used last, as many as the store holds, so that they may
        outlive the program; waits for the store."""
        if self._elsewhere.store is not None:
            lasting = [known for known in self._stock if self._storable(known)]
            for known in lasting[max(len(lasting) - self._elsewhere.room(self.page_tokens), 0) :]:
                self._elsewhere.keep(known, wait=True)

    def check(self, holdings: Iterable[Holding]) -> list[str]:
        """What is inconsistent where sequences hold `holdings`, as sentences; empty if sound."""
        return self._stock.check(page for holding in holdings for page in holding.held)

    def _pages(self, tokens: int) -> int:
        return pages_for(tokens, self.page_tokens)

    def _content(self, tokens: Sequence[int], nth: int) -> tuple[int, ...]:
        return tuple(tokens[nth * self.page_tokens : (nth + 1) * self.page_tokens])

    def _extend(self, holding: Holding, tokens: int) -> bool:
        """Give all groups pages for so many tokens; False, changing nothing, without room."""
        more = max(self._pages(tokens) - len(holding.pages), 0)
        taken = self._stock.take(more * len(holding.rows))
        if taken is None:
            return False
        for group, row in enumerate(holding.rows):
            row += taken[group * more : (group + 1) * more]
        return True

    def _leave_behind(self, holding: Holding) -> None:
        """Give back what no token sees that follows those written."""
        for row, window in zip(holding.rows, self._footprint.windows, strict=True):
            nth = min(self._footprint.behind(window, holding.written), len(row))
            pages: list[int] = []
            while nth and row[nth - 1] != GONE:
                nth -= 1
                pages.append(row[nth])
                row[nth] = GONE
            self._stock.release(pages[::-1], behind=True)

    def _needed(self, chain: KeyChain, count: int) -> Iterator[K]:
        """What is known of the pages with which a sequence goes on after so many."""
        firsts = [
            self._footprint.behind(window, count * self.page_tokens)
            for window in self._footprint.windows
        ]
        for nth in range(count):
            for group, first in enumerate(firsts):
                known = self._stock.get(group, chain.before(nth + 1)) if nth >= first else None
                if known is not None:
                    yield known

    def _sound(self, known: K) -> bool:
        """Whether a full page may be shared."""
        return self._inexact or known.exact == self.page_tokens

    def _storable(self, known: K) -> bool:
        """Whether a page may be stored: it is full and may be shared."""
        return len(known.tokens) == self.page_tokens and self._sound(known)

    def _leave(self, known: K) -> bool:
        """Store a page that has to go, if there is where and it may be; whether it was."""
        return self._storable(known) and self._elsewhere.keep(known)


KvMemory: TypeAlias = Memory[Any]
"""The memory of an engine, of whichever kind."""
