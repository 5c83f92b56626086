"""Of what is elsewhere of a model with windows as much comes back as its windows allow, never more.

Which pages are there is drawn; how many of them can begin a text is found by trying all counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise_runtime.errors import DeviceError
from edgewise_runtime.format.abi import PAGE_TOKENS
from edgewise_runtime.format.manifest import StateGroup
from edgewise_runtime.format.state import Footprint, group_key, page_rows, row_bytes
from edgewise_runtime.kv.finite import PageNumbers
from edgewise_runtime.kv.holding import GONE, Holding
from edgewise_runtime.kv.keys import KeyChain
from edgewise_runtime.kv.spill import MemoryStore
from edgewise_runtime.kv.stored import Elsewhere, stored_bytes
from edgewise_runtime.kv.windowed import WindowedMemory
from tests.runtime.kv.test_memory import PAGE_BYTES, ROOTS, Pages

ROOT = ROOTS[0]
COUNT = 7
TEXT = tuple(range(COUNT * PAGE_TOKENS))
SIZE = stored_bytes(PAGE_TOKENS, PAGE_BYTES)
WINDOWS = [(None, 20), (33, None), (20,), (None, 1, 48), (None, None, 24, 1000)]
Windows = tuple[int | None, ...]


def footprint(windows: Windows) -> Footprint:
    return Footprint(windows, PAGE_TOKENS, PAGE_TOKENS)


def contents(group: int, tokens: Sequence[int], nth: int) -> bytes:
    """What the page of a group holds."""
    text = bytes(tokens[: (nth + 1) * PAGE_TOKENS])
    return blake2b(text, key=bytes([group]), digest_size=32).digest() * (PAGE_BYTES // 32)


@dataclass
class Torn(MemoryStore):
    """A store some of whose pages turn out not to be what they seem when they are read."""

    def __init__(self) -> None:
        super().__init__(1 << 20)
        self.torn: set[bytes] = set()

    def get(self, key: bytes) -> bytes | None:
        page = super().get(key)
        return bytes(len(page)) if page is not None and key in self.torn else page


@dataclass
class Source:
    """Pages of a bundle."""

    pages: dict[bytes, bytes] = field(default_factory=dict)

    def get(self, key: bytes) -> bytes | None:
        return self.pages.get(key)

    def __contains__(self, key: bytes) -> bool:
        return key in self.pages


def compute(memory: WindowedMemory, pages: Pages, holding: Holding, tokens: Sequence[int]) -> None:
    """Fill the pages of a sequence a step at a time, all by prefill."""
    for end in range(PAGE_TOKENS, len(tokens) + 1, PAGE_TOKENS):
        assert memory.grow(holding, end)
        nth = end // PAGE_TOKENS - 1
        for group, row in enumerate(holding.rows):
            if len(holding.keys) <= nth:
                pages.data[row[nth]][:] = contents(group, tokens, nth)
        memory.publish(holding, tokens, max(end, holding.written), end)


def visited(memory: WindowedMemory, pages: Pages, asked: int, tokens: Sequence[int] = TEXT) -> None:
    """Somebody asks so many tokens, and the others are the answer."""
    holding = memory.acquire(KeyChain(ROOT), tokens[:asked], asked, later=True)
    assert holding is not None
    compute(memory, pages, holding, tokens)
    memory.retire(holding, tokens, len(tokens), len(tokens))


def memory_of(windows: Windows, elsewhere: Elsewhere, pages: int = 60) -> WindowedMemory:
    return WindowedMemory(elsewhere, pages, footprint=footprint(windows), inexact=True)


def most(windows: Windows, there: set[tuple[int, int]]) -> int:
    """How many pages can begin a text, of those that are there."""
    return max(count for count in range(COUNT + 1) if there.issuperset(_needs(windows, count)))


places = st.sets(st.tuples(st.integers(0, 3), st.integers(0, COUNT - 1)), max_size=9)


@given(windows=st.sampled_from(WINDOWS), gone=places, torn=places, bundled=places)
def test_as_much_comes_back_as_the_windows_allow(
    windows: Windows,
    gone: set[tuple[int, int]],
    torn: set[tuple[int, int]],
    bundled: set[tuple[int, int]],
) -> None:
    pages, store, source = Pages(60), Torn(), Source()
    memory = memory_of(windows, Elsewhere(pages, store, source))
    visited(memory, pages, len(TEXT))
    memory.flush()
    keys = memory.keys_of(KeyChain(ROOT), TEXT)
    every = {(group, nth) for group in range(len(windows)) for nth in range(COUNT)}
    names = {(group, nth): group_key(keys[nth], group) for group, nth in every}
    assert all(name in store for name in names.values())
    memory._stock.drop_idle()
    for place in bundled & every:
        source.pages[names[place]] = store.get(names[place]) or b""
    store.torn = {names[place] for place in torn & every}
    for place in gone & every:
        store.discard(names[place])

    holding = memory.acquire(KeyChain(ROOT), (*TEXT, 0), len(TEXT) + 1, later=True)
    assert holding is not None
    assert memory.check([holding]) == []
    count = most(windows, (every - gone - torn) | (bundled & every))
    found = holding.found
    assert (found.total, found.device) == (count * PAGE_TOKENS, 0)
    sizes = footprint(windows)
    for group, (row, window) in enumerate(zip(holding.rows, windows, strict=True)):
        behind = sizes.behind(window, count * PAGE_TOKENS)
        assert row[:behind] == [GONE] * behind
        for nth, page in enumerate(row[behind:], behind):
            assert pages.data[page] == contents(group, TEXT, nth)
    seen = [[place for place in _needs(windows, count) if place[1] == n] for n in range(count)]
    whole = [n for n, places in enumerate(seen) if places and bundled.issuperset(places)]
    unseen = sum(not places for places in seen)
    assert found.shipped == (len(whole) + unseen * (unseen in whole)) * PAGE_TOKENS
    assert found.restored == found.total - found.shipped
    # It goes on as if it had computed all of it.
    compute(memory, pages, holding, TEXT)
    memory.retire(holding, TEXT, len(TEXT), len(TEXT))
    assert memory.check([]) == []
    assert len(memory.keys_of(KeyChain(ROOT), TEXT)) == COUNT


def _needs(windows: Windows, count: int) -> list[tuple[int, int]]:
    """The pages with which a text goes on after so many."""
    behind = [footprint(windows).behind(window, count * PAGE_TOKENS) for window in windows]
    return [(group, nth) for group, first in enumerate(behind) for nth in range(first, count)]


@pytest.mark.parametrize("asked", [1, 3 * PAGE_TOKENS, len(TEXT)])
def test_what_an_answer_leaves_behind_its_window_is_not_stored(asked: int) -> None:
    pages, store = Pages(60), MemoryStore(1 << 20)
    memory = memory_of((None, 20), Elsewhere(pages, store))
    visited(memory, pages, asked)
    memory.flush()
    keys = memory.keys_of(KeyChain(ROOT), TEXT)
    kept = {nth for nth, key in enumerate(keys) if group_key(key, 1) in store}
    assert kept == {*range(-(-asked // PAGE_TOKENS)), *range(4, COUNT)}
    assert all(key in store for key in keys)


def test_an_end_that_was_gone_on_from_stays_worth_storing() -> None:
    pages, store = Pages(60), MemoryStore(1 << 20)
    memory = memory_of((None, 20), Elsewhere(pages, store))
    visited(memory, pages, 1, TEXT[: 5 * PAGE_TOKENS])
    visited(memory, pages, 1 + 5 * PAGE_TOKENS)
    memory.flush()
    keys = memory.keys_of(KeyChain(ROOT), TEXT)
    assert [nth for nth, key in enumerate(keys) if group_key(key, 1) in store] == [0, 2, 3, 4, 5, 6]


def test_a_window_without_a_page_is_neither_found_nor_pinned() -> None:
    pages = Pages(60)
    memory = memory_of((None, 20), Elsewhere(pages))
    visited(memory, pages, len(TEXT))
    chain = KeyChain(ROOT)
    assert memory.found(chain, (*TEXT, 0)) == len(memory.keys_of(chain, TEXT)) == COUNT
    last = memory._rack.get(1, chain.before(COUNT))
    assert last is not None
    memory._rack.drop(last)
    assert memory.found(chain, (*TEXT, 0)) == len(memory.keys_of(chain, TEXT)) == COUNT - 1


def test_no_more_pages_are_read_for_the_store_than_are_asked_for() -> None:
    pages, moves = Pages(60), [0, 0]

    def moved(spilled: int, restored: int) -> None:
        moves[0] += spilled
        moves[1] += restored

    store = MemoryStore(1 << 20)
    elsewhere = Elsewhere(pages, store, moved=moved)
    memory = WindowedMemory(elsewhere, 60, footprint=footprint((None, 20)), inexact=True, keep=2)
    visited(memory, pages, len(TEXT))
    assert (memory.idle, moves[0]) == (2 * COUNT, 0)
    assert [memory.trim(3), moves[0], memory.idle] == [True, 3, 2 * COUNT - 3]
    assert [memory.trim(99), moves[0], memory.idle] == [False, 2 * COUNT - 2, 2]
    again = memory.acquire(KeyChain(ROOT), (*TEXT, 0), len(TEXT) + 1, later=True)
    assert again is not None
    assert (again.found.total, again.found.restored) == (len(TEXT), (COUNT - 2) * PAGE_TOKENS)
    assert moves[1] == COUNT


def test_a_device_that_fails_while_pages_come_back_leaves_none_behind() -> None:
    for calls in range(1, 8):
        pages, store = Pages(60), MemoryStore(1 << 20)
        memory = memory_of((None, 20, 33), Elsewhere(pages, store))
        visited(memory, pages, len(TEXT))
        memory.flush()
        memory._stock.drop_idle()
        pages.fails_in = calls
        with pytest.raises(DeviceError):
            memory.acquire(KeyChain(ROOT), (*TEXT, 0), len(TEXT) + 1, later=True)
        assert memory.check([]) == []
        assert memory.held == 0


def test_pages_that_come_back_do_not_take_the_place_of_those_that_are_there() -> None:
    """What is idle and needed is not what makes room, though it was used before all else."""
    pages, store = Pages(14), MemoryStore(1 << 20)
    memory = memory_of((None, 20), Elsewhere(pages, store), pages=14)
    visited(memory, pages, len(TEXT))
    memory.flush()
    keys = memory.keys_of(KeyChain(ROOT), TEXT)
    for group, nth in [*((0, nth) for nth in range(3)), *((1, nth) for nth in range(5))]:
        kept = memory._rack.get(group, keys[nth])
        assert kept is not None
        memory._rack.drop(kept)
    for other in range(50, 54):
        visited(memory, pages, PAGE_TOKENS, (other,) * PAGE_TOKENS)
    assert memory.free == 0
    window = [group_key(keys[nth], 1) for nth in (5, 6)]
    for name in window:
        store.discard(name)
    again = memory.acquire(KeyChain(ROOT), (*TEXT, 0), len(TEXT) + 1, later=True)
    assert again is not None
    assert (again.found.total, again.found.restored) == (len(TEXT), 3 * PAGE_TOKENS)
    assert not any(name in store for name in window)


GROUPS = [
    StateGroup("paged", layers, window, 4, 1, 2, buffers, scales)
    for layers, window, buffers, scales in (
        ((0, 3, 4), None, ("kv.0", "kv.1", "kv.2"), ("kv_scale.0", "kv_scale.1", "kv_scale.2")),
        ((1, 2), 8, ("kv.0", "kv.1"), ("kv_scale.0", "kv_scale.1")),
    )
]


@pytest.mark.parametrize("dtype", ["float16", "float32", "int8"])
def test_what_others_have_left_in_a_page_is_not_stored_with_it(dtype: str) -> None:
    """Nor does it decide whether it is stored: NaN of others is none of its numbers."""
    rows = page_rows(GROUPS[0], dtype)
    data = {name: bytearray(np.full(row_bytes(row), 1, np.uint8)) for name, row in rows.items()}
    left = [name for name in data if name.endswith("2")]
    assert len(left) == 1 + (dtype == "int8")
    for name in left:
        data[name][:] = b"\xff" * len(data[name])
    page = b"".join(bytes(row) for row in data.values())
    own = PageNumbers(GROUPS[1], dtype, GROUPS[0]).own(page)
    for name in left:
        data[name][:] = bytes(len(data[name]))
    assert own == b"".join(bytes(row) for row in data.values())
    assert PageNumbers(GROUPS[0], dtype).own(page) is None
