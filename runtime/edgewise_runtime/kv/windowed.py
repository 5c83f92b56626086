"""KV memory of models with windows: pages that lie behind a window are given back.

Each state group has its own pages of every sequence, all of one pool. A sequence that begins alike
can share as many pages as there are of the groups without windows, from the first, as long as there
are those, too, that the window before the next token covers (as vLLM's hybrid KV cache manager
finds the longest hit of several groups), wherever they are: on the device, in the bundle, or where
they were stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from edgewise_runtime.format.state import Footprint
from edgewise_runtime.kv.adoption import Beginning
from edgewise_runtime.kv.base import Memory
from edgewise_runtime.kv.holding import GONE, Found, Holding
from edgewise_runtime.kv.keys import KeyChain
from edgewise_runtime.kv.rack import Kept, Rack
from edgewise_runtime.kv.stored import Elsewhere

There = Callable[[int, int], bool]
"""Whether there is a full page of a group, by its number in a text, that may be shared."""


class WindowedMemory(Memory[Kept]):
    """All pages of a program with windows.

    Args:
        elsewhere: where pages are that are not on the device, and whose they are.
        pages: how many there are.
        footprint, inexact, keep: as for `Memory`.
    """

    def __init__(
        self,
        elsewhere: Elsewhere,
        pages: int,
        *,
        footprint: Footprint,
        inexact: bool,
        keep: int | None = None,
    ) -> None:
        self._rack = Rack(pages, self._leave)
        super().__init__(self._rack, footprint, elsewhere, inexact=inexact, keep=keep)
        self._beginning = Beginning(self._rack, elsewhere, self.page_tokens, inexact)
        self._groups = range(len(footprint.windows))

    def acquire(
        self,
        chain: KeyChain,
        tokens: Sequence[int],
        total: int,
        *,
        spare: int = 0,
        later: bool = False,
    ) -> Holding | None:
        most = (len(tokens) - 1) // self.page_tokens
        pages = self.pages_for(total) + spare
        count = self._longest(chain, tokens, most, self._here(chain, tokens))
        if not self._fits(chain, count, pages):
            return None
        if self._elsewhere.any:
            # Who is refused asks again at each step, and not where that takes time.
            more = self._longest(chain, tokens, most, self._anywhere(chain, tokens))
            if more > count and self._fits(chain, more, pages):
                count = more
        holding = Holding(chain, beside=tuple([] for _ in self._groups[1:]), asked=len(tokens))
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

    def found(self, chain: KeyChain, tokens: Sequence[int], pages: int = 0) -> int:
        most = (len(tokens) - 1) // self.page_tokens
        return self._longest(chain, tokens, most, self._here(chain, tokens))

    def keys_of(
        self, chain: KeyChain, tokens: Sequence[int], *, exact: bool = False
    ) -> tuple[bytes, ...]:
        most = len(tokens) // self.page_tokens
        count = self._longest(chain, tokens, most, self._here(chain, tokens, exact=exact))
        return tuple(chain.before(nth + 1) for nth in range(count))

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

    def check(self, holdings: Iterable[Holding]) -> list[str]:
        holdings = list(holdings)
        wrong: list[str] = []
        for holding in holdings:
            if {len(row) for row in holding.rows} != {len(holding.pages)}:
                wrong.append("A sequence has rows of different lengths.")
            if not self.can_fork(holding, holding.written):
                wrong.append(f"A sequence lacks pages that token {holding.written} sees.")
            mosts = map(self._footprint.most, self._footprint.windows)
            for row, most in zip(holding.rows, mosts, strict=True):
                if most is not None and sum(page != GONE for page in row) > most:
                    wrong.append(f"A sequence has more than {most} pages of a window.")
        return super().check(holdings) + wrong

    def _storable(self, known: Kept) -> bool:
        """Of a group with a window not what an answer has left behind it: texts go on where another
        ends, or somewhere in what was asked, hardly ever in the middle of an answer."""
        return super()._storable(known) and not (known.behind and known.answer)

    def _fits(self, chain: KeyChain, count: int, pages: int) -> bool:
        """Whether there is room for this many pages, of which some hold the first `count` pages of
        a text and may be here already. Those in use take no room."""
        found = list(self._needed(chain, count))
        idle = sum(self._rack.is_idle(kept) for kept in found)
        return pages - len(found) <= self._rack.room - idle

    def _here(self, chain: KeyChain, tokens: Sequence[int], *, exact: bool = False) -> There:
        """Tells of pages on the device; their keys are known to the chain."""

        def there(group: int, nth: int) -> bool:
            kept = self._rack.get(group, chain.before(nth + 1))
            if kept is None or kept.tokens != self._content(tokens, nth):
                return False
            return kept.exact == self.page_tokens if exact else self._sound(kept)

        return there

    def _anywhere(self, chain: KeyChain, tokens: Sequence[int]) -> There:
        """As `_here`, of pages that seem to be elsewhere as well."""
        here = self._here(chain, tokens)

        def there(group: int, nth: int) -> bool:
            if here(group, nth):
                return True
            key = chain.before(nth + 1)
            # The one on the device may not be shared: another is not taken in by its name.
            return self._rack.get(group, key) is None and self._elsewhere.has(group, key)

        return there

    def _longest(
        self, chain: KeyChain, tokens: Sequence[int], most: int, there: There, known: int = 0
    ) -> int:
        """How many pages, `most` at the outside, can begin a sequence of these tokens.

        Args:
            known: how many pages of groups without windows are there for sure.
        """
        windows = self._footprint.windows
        whole = [group for group in self._groups if windows[group] is None]
        count = min(known, most)
        while count < most:
            chain.key(count, self._content(tokens, count))
            if not all(there(group, count) for group in whole):
                break
            count += 1
        while count:
            missing = max(self._missing(count, group, there) for group in self._groups)
            if missing < 0:
                break
            # Fewer pages that still need this one are too many, too.
            count = missing
        return count

    def _missing(self, count: int, group: int, there: There) -> int:
        """The last page of a group with a window that is not there and that so many pages need;
        -1 where none is."""
        window = self._footprint.windows[group]
        if window is None:
            return -1
        first = self._footprint.behind(window, count * self.page_tokens)
        return next((nth for nth in range(count - 1, first - 1, -1) if not there(group, nth)), -1)

    def _begin(self, holding: Holding, tokens: Sequence[int], count: int) -> Found:
        """Begin a holding with the first `count` pages of these tokens, or as many as can be had,
        and with a copy of the one of which only the first tokens fit. What it has been given before
        something fails, it holds."""
        size, chain = self.page_tokens, holding.chain
        brought: dict[tuple[int, int], bool] = {}
        while (missing := self._fill(holding, tokens, count, brought)) is not None:
            # It only seemed to be there, or there is no room for it.
            rows = zip(holding.rows, self._footprint.windows, strict=True)
            whole = min((len(row) for row, window in rows if window is None), default=0)
            there = self._anywhere(chain, tokens)
            count = self._longest(chain, tokens, missing, there, known=whole)
        exact = count * size
        for group, row in enumerate(holding.rows):
            for nth in range(row.count(GONE), count):
                kept = self._rack.known[group, chain.before(nth + 1)]
                kept.used = True
                if kept.exact < size:
                    # Where the first that is left has none, nothing is known of those before it.
                    known = nth * size + kept.exact if kept.exact or not nth else 0
                    exact = min(exact, known)
        holding.keys += [chain.before(nth + 1) for nth in range(count)]
        device, from_bundle = self._places(holding, count, brought)
        same, exact = self._beginning.copy_rest(holding, tokens, exact)
        return Found(
            device=device * size + same,
            restored=(count - device - from_bundle) * size,
            shipped=from_bundle * size,
            exact=exact,
        )

    def _places(
        self, holding: Holding, count: int, brought: dict[tuple[int, int], bool]
    ) -> tuple[int, int]:
        """For how many of the first pages' tokens everything was on the device, and for how many
        the rest was in the bundle."""
        shipped: dict[int, bool] = {}
        for (_, nth), with_bundle in brought.items():
            if nth < count:
                shipped[nth] = with_bundle and shipped.get(nth, True)
        # What nobody sees any more was where that was without which nobody could go on from there.
        first = min(row.count(GONE) for row in holding.rows)
        if first in shipped:
            shipped |= dict.fromkeys(range(first), shipped[first])
        return count - len(shipped), sum(shipped.values())

    def _fill(
        self,
        holding: Holding,
        tokens: Sequence[int],
        count: int,
        brought: dict[tuple[int, int], bool],
    ) -> int | None:
        """Give a holding the pages with which it goes on after so many; None, or the number of the
        first that cannot be had.

        Args:
            brought: takes in which pages of which groups were elsewhere, and whether in the bundle.
        """
        chain, windows = holding.chain, self._footprint.windows
        # They are not to make room for those that are brought.
        here = [kept.page for kept in self._needed(chain, count) if self._sound(kept)]
        self._rack.hold(here)
        try:
            # Where a page lacks without which all that follow are of no use, no others are brought.
            for group in sorted(self._groups, key=lambda group: windows[group] is not None):
                row = holding.rows[group]
                first = self._footprint.behind(windows[group], count * self.page_tokens)
                stays = count if windows[group] is None else 0
                self._rack.release([page for page in row[stays:] if page != GONE])
                row[stays:] = [GONE] * first
                for nth in range(len(row), count):
                    key = chain.before(nth + 1)
                    kept = self._rack.get(group, key)
                    if kept is None:
                        content = self._content(tokens, nth)
                        kept = Kept(key, chain.before(nth), -1, content, 0, group)
                        found = self._beginning.bring(row, kept)
                        if found is None:
                            return nth
                        brought[group, nth] = found.shipped
                    elif self._sound(kept):
                        self._rack.hold([kept.page])
                        row.append(kept.page)
                    else:
                        return nth
        finally:
            self._rack.release(here)
        return None
