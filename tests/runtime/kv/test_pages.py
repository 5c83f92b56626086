"""The page pool: no page is lost, doubled or freed while owned, whatever happens to it."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from edgewise_runtime.errors import InputError
from edgewise_runtime.format.state import pages_for
from edgewise_runtime.kv.pages import PagePool, PageTable

PAGES = 12


class PoolMachine(RuleBasedStateMachine):
    """The pool against a multiset of owners."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = PagePool(PAGES)
        self.owned: list[list[int]] = []

    @rule(k=st.integers(0, PAGES + 2))
    def allocate(self, k: int) -> None:
        free = self.pool.free
        if k > free:
            with pytest.raises(InputError):
                self.pool.allocate(k)
            return
        lowest = [page for page in range(PAGES) if not self.pool.owners(page)][:k]
        taken = self.pool.allocate(k)
        assert taken == lowest
        self.owned.append(taken)

    @precondition(lambda self: self.owned)
    @rule(data=st.data())
    def share(self, data: st.DataObject) -> None:
        pages = data.draw(st.sampled_from(self.owned))
        part = pages[: data.draw(st.integers(0, len(pages)))]
        self.pool.share(part)
        self.owned.append(list(part))

    @precondition(lambda self: self.owned)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        index = data.draw(st.integers(0, len(self.owned) - 1))
        self.pool.release(self.owned.pop(index))

    @rule(page=st.integers(-2, PAGES + 2), extra=st.integers(1, 3))
    def release_too_often(self, page: int, extra: int) -> None:
        owners = sum(pages.count(page) for pages in self.owned)
        with pytest.raises(InputError):
            self.pool.release([*(page for _ in range(owners)), *(page for _ in range(extra))])

    @rule(page=st.integers(-2, PAGES + 2))
    def share_what_is_free(self, page: int) -> None:
        if not any(page in pages for pages in self.owned):
            owned = [pages[0] for pages in self.owned if pages]
            with pytest.raises(InputError):
                self.pool.share([*owned, page])

    @invariant()
    def owners_are_those_expected(self) -> None:
        expected = Counter(page for pages in self.owned for page in pages)
        assert [self.pool.owners(page) for page in range(PAGES)] == [
            expected[page] for page in range(PAGES)
        ]
        assert self.pool.free == PAGES - len(expected)
        assert self.pool.check() == []


TestPool = PoolMachine.TestCase


def test_a_pool_needs_pages() -> None:
    assert len(PagePool(3)) == 3
    for n in (0, -1):
        with pytest.raises(InputError):
            PagePool(n)


def test_the_check_finds_what_is_wrong() -> None:
    pool = PagePool(4)
    pool.allocate(2)
    pool._owners[0] = 0
    assert pool.check() == ["Page 0 has 0 owners and is not free."]
    pool._owners[0] = 1
    pool._free.append(1)
    assert pool.check() == ["Page 1 has 1 owners and is also free."]
    pool._free = [2]
    assert pool.check() == ["A page is twice in the free list."]
    pool._free, pool._untouched = [3, 2], 4
    assert pool.check() == ["The free list is out of order."]
    pool._free = [2, 3]
    assert pool.check() == []


@pytest.mark.parametrize(("tokens", "pages"), [(0, 0), (1, 1), (16, 1), (17, 2), (32, 2)])
def test_tokens_fill_pages(tokens: int, pages: int) -> None:
    assert pages_for(tokens, 16) == pages
    assert pages_for(tokens, 1) == tokens


def test_a_table_grows_page_by_page() -> None:
    pool = PagePool(8)
    table = PageTable(pool, most=4, page_tokens=16)
    assert table.reserve(17)
    assert (table.pages, table.missing(32), table.missing(33)) == ([0, 1], 0, 1)
    pool.allocate(1)
    assert table.reserve(33)
    assert table.pages == [0, 1, 3]
    assert table.reserve(5)
    assert table.pages == [0, 1, 3]
    table.release()
    assert (table.pages, pool.free) == ([], 7)


def test_a_table_that_cannot_grow_stays_as_it_is() -> None:
    pool = PagePool(3)
    table = PageTable(pool, most=8, page_tokens=16)
    assert table.reserve(32)
    assert not table.reserve(64)
    assert (table.pages, pool.free) == ([0, 1], 1)
    with pytest.raises(InputError, match="at most 128 tokens"):
        table.reserve(129)
