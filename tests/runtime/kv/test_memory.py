"""Pages hold what they are said to, whoever shares, copies, evicts, stores or restores them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from edgewise_runtime.errors import DeviceError
from edgewise_runtime.format.abi import PAGE_TOKENS
from edgewise_runtime.format.state import pages_for
from edgewise_runtime.kv.holding import Holding
from edgewise_runtime.kv.keys import KeyChain
from edgewise_runtime.kv.memory import PageMemory
from edgewise_runtime.kv.spill import MemoryStore
from edgewise_runtime.kv.stored import Elsewhere, stored_bytes

WORD = 8
PAGE_BYTES = PAGE_TOKENS * WORD
ROOTS = (b"one" + bytes(29), b"two" + bytes(29))
MOST = 70
"""Tokens of a history."""

which = st.integers(0, 1 << 16)
histories = st.builds(
    lambda text, length, rest: (*[text] * length, *rest),
    st.integers(0, 1),
    st.integers(1, 50),
    st.lists(st.integers(0, 2), max_size=20),
)


def word(tokens: tuple[int, ...], exact: bool) -> bytes:
    """What a page holds of the last of these tokens."""
    return blake2b(bytes(tokens), digest_size=WORD - 1).digest() + bytes([exact])


class Pages:
    """What moves pages: their bytes in this process, and a device that may fail."""

    page_bytes = PAGE_BYTES

    def __init__(self, pages: int) -> None:
        self.data = [bytearray(PAGE_BYTES) for _ in range(pages)]
        self.fails_in = 0

    def copy_page(self, source: int, target: int) -> None:
        self._fail()
        self.data[target][:] = self.data[source]

    def read_page(self, page: int) -> bytes:
        self._fail()
        return bytes(self.data[page])

    def write_page(self, page: int, data: bytes) -> None:
        assert len(data) == PAGE_BYTES
        self.data[page][: PAGE_BYTES // 2] = data[: PAGE_BYTES // 2]
        self._fail()
        self.data[page][:] = data

    def _fail(self) -> None:
        self.fails_in -= 1
        if self.fails_in == 0:
            raise DeviceError("The pages are in flames.", code="device.kernel")


@dataclass(eq=False)
class Reader:
    """A sequence: its pages, and how much of what it knows is in them."""

    holding: Holding
    root: bytes
    tokens: tuple[int, ...]
    written: int
    exact: int

    @property
    def known(self) -> tuple[int, ...]:
        return self.tokens[: self.written]


class MemoryMachine(RuleBasedStateMachine):
    """Sequences come, write, fork and go."""

    @initialize(
        pages=st.one_of(st.integers(5, 14), st.just(400)),
        inexact=st.booleans(),
        stored=st.sampled_from([0, 3, 400]),
        keep=st.sampled_from([None, None, 0, 3]),
    )
    def begin(self, pages: int, inexact: bool, stored: int, keep: int | None) -> None:
        self.pages = Pages(pages)
        self.inexact = inexact
        self.moves = [0, 0]
        self.store = MemoryStore(stored * stored_bytes(PAGE_TOKENS, PAGE_BYTES)) if stored else None
        self.memory = PageMemory(
            Elsewhere(self.pages, self.store, moved=self._moved),
            pages,
            page_tokens=PAGE_TOKENS,
            inexact=inexact,
            keep=keep,
        )
        self.readers: list[Reader] = []
        self.waiting: list[tuple[KeyChain, tuple[int, ...], int, int]] = []
        self.pinned: list[tuple[bytes, tuple[int, ...], tuple[bytes, ...]]] = []
        self.published: dict[bytes, set[tuple[int, ...]]] = {root: set() for root in ROOTS}
        self.complete = pages == 400 and keep is None

    @rule(root=st.sampled_from(ROOTS), tokens=histories, more=st.integers(1, 20), spare=which)
    def acquire(self, root: bytes, tokens: tuple[int, ...], more: int, spare: int) -> None:
        self._acquire(KeyChain(root), tokens, len(tokens) + more, spare % 3)

    @precondition(lambda self: self.waiting)
    @rule(which=which)
    def ask_again(self, which: int) -> None:
        """One that there was no room for looks whether there is now."""
        self._acquire(*self.waiting.pop(which % len(self.waiting)))

    def _acquire(self, chain: KeyChain, tokens: tuple[int, ...], total: int, spare: int) -> None:
        root = chain.root
        left = len(self.memory) - len(self._needed())
        holding = self._try(lambda: self.memory.acquire(chain, tokens, total, spare=spare))
        if holding is None:
            assert self.failed or pages_for(total, PAGE_TOKENS) + spare > left
            self.waiting.append((chain, tokens, total, spare))
            return
        found = holding.found.total
        assert len(holding.pages) == pages_for(total, PAGE_TOKENS)
        assert 0 <= found < len(tokens)
        assert self.moves[1] > 0 or not holding.found.restored
        if self.complete and self.inexact and not self.failed_ever:
            assert found == max(
                (_common(known, tokens[:-1]) for known in self.published[root]), default=0
            )
        assert holding.found.exact == found or (self.inexact and holding.found.exact < found)
        self.readers.append(Reader(holding, root, tokens, found, holding.found.exact))

    @precondition(lambda self: self.readers)
    @rule(which=which, count=st.integers(1, 40), exact=st.booleans(), token=st.integers(0, 1))
    def write(self, which: int, count: int, exact: bool, token: int) -> None:
        """A sequence computes, past what it knew if need be."""
        reader = self.readers[which % len(self.readers)]
        end = min(reader.written + count, self.memory.room(reader.holding))
        reader.tokens += (token,) * (end - len(reader.tokens))
        for position in range(reader.written, end):
            page, slot = divmod(position, PAGE_TOKENS)
            number = reader.holding.pages[page]
            assert sum(number in other.holding.pages for other in self.readers) == 1
            start = slot * WORD
            self.pages.data[number][start : start + WORD] = word(
                reader.tokens[: position + 1], exact
            )
        if exact and reader.exact == reader.written:
            reader.exact = end
        reader.written = end
        self._publish(reader)

    @precondition(lambda self: self.readers)
    @rule(which=which, count=st.integers(1, 30))
    def grow(self, which: int, count: int) -> None:
        reader = self.readers[which % len(self.readers)]
        left = len(self.memory) - len(self._needed())
        wanted = self.memory.room(reader.holding) + count
        before = list(reader.holding.pages)
        if self._try(lambda: self.memory.grow(reader.holding, wanted) or None):
            assert self.memory.room(reader.holding) >= wanted
        else:
            assert self.failed or pages_for(wanted, PAGE_TOKENS) - len(before) > left
            assert reader.holding.pages == before

    @precondition(lambda self: self.readers)
    @rule(which=which, tokens=st.integers(0, MOST), more=st.integers(1, 20))
    def fork(self, which: int, tokens: int, more: int) -> None:
        reader = self.readers[which % len(self.readers)]
        shared = min(tokens, reader.written)
        if shared:
            exact, total = min(shared, reader.exact), shared + more
            fork = self._try(lambda: self.memory.fork(reader.holding, shared, total, exact=exact))
            if fork is not None:
                assert (fork.found.total, fork.found.exact) == (shared, exact)
                self.readers.append(
                    Reader(fork, reader.root, reader.tokens[:shared], shared, exact)
                )

    @rule(root=st.sampled_from(ROOTS), tokens=histories, more=st.integers(1, 40))
    def visit(self, root: bytes, tokens: tuple[int, ...], more: int) -> None:
        """A sequence comes, computes all there is to, and goes."""
        before = len(self.readers)
        self.acquire(root, tokens, more, 0)
        if len(self.readers) > before:
            self.write(before, len(tokens) + more, True, more % 2)
            self.leave(before, True)

    @precondition(lambda self: self.readers)
    @rule(which=which)
    def make_room(self, which: int) -> None:
        self.leave(which, which % 4 > 0)

    @precondition(lambda self: self.readers)
    @rule(which=which, keep=st.booleans())
    def leave(self, which: int, keep: bool) -> None:
        reader = self.readers.pop(which % len(self.readers))
        if keep:
            self.memory.retire(reader.holding, reader.tokens, reader.written, reader.exact)
            self.published[reader.root].add(reader.known)
        else:
            self.memory.discard(reader.holding)
        assert reader.holding.pages == []

    @precondition(lambda self: self.readers)
    @rule(which=which)
    def pin(self, which: int) -> None:
        reader = self.readers[which % len(self.readers)]
        keys = self.memory.keys_of(KeyChain(reader.root), reader.known)
        self.memory.pin(keys)
        self.pinned.append((reader.root, reader.known, keys))

    @precondition(lambda self: self.pinned)
    @rule(which=which)
    def unpin(self, which: int) -> None:
        self.memory.pin(self.pinned.pop(which % len(self.pinned))[2], -1)

    @rule()
    def forget(self) -> None:
        self.memory.forget()
        assert len(self.memory) - self.memory.free == len(self._needed())
        for root in ROOTS:
            held = [r.known for r in self.readers if r.root == root]
            kept = [known for pinned, known, _ in self.pinned if pinned == root]
            full = [known[: len(known) // PAGE_TOKENS * PAGE_TOKENS] for known in held + kept]
            self.published[root] = set(full)
        # What a page that stays follows stays too, and more of it than anybody pinned.
        self.complete = self.complete and not self.pinned

    @rule(settled=st.booleans())
    def answer(self, settled: bool) -> None:
        """The device has done what it was handed, or perhaps it has not."""
        if settled:
            self.memory.settle()
        else:
            self.memory.distrust()
            self.distrusted, self.complete = True, False
            for _, _, keys in self.pinned:
                self.memory.pin(keys, -1)
            self.pinned.clear()

    @rule(most=st.integers(0, 3))
    def trim(self, most: int) -> None:
        """What is kept beyond the bound goes, some pages in one go."""
        memory, before, stored = self.memory, self.memory.idle, self.moves[0]
        more = self._try(lambda: memory.trim(most) or None)
        assert self.moves[0] - stored <= most
        assert memory.idle >= min(before, memory.keep)
        if not self.failed:
            # Those that are stored already, or never, come on top.
            assert memory.idle <= max(min(before, memory.keep), before - most)
            assert bool(more) == (memory.idle > memory.keep)

    @rule()
    def flush(self) -> None:
        self._try(self.memory.flush)

    @rule(calls=st.integers(1, 6))
    def fail_later(self, calls: int) -> None:
        self.pages.fails_in = calls

    @invariant()
    def sound(self) -> None:
        memory = self.memory
        assert memory.check([reader.holding for reader in self.readers]) == []
        assert memory.free + memory.kept + len(self._held()) == len(memory)
        assert memory.free + memory.idle + len(self._needed()) == len(memory)
        # Without a store nothing takes time, and nothing is put off.
        assert self.store is not None or memory.idle <= memory.keep
        assert memory.held == len(self._held())
        for reader in self.readers:
            data = b"".join(bytes(self.pages.data[page]) for page in reader.holding.pages)
            for position in range(reader.written):
                found = data[position * WORD : (position + 1) * WORD]
                exact = position < reader.exact or bool(found[-1])
                assert found == word(reader.tokens[: position + 1], exact), position
            if self.inexact and not self.distrusted:
                keys = reader.holding.keys
                assert (
                    list(memory.keys_of(KeyChain(reader.root), reader.known))[: len(keys)] == keys
                )
        for root, known, keys in self.pinned:
            assert memory.keys_of(KeyChain(root), known)[: len(keys)] == keys

    def teardown(self) -> None:
        if hasattr(self, "memory"):
            self.pages.fails_in = 0
            for reader in self.readers:
                self.memory.discard(reader.holding)
            for _, _, keys in self.pinned:
                self.memory.pin(keys, -1)
            self.memory.forget()
            assert self.memory.free == len(self.memory)

    def _publish(self, reader: Reader) -> None:
        args = (reader.tokens, reader.written, reader.exact)
        exact = self.memory.publish(reader.holding, *args)
        assert exact == reader.exact or (self.inexact and exact < reader.exact)
        reader.exact = exact
        full = reader.written // PAGE_TOKENS * PAGE_TOKENS
        self.published[reader.root].add(reader.tokens[:full])

    def _held(self) -> set[int]:
        return {page for reader in self.readers for page in reader.holding.pages}

    def _needed(self) -> set[int]:
        """Pages that cannot go: those of sequences and pins, and what they follow."""
        index = self.memory._shelf.index
        held, needed = self._held(), set[int]()
        for node in index:
            if node.pins or node.page in held:
                above = node
                while above is not None:
                    needed.add(above.page)
                    above = index.get(above.parent)
        return needed | held

    def _moved(self, spilled: int, restored: int) -> None:
        self.moves[0] += spilled
        self.moves[1] += restored

    failed = failed_ever = distrusted = False

    def _try(self, operation: Callable[[], Holding | bool | None]) -> Holding | bool | None:
        """Do something on a device that may fail."""
        self.failed = False
        try:
            return operation()
        except DeviceError:
            self.failed = self.failed_ever = True
            return None


TestMemoryMachine = MemoryMachine.TestCase


def _common(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    return next(
        (i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
        min(len(one), len(other)),
    )


def test_a_page_in_place_of_ones_own_tells_who_wrote_it() -> None:
    memory = PageMemory(Elsewhere(Pages(8)), 8, page_tokens=PAGE_TOKENS, inexact=True)
    tokens = (1,) * PAGE_TOKENS
    decoded = memory.acquire(KeyChain(ROOTS[0]), tokens[:1], PAGE_TOKENS)
    prefilled = memory.acquire(KeyChain(ROOTS[0]), tokens[:1], PAGE_TOKENS)
    assert decoded is not None
    assert prefilled is not None
    assert memory.publish(decoded, tokens, PAGE_TOKENS, 5) == 5
    assert memory.publish(prefilled, tokens, PAGE_TOKENS, PAGE_TOKENS) == 5
    assert prefilled.pages == decoded.pages


@pytest.mark.parametrize(("page_tokens", "pages", "full"), [(4, 5, 4), (16, 2, 1), (32, 1, 0)])
def test_pages_hold_as_many_tokens_as_is_said(page_tokens: int, pages: int, full: int) -> None:
    memory = PageMemory(Elsewhere(Pages(8)), 8, page_tokens=page_tokens, inexact=True)
    tokens = tuple(range(18))
    holding = memory.acquire(KeyChain(ROOTS[0]), tokens, len(tokens))
    assert holding is not None
    assert len(holding.pages) == pages
    assert memory.room(holding) == pages * page_tokens
    memory.publish(holding, tokens, len(tokens), len(tokens))
    assert len(holding.keys) == len(memory.keys_of(KeyChain(ROOTS[0]), tokens)) == full
    memory.discard(holding)
    again = memory.acquire(KeyChain(ROOTS[0]), tokens, len(tokens))
    assert again is not None
    assert again.found.total == full * page_tokens
    assert memory.check([again]) == []
