"""No more pages are kept for later requests than may be; those used last are, cheaply."""

from __future__ import annotations

from edgewise_runtime.format.abi import PAGE_TOKENS
from edgewise_runtime.kv.keys import KeyChain
from edgewise_runtime.kv.memory import PageMemory
from edgewise_runtime.kv.spill import MemoryStore
from edgewise_runtime.kv.stored import Elsewhere, stored_bytes
from tests.runtime.kv.test_memory import PAGE_BYTES, ROOTS, Pages


def visited(memory: PageMemory, *texts: int) -> None:
    """A sequence of two full pages comes and goes, for each of these texts."""
    for text in texts:
        tokens = (text,) * (2 * PAGE_TOKENS)
        holding = memory.acquire(KeyChain(ROOTS[0]), tokens, len(tokens))
        assert holding is not None
        memory.retire(holding, tokens, len(tokens), len(tokens))


def known(memory: PageMemory, *texts: int) -> list[int]:
    """How many pages there are of each of these texts."""
    return [len(memory.keys_of(KeyChain(ROOTS[0]), (text,) * (2 * PAGE_TOKENS))) for text in texts]


def test_of_what_is_kept_beyond_the_bound_the_least_recently_used_goes() -> None:
    memory = PageMemory(Elsewhere(Pages(40)), 40, page_tokens=PAGE_TOKENS, inexact=True, keep=5)
    visited(memory, 1, 2, 3)
    # Ends before beginnings.
    assert known(memory, 1, 2, 3) == [1, 2, 2]
    visited(memory, 1, 4)
    assert known(memory, 1, 2, 3, 4) == [2, 0, 1, 2]
    assert (memory.idle, memory.kept, memory.free) == (5, 5, 35)


def test_what_is_pinned_does_not_count_until_it_is_not() -> None:
    memory = PageMemory(Elsewhere(Pages(40)), 40, page_tokens=PAGE_TOKENS, inexact=True, keep=2)
    for text in (1, 2, 3):
        visited(memory, text)
        memory.pin(memory.keys_of(KeyChain(ROOTS[0]), (text,) * (2 * PAGE_TOKENS)))
    visited(memory, 4)
    assert known(memory, 1, 2, 3, 4) == [2, 2, 2, 2]
    assert (memory.idle, memory.kept) == (2, 8)
    memory.pin(memory.keys_of(KeyChain(ROOTS[0]), (2,) * (2 * PAGE_TOKENS)), -1)
    assert known(memory, 1, 2, 3, 4) == [2, 2, 2, 0]


def test_what_a_sequence_holds_does_not_count() -> None:
    memory = PageMemory(Elsewhere(Pages(40)), 40, page_tokens=PAGE_TOKENS, inexact=True, keep=0)
    tokens = (1,) * (2 * PAGE_TOKENS)
    first = memory.acquire(KeyChain(ROOTS[0]), tokens, len(tokens))
    assert first is not None
    memory.publish(first, tokens, len(tokens), len(tokens))
    second = memory.acquire(KeyChain(ROOTS[0]), (*tokens, 2), len(tokens) + 1)
    assert second is not None
    assert second.found.total == len(tokens)
    memory.retire(first, tokens, len(tokens), len(tokens))
    assert known(memory, 1) == [2]
    memory.retire(second, (*tokens, 2), len(tokens), len(tokens))
    assert known(memory, 1) == [0]
    assert memory.free == len(memory)


def test_what_is_beyond_the_bound_is_stored_a_few_pages_at_a_time() -> None:
    pages, moves = Pages(40), [0, 0]

    def moved(spilled: int, restored: int) -> None:
        moves[0] += spilled
        moves[1] += restored

    store = MemoryStore(1 << 20)
    memory = PageMemory(
        Elsewhere(pages, store, moved=moved), 40, page_tokens=PAGE_TOKENS, inexact=True, keep=1
    )
    visited(memory, 1, 2, 3)
    assert (memory.idle, moves[0]) == (6, 0)
    assert [memory.trim(2), moves[0], memory.idle] == [True, 2, 4]
    assert [memory.trim(9), moves[0], memory.idle] == [False, 5, 1]
    assert known(memory, 1, 2, 3) == [0, 0, 1]
    visited(memory, 1)
    assert moves == [5, 1]
    # Those that are there already go at once.
    memory.flush()
    stored = moves[0]
    assert [memory.trim(1), moves[0], memory.idle] == [False, stored, 1]


def test_what_comes_back_from_a_store_does_not_pile_up_on_the_device() -> None:
    """Pages that were restored go again as fast as others come, whoever computes little."""
    store = MemoryStore(1 << 20)
    memory = PageMemory(
        Elsewhere(Pages(400), store), 400, page_tokens=PAGE_TOKENS, inexact=True, keep=4
    )
    texts = [(text,) * (8 * PAGE_TOKENS) for text in range(20)]
    most = 0
    for tokens in texts * 3:
        holding = memory.acquire(KeyChain(ROOTS[0]), tokens, len(tokens))
        assert holding is not None
        memory.retire(holding, tokens, len(tokens), len(tokens))
        memory.tidy()
        most = max(most, memory.idle)
    assert most == 4


def test_pages_given_up_are_used_again_before_others_are_touched() -> None:
    """Memory that no page was ever written to is not needed as long as little is kept."""
    pages = Pages(400)
    memory = PageMemory(Elsewhere(pages), 400, page_tokens=PAGE_TOKENS, inexact=True, keep=6)
    touched: set[int] = set()
    for text in range(100):
        tokens = (text,) * (4 * PAGE_TOKENS)
        holding = memory.acquire(KeyChain(ROOTS[0]), tokens, len(tokens))
        assert holding is not None
        touched |= set(holding.pages)
        memory.retire(holding, tokens, len(tokens), len(tokens))
    assert touched == set(range(6 + 4))


def test_closing_reads_no_more_pages_than_the_store_holds() -> None:
    store = MemoryStore(3 * stored_bytes(PAGE_TOKENS, PAGE_BYTES))
    moves = [0, 0]

    def moved(spilled: int, restored: int) -> None:
        moves[0] += spilled

    memory = PageMemory(
        Elsewhere(Pages(40), store, moved=moved), 40, page_tokens=PAGE_TOKENS, inexact=True
    )
    visited(memory, 1, 2, 3)
    last = memory.keys_of(KeyChain(ROOTS[0]), (3,) * (2 * PAGE_TOKENS))
    memory.flush()
    assert moves[0] == 3
    assert [key in store for key in last] == [True, True]
