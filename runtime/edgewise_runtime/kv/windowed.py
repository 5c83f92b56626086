"""KV memory of models with windows: pages that lie behind a window are given back.

Each state group has its own pages of every sequence, all of one pool. A sequence that begins alike
can share as many pages as there are of the groups without windows, from the first, as long as there
are those, too, that the window before the next token covers (as vLLM's hybrid KV cache manager
finds the longest hit of several groups). What has to go is not kept elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from edgewise_runtime.format.state import Footprint, pages_for
from edgewise_runtime.kv.holding import GONE, Found, Holding
from edgewise_runtime.kv.keys import KeyChain, page_key
from edgewise_runtime.kv.rack import Kept, Rack
from edgewise_runtime.kv.stored import PageMover


class WindowedMemory:
    """All pages of a program with windows; a `KvMemory`, whose methods `PageMemory` describes.

    Args:
        mover: whose pages they are.
        pages: how many.
        footprint: how many of them sequences take.
        inexact: whether pages that decode has written may be shared.
        keep: pages for the next sequences that may be kept, None for any number.
    """

    def __init__(
        self,
        mover: PageMover,
        pages: int,
        *,
        footprint: Footprint,
        inexact: bool,
        keep: int | None = None,
    ) -> None:
        self.page_tokens = footprint.page_tokens
        self.keep = pages if keep is None else min(keep, pages)
        self._mover = mover
        self._footprint = footprint
        self._groups = range(len(footprint.windows))
        self._inexact = inexact
        self._rack = Rack(pages)

    def __len__(self) -> int:
        return len(self._rack.pool)

    @property
    def free(self) -> int:
        return self._rack.pool.free

    @property
    def kept(self) -> int:
        return self._rack.unheld

    @property
    def idle(self) -> int:
        return self._rack.idle

    @property
    def held(self) -> int:
        return self._rack.held

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
        count = self._longest(chain, tokens, (len(tokens) - 1) // self.page_tokens)
        found = list(self._needed(chain, count))
        mine = sum(self._rack.is_idle(kept) for kept in found)
        if self.pages_for(total) + spare - len(found) > self._rack.room - mine:
            return None
        holding = Holding(chain, beside=tuple([] for _ in self._groups[1:]))
        whole = False
        try:
            holding.found = self._begin(holding, tokens, count)
            whole = later or self._extend(holding, total)
        finally:
            if not whole:
                self.discard(holding)
        if not whole:
            return None
        holding.written = holding.found.total
        return holding

    def grow(self, holding: Holding, tokens: int) -> bool:
        if tokens <= self.room(holding):
            return True
        self._leave_behind(holding)
        return self._extend(holding, tokens)

    def can_fork(self, holding: Holding, tokens: int) -> bool:
        """Whether a sequence still has what the token after its first `tokens` sees."""
        return all(
            GONE not in row[self._footprint.behind(window, tokens) : self._pages(tokens)]
            for row, window in zip(holding.rows, self._footprint.windows, strict=True)
        )

    def fork(self, holding: Holding, tokens: int, total: int, *, exact: int) -> Holding | None:
        full, rest = divmod(tokens, self.page_tokens)
        if (self._pages(total) - full) * len(self._groups) > self._rack.room:
            return None
        keys = holding.keys[:full]
        fork = Holding(
            KeyChain(holding.chain.root, keys),
            beside=tuple([] for _ in self._groups[1:]),
            keys=keys,
            found=Found(tokens, exact=exact),
            written=tokens,
        )
        for mine, row, window in zip(fork.rows, holding.rows, self._footprint.windows, strict=True):
            behind = min(self._footprint.behind(window, tokens), full)
            self._rack.hold(row[behind:full])
            mine += [GONE] * behind + row[behind:full]
        whole = False
        try:
            if self._extend(fork, total):
                if rest:
                    for mine, row in zip(fork.rows, holding.rows, strict=True):
                        self._mover.copy_page(row[full], mine[full])
                whole = True
        finally:
            if not whole:
                self.discard(fork)
        return fork if whole else None

    def publish(self, holding: Holding, tokens: Sequence[int], written: int, exact: int) -> int:
        holding.written = written
        for nth in range(len(holding.keys), written // self.page_tokens):
            start = nth * self.page_tokens
            content = self._content(tokens, nth)
            key, before = holding.chain.key(nth, content), holding.chain.before(nth)
            sound = min(max(exact - start, 0), self.page_tokens)
            for group, row in enumerate(holding.rows):
                kept, page = self._rack.get(group, key), row[nth]
                if kept is None:
                    self._rack.add(Kept(group, key, before, page, content, sound))
                elif self._inexact or sound == kept.exact == self.page_tokens:
                    # The same tokens twice: one page is enough.
                    if kept.exact < sound:
                        exact = min(exact, start + kept.exact)
                    self._rack.hold([kept.page])
                    self._rack.release([page])
                    row[nth] = kept.page
                elif sound > kept.exact:
                    self._rack.replace(kept, page)
                    kept.exact = sound
            holding.keys.append(key)
        return exact

    def retire(self, holding: Holding, tokens: Sequence[int], written: int, exact: int) -> None:
        exact = self.publish(holding, tokens, written, exact)
        full, rest = divmod(written, self.page_tokens)
        last = list(self._needed(holding.chain, full))
        if rest:
            tail = tuple(tokens[full * self.page_tokens : written])
            parent = holding.chain.before(full)
            key = page_key(parent, tail)
            known = self._rack.longest(parent, tail, inexact=self._inexact)
            if known is None or known[1] < len(tail) or known[0].key == key:
                sound = min(max(exact - full * self.page_tokens, 0), len(tail))
                for group, row in enumerate(holding.rows):
                    if self._rack.get(group, key) is None:
                        self._rack.add(Kept(group, key, parent, row[full], tail, sound))
                    last += [kept for kept in [self._rack.get(group, key)] if kept is not None]
        self._rack.touch(last)
        self.discard(holding)

    def settle(self) -> None:
        self._rack.settle()

    def distrust(self) -> None:
        self._rack.distrust()
        self.trim(0)

    def withdraw(self, pages: Iterable[int]) -> None:
        self._rack.withdraw(pages)
        self.trim(0)

    def discard(self, holding: Holding) -> None:
        # What lies at the same place of every group goes together.
        columns = zip(*holding.rows, strict=True)
        pages = [page for column in columns for page in column if page != GONE]
        for row in holding.rows:
            row.clear()
        holding.keys = []
        self._rack.release(pages)
        self.trim(0)

    def trim(self, most: int) -> bool:
        """Let pages go that are more than may be kept, all at once: none is stored."""
        while self.idle > self.keep:
            self._rack.evict()
        return False

    def tidy(self) -> bool:
        return self.trim(0)

    def key(self, chain: KeyChain, tokens: Sequence[int], nth: int) -> bytes | None:
        content = self._content(tokens, nth)
        return chain.key(nth, content) if len(content) == self.page_tokens else None

    def found(self, chain: KeyChain, tokens: Sequence[int], pages: int = 0) -> int:
        return self._longest(chain, tokens, (len(tokens) - 1) // self.page_tokens)

    def keys_of(self, chain: KeyChain, tokens: Sequence[int]) -> tuple[bytes, ...]:
        count = self._longest(chain, tokens, len(tokens) // self.page_tokens)
        return tuple(chain.before(nth + 1) for nth in range(count))

    def read(self, chain: KeyChain, tokens: Sequence[int]) -> list[tuple[bytes, bytes]]:
        """Nothing: pages of one group alone would not begin a text."""
        return []

    def pin(self, keys: Iterable[bytes], by: int = 1) -> None:
        """Pin what the pages called so are and what begins where they end: of a group with a window
        the last of them."""
        names = list(keys)
        for group, window in enumerate(self._footprint.windows):
            for key in names[self._footprint.behind(window, len(names) * self.page_tokens) :]:
                kept = self._rack.get(group, key)
                if kept is not None:
                    self._rack.pin(kept, by)
        self.trim(0)

    def forget(self) -> None:
        self._rack.drop_idle()

    def flush(self) -> None:
        """Nothing is stored."""

    def check(self, holdings: Iterable[Holding]) -> list[str]:
        wrong, pages = [], list[int]()
        for holding in holdings:
            pages += holding.held
            if {len(row) for row in holding.rows} != {len(holding.pages)}:
                wrong.append("A sequence has rows of different lengths.")
            if not self.can_fork(holding, holding.written):
                wrong.append(f"A sequence lacks pages that token {holding.written} sees.")
            mosts = map(self._footprint.most, self._footprint.windows)
            for row, most in zip(holding.rows, mosts, strict=True):
                if most is not None and sum(page != GONE for page in row) > most:
                    wrong.append(f"A sequence has more than {most} pages of a window.")
        return self._rack.check(pages) + wrong

    def _pages(self, tokens: int) -> int:
        return pages_for(tokens, self.page_tokens)

    def _content(self, tokens: Sequence[int], nth: int) -> tuple[int, ...]:
        return tuple(tokens[nth * self.page_tokens : (nth + 1) * self.page_tokens])

    def _extend(self, holding: Holding, tokens: int) -> bool:
        """Give all groups pages for so many tokens; False, changing nothing, without room."""
        more = max(self._pages(tokens) - len(holding.pages), 0)
        taken = self._rack.take(more * len(self._groups))
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
            self._rack.release(pages[::-1], behind=True)

    def _sound(self, kept: Kept | None, content: tuple[int, ...]) -> bool:
        """Whether a full page may be shared."""
        if kept is None or kept.tokens != content:
            return False
        return self._inexact or kept.exact == self.page_tokens

    def _longest(self, chain: KeyChain, tokens: Sequence[int], most: int) -> int:
        """How many pages, `most` at the outside, can begin a sequence of these tokens."""
        keys: list[tuple[bytes, tuple[int, ...]]] = []
        whole = [g for g, window in enumerate(self._footprint.windows) if window is None]
        for nth in range(most):
            content = self._content(tokens, nth)
            key = chain.key(nth, content)
            if not all(self._sound(self._rack.get(group, key), content) for group in whole):
                break
            keys.append((key, content))
        count = len(keys)
        while count:
            missing = max(self._missing(keys, count, group) for group in self._groups)
            if missing < 0:
                break
            # Fewer pages that still need this one are too many, too.
            count = missing
        return count

    def _missing(
        self, keys: Sequence[tuple[bytes, tuple[int, ...]]], count: int, group: int
    ) -> int:
        """The last page of a group with a window that is not there and that so many pages need;
        -1 where none is."""
        window = self._footprint.windows[group]
        if window is None:
            return -1
        first = self._footprint.behind(window, count * self.page_tokens)
        for nth in range(count - 1, first - 1, -1):
            key, content = keys[nth]
            if not self._sound(self._rack.get(group, key), content):
                return nth
        return -1

    def _needed(self, chain: KeyChain, count: int) -> Iterator[Kept]:
        """What is kept of the pages with which a sequence goes on after so many."""
        firsts = [
            self._footprint.behind(window, count * self.page_tokens)
            for window in self._footprint.windows
        ]
        for nth in range(count):
            for group, first in enumerate(firsts):
                kept = self._rack.get(group, chain.before(nth + 1)) if nth >= first else None
                if kept is not None:
                    yield kept

    def _begin(self, holding: Holding, tokens: Sequence[int], count: int) -> Found:
        """Begin a holding with the first `count` pages of these tokens, and with a copy of the one
        of which only the first tokens fit. What it has been given before something fails, it
        holds."""
        size, chain = self.page_tokens, holding.chain
        exact = count * size
        for group, (row, window) in enumerate(
            zip(holding.rows, self._footprint.windows, strict=True)
        ):
            first = self._footprint.behind(window, count * size)
            row += [GONE] * first
            for nth in range(first, count):
                kept = self._rack.known[group, chain.before(nth + 1)]
                self._rack.hold([kept.page])
                row.append(kept.page)
                kept.used = True
                if kept.exact < size:
                    # Where the first that is left has none, nothing is known of those before it.
                    known = nth * size + kept.exact if kept.exact or not nth else 0
                    exact = min(exact, known)
        holding.keys += [chain.before(nth + 1) for nth in range(count)]
        start = count * size
        rest = tokens[start : min(start + size, len(tokens) - 1)]
        found = self._rack.longest(chain.before(count), rest, inexact=self._inexact)
        if found is None or not self._copy(holding, found[0].key):
            return Found(start, exact=exact)
        if exact == start:
            exact += min(found[0].exact, found[1])
        return Found(start + found[1], exact=exact)

    def _copy(self, holding: Holding, key: bytes) -> bool:
        """Give a holding a page of its own in every group with what a page holds; False where it is
        not there or there is no room."""
        sources = [self._rack.get(group, key) for group in self._groups]
        pages = [kept.page for kept in sources if kept is not None]
        if len(pages) < len(sources):
            return False
        self._rack.hold(pages)
        try:
            taken = self._rack.take(len(pages))
            if taken is None:
                return False
            for row, page in zip(holding.rows, taken, strict=True):
                row.append(page)
            for source, page in zip(pages, taken, strict=True):
                self._mover.copy_page(source, page)
        finally:
            self._rack.release(pages)
        self._rack.touch(kept for kept in sources if kept is not None)
        return True
