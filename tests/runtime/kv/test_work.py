"""What is done about pages costs what those pages cost, however many there are beside them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import log2

import pytest

from edgewise_runtime.kv.holding import Holding
from edgewise_runtime.kv.keys import KeyChain
from edgewise_runtime.kv.memory import PageMemory
from edgewise_runtime.kv.pages import PagePool
from edgewise_runtime.kv.prefix import MAX_SCANNED
from edgewise_runtime.kv.stored import Elsewhere
from tests.runtime.counting import instructions

PAGE_TOKENS = 16
ROOT = bytes(32)
PREFIX = 4
"""Pages of every prefix that is kept."""
SIZES = [count * PREFIX * MAX_SCANNED for count in (1, 2, 4)]


class Pages:
    """What moves pages, of which nobody looks at the contents."""

    page_bytes = 1

    def copy_page(self, source: int, target: int) -> None:
        pass

    def read_page(self, page: int) -> bytes:
        return b"x"

    def write_page(self, page: int, data: bytes) -> None:
        pass


def text(nth: int, pages: int = PREFIX) -> tuple[int, ...]:
    """The prefix with this number: no other one begins like it."""
    return (nth, *range(pages * PAGE_TOKENS - 1))


def hold(memory: PageMemory, tokens: tuple[int, ...]) -> Holding:
    """Pages for tokens and one more, in which they are written."""
    holding = memory.acquire(KeyChain(ROOT), tokens, len(tokens) + 1)
    assert holding is not None
    memory.publish(holding, tokens, len(tokens), len(tokens))
    return holding


def keep(memory: PageMemory, pages: int) -> None:
    """Let so many pages be kept that no sequence holds."""
    for nth in range(pages // PREFIX):
        holding = memory.acquire(KeyChain(ROOT), text(nth), PREFIX * PAGE_TOKENS)
        assert holding is not None
        memory.retire(holding, text(nth), PREFIX * PAGE_TOKENS, PREFIX * PAGE_TOKENS)
    memory.settle()
    assert memory.kept == pages


def full(pages: int) -> PageMemory:
    """All pages are kept for the next ones."""
    memory = PageMemory(Elsewhere(Pages()), pages, page_tokens=PAGE_TOKENS, inexact=False)
    keep(memory, pages)
    return memory


def in_use(pages: int) -> PageMemory:
    """All pages are known, and sequences hold three of four of them, those that came first."""
    memory = full(pages)
    for nth in range(pages // PREFIX * 3 // 4):
        memory.acquire(KeyChain(ROOT), (*text(nth), 0), PREFIX * PAGE_TOKENS + 1, later=True)
    memory.settle()
    assert memory.held == pages * 3 // 4
    return memory


def roomy(pages: int) -> PageMemory:
    """Most pages are free."""
    memory = PageMemory(Elsewhere(Pages()), pages, page_tokens=PAGE_TOKENS, inexact=False)
    keep(memory, SIZES[0] // 2)
    return memory


def at_the_bound(pages: int) -> PageMemory:
    """As many pages are kept as may be, and as many are free."""
    memory = PageMemory(
        Elsewhere(Pages()), 2 * pages, page_tokens=PAGE_TOKENS, inexact=False, keep=pages
    )
    keep(memory, pages)
    return memory


NEW = text(1 << 20)
Operation = Callable[[PageMemory], Callable[[], object]]
"""Makes ready and gives what is to be counted."""


def found(memory: PageMemory) -> tuple[int, ...]:
    """The last prefix that is kept, and a token to be computed after it."""
    return (*text((memory.kept + memory.held) // PREFIX - 1), 0)


def refused(memory: PageMemory) -> Callable[[], object]:
    total = (memory.free + memory.kept + 1) * PAGE_TOKENS
    return lambda: memory.acquire(KeyChain(ROOT), NEW, total)


def figures(memory: PageMemory) -> Callable[[], object]:
    return lambda: (len(memory), memory.free, memory.kept, memory.held)


def grow(memory: PageMemory) -> Callable[[], object]:
    holding = hold(memory, NEW)
    return lambda: memory.grow(holding, memory.room(holding) + PAGE_TOKENS)


def fork(memory: PageMemory) -> Callable[[], object]:
    holding = hold(memory, NEW)
    return lambda: memory.fork(holding, len(NEW) - 1, len(NEW) + 1, exact=len(NEW) - 1)


def publish(memory: PageMemory) -> Callable[[], object]:
    holding = memory.acquire(KeyChain(ROOT), NEW, len(NEW))
    assert holding is not None
    return lambda: memory.publish(holding, NEW, len(NEW), len(NEW))


def retire(memory: PageMemory) -> Callable[[], object]:
    holding = hold(memory, NEW)
    return lambda: memory.retire(holding, (*NEW, 1), len(NEW) + 1, len(NEW))


def discard(memory: PageMemory) -> Callable[[], object]:
    holding = hold(memory, NEW)
    return lambda: memory.discard(holding)


def distrust(memory: PageMemory) -> Callable[[], object]:
    hold(memory, NEW)
    return memory.distrust


def withdraw(memory: PageMemory) -> Callable[[], object]:
    holding = hold(memory, NEW)
    return lambda: memory.withdraw(holding.pages)


def pin(memory: PageMemory) -> Callable[[], object]:
    keys = memory.keys_of(KeyChain(ROOT), found(memory))
    return lambda: memory.pin(keys)


def unpin(memory: PageMemory) -> Callable[[], object]:
    keys = memory.keys_of(KeyChain(ROOT), found(memory))
    memory.pin(keys)
    return lambda: memory.pin(keys, -1)


def acquire(tokens: Callable[[PageMemory], tuple[int, ...]], **options: bool) -> Operation:
    def ready(memory: PageMemory) -> Callable[[], object]:
        chain, wanted = KeyChain(ROOT), tokens(memory)
        total = len(wanted) + 2 * PAGE_TOKENS
        return lambda: memory.acquire(chain, wanted, total, **options)

    return ready


OPERATIONS: dict[str, Operation] = {
    "look at the figures": figures,
    "grow": grow,
    "fork": fork,
    "publish": publish,
    "retire": retire,
    "discard": discard,
    "distrust": distrust,
    "withdraw": withdraw,
    "pin": pin,
    "unpin": unpin,
    "acquire what is new": acquire(lambda memory: NEW),
    "acquire for later": acquire(lambda memory: NEW, later=True),
    "acquire what is kept": acquire(found),
    "acquire what is kept in part": acquire(lambda memory: (*found(memory)[:-10], 0)),
    "be refused": refused,
}


@pytest.mark.parametrize("memory", [full, in_use, roomy, at_the_bound])
@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_work_does_not_grow_with_pages(
    operation: Operation, memory: Callable[[int], PageMemory]
) -> None:
    counts = [instructions(operation(memory(pages))) for pages in SIZES]
    assert counts == counts[:1] * len(SIZES)


@pytest.mark.parametrize("used", [0, 8])
def test_being_refused_again_costs_little(used: int) -> None:
    """However long the prompt is that begins as others do."""
    counts: list[int] = []
    for pages in (16, 48, 96):
        memory = full(SIZES[0])
        hold(memory, text(1 << 20, pages))
        chain, wanted = KeyChain(ROOT), text(1 << 20, pages + used)
        total = (len(memory) + 1) * PAGE_TOKENS
        assert memory.acquire(chain, wanted, total) is None
        counts.append(instructions(partial(memory.acquire, chain, wanted, total)))
    assert counts == counts[:1] * len(counts)


class Page(int):
    """The number of a page, which counts how often it is compared."""

    compared = 0

    def __lt__(self, other: int) -> bool:
        Page.compared += 1
        return int(self) < int(other)


@pytest.mark.parametrize("pages", SIZES)
def test_a_free_page_is_found_by_few_comparisons(pages: int) -> None:
    pool = PagePool(pages)
    taken = [Page(page) for page in pool.allocate(pages)]
    pool.release(taken[::2])
    pool.release(taken[1::2])
    Page.compared = 0
    for _ in range(PREFIX):
        (page,) = pool.allocate(1)
        pool.release([page])
    assert Page.compared <= PREFIX * 3 * log2(pages)


@pytest.mark.parametrize("memory", [full, in_use])
def test_forgetting_costs_as_much_for_every_page(memory: Callable[[int], PageMemory]) -> None:
    few, some, many = (instructions(memory(pages).forget) for pages in SIZES)
    assert (many - some) * (SIZES[1] - SIZES[0]) == (some - few) * (SIZES[2] - SIZES[1])


def test_those_that_are_admitted_make_room_as_they_grow() -> None:
    memory = full(SIZES[0])
    holding = memory.acquire(KeyChain(ROOT), NEW, SIZES[0] * PAGE_TOKENS, later=True)
    assert holding is not None
    assert (memory.kept, memory.held) == (SIZES[0], 0)
    for pages in range(1, 5):
        assert memory.grow(holding, pages * PAGE_TOKENS)
        assert (memory.kept, memory.held) == (SIZES[0] - pages, pages)
