"""A disk that is too slow, or fails: pages are dropped and counted, and nobody waits."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from time import sleep

import pytest

from edgewise_runtime.kv.write_behind import WriteBehind
from tests.runtime.counting import instructions
from tests.runtime.kv.held_disk import SOON, HeldDisk, held, on_disk
from tests.runtime.kv.test_page_disk import PAGE, file_of, key, page


def test_where_the_disk_is_too_slow_those_are_dropped_that_were_not_used_for_longest(
    disk: HeldDisk, tmp_path: Path
) -> None:
    dropped: list[int] = []
    store = WriteBehind(disk, room=3 * PAGE, on_dropped=dropped.append)
    held(disk, store)
    for number in (1, 2):
        store.put(key(number), page(number))
    assert store.touch(key(1))
    for number in (3, 4):
        store.put(key(number), page(number))
        assert store.touch(key(1))
        assert store.bytes_queued == 3 * PAGE
    assert [number for number in range(5) if key(number) in store] == [0, 1, 4]
    assert sum(dropped) == 2
    disk.going.set()
    store.close()
    assert on_disk(tmp_path) == [0, 1, 4]
    assert sum(dropped) == 2


def test_a_page_larger_than_what_may_wait_is_dropped_alone(disk: HeldDisk, tmp_path: Path) -> None:
    dropped: list[int] = []
    store = WriteBehind(disk, room=PAGE - 1, on_dropped=dropped.append)
    store.put(key(1), page(1))
    store.put(key(2), page(2), wait=True)
    assert (sum(dropped), key(1) in store, store.bytes_queued) == (2, False, 0)
    store.close()
    assert on_disk(tmp_path) == []


def test_uses_that_the_disk_has_not_heard_of_are_forgotten_before_pages(
    disk: HeldDisk, tmp_path: Path
) -> None:
    store = WriteBehind(disk, room=2 * PAGE)
    store.put(key(9), page(9))
    store.wait()
    disk.begun.clear()
    held(disk, store)
    assert store.touch(key(9))
    store.discard(key(8))
    store.put(key(1), page(1))
    store.put(key(2), page(2))
    disk.going.set()
    store.close()
    assert [what for what, _ in disk.asked] == ["put", "put", "discard", "put"]
    assert on_disk(tmp_path) == [0, 2, 9]


def test_who_may_wait_loses_no_page(disk: HeldDisk, tmp_path: Path) -> None:
    dropped: list[int] = []
    store = WriteBehind(disk, room=2 * PAGE, on_dropped=dropped.append)
    held(disk, store)
    done: list[int] = []

    def put_all() -> None:
        for number in range(1, 8):
            store.put(key(number), page(number), wait=True)
            done.append(number)

    putting = threading.Thread(target=put_all)
    putting.start()
    # One beside the one that is being written; for another there is no room before that is.
    while not done:
        sleep(0.001)
    assert (done, store.bytes_queued) == ([1], 2 * PAGE)
    disk.going.set()
    putting.join(SOON)
    store.close()
    assert on_disk(tmp_path) == list(range(8))
    assert dropped == []


def test_closing_does_not_wait_for_ever(disk: HeldDisk, tmp_path: Path) -> None:
    dropped: list[int] = []
    store = WriteBehind(disk, room=3 * PAGE, patience_s=0.0, on_dropped=dropped.append)
    held(disk, store)
    for number in range(1, 5):
        store.put(key(number), page(number), wait=True)
    assert sum(dropped) == 2
    store.close()
    assert sum(dropped) == 4
    assert store.bytes_queued == PAGE
    disk.going.set()
    store._thread.join(SOON)
    assert not store._thread.is_alive()
    assert on_disk(tmp_path) in ([], [0])


@pytest.mark.parametrize("error", [OSError("gone"), MemoryError(), ValueError("odd")], ids=repr)
def test_an_error_of_the_disk_is_counted_and_costs_a_page(
    disk: HeldDisk, tmp_path: Path, error: Exception
) -> None:
    dropped: list[int] = []
    store = WriteBehind(disk, on_dropped=dropped.append)
    store.put(key(1), page(1))
    store.wait()
    disk.error = error
    store.put(key(2), page(2))
    assert store.touch(key(1))
    store.wait()
    assert (sum(dropped), key(2) in store) == (1, False)
    disk.error = None
    store.put(key(3), page(3))
    store.close()
    assert on_disk(tmp_path) == [1, 3]


def test_a_page_that_cannot_be_written_is_counted(disk: HeldDisk, tmp_path: Path) -> None:
    dropped: list[int] = []
    store = WriteBehind(disk, on_dropped=dropped.append)
    file_of(tmp_path, 1).parent.rmdir()
    file_of(tmp_path, 1).parent.write_text("in the way")
    store.put(key(1), page(1))
    assert store.get(key(1)) == page(1)
    store.wait()
    assert (dropped, store.get(key(1))) == ([1], None)
    store.close()


def work_while_waiting(folder: Path, pages: int) -> list[int]:
    """What it takes to use a store in which so many pages wait, as many as may."""
    disk = HeldDisk(folder)
    disk.going.clear()
    store = WriteBehind(disk, room=pages * PAGE)
    names = [number.to_bytes(32, "little") for number in range(pages + 2)]
    for name in names[:pages]:
        store.put(name, bytes(PAGE))
    assert disk.begun.wait(SOON)
    assert store.bytes_queued == pages * PAGE
    *_, waiting, new, unknown = names
    uses: list[Callable[[], object]] = [
        lambda: store.put(new, bytes(PAGE)),
        lambda: store.get(waiting),
        lambda: store.touch(waiting),
        lambda: store.get(unknown),
        lambda: store.discard(new),
    ]
    counts = [instructions(use) for use in uses]
    disk.going.set()
    store.close()
    return counts


def test_who_uses_a_store_does_no_more_where_many_pages_wait(tmp_path: Path) -> None:
    few, *more = (work_while_waiting(tmp_path / str(pages), pages) for pages in (8, 64, 512))
    assert more == [few] * len(more)
