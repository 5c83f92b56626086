"""Pages on their way to a disk: seen as if they were there, and nobody waits for it."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from time import sleep

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from edgewise_runtime.errors import InputError
from edgewise_runtime.kv.page_disk import DiskStore
from edgewise_runtime.kv.write_behind import NAME, WriteBehind
from tests.runtime.counting import instructions
from tests.runtime.kv.test_page_disk import CORRUPTIONS, FILE, KEYS, PAGE, file_of, key, page

SOON = 60.0
"""Seconds after which a thread that was let go must have ended."""


class HeldDisk(DiskStore):
    """A disk that stands still while it is held, and may refuse what it is asked for.

    Attributes:
        going: whether it does what it is asked for.
        begun: set when it is asked for something.
        asked: what for, on which thread.
        error: raised instead.
    """

    def __init__(self, folder: Path, limit: int = 100 * FILE) -> None:
        super().__init__(folder, limit, "me", PAGE)
        self.going, self.begun = threading.Event(), threading.Event()
        self.asked: list[tuple[str, str]] = []
        self.error: BaseException | None = None
        self.going.set()

    def put(self, key: bytes, data: bytes | memoryview, *, wait: bool = False) -> None:
        self._asked("put")
        super().put(key, data)

    def get(self, key: bytes) -> bytes | None:
        self._asked("get")
        return super().get(key)

    def touch(self, key: bytes) -> bool:
        self._asked("touch")
        return super().touch(key)

    def discard(self, key: bytes) -> None:
        self._asked("discard")
        super().discard(key)

    def clear(self) -> None:
        self._asked("clear")
        super().clear()

    def _asked(self, what: str) -> None:
        self.asked.append((what, threading.current_thread().name))
        self.begun.set()
        self.going.wait()
        if self.error is not None:
            raise self.error


class BehindMachine(RuleBasedStateMachine):
    """A disk with room for all, which goes and stands still, against a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.place = tempfile.TemporaryDirectory()
        self.model: dict[int, bytes] = {}
        self.open()

    def open(self) -> None:
        self.disk = HeldDisk(Path(self.place.name) / "pages")
        self.store = WriteBehind(self.disk)

    @rule(numbers=st.lists(KEYS, min_size=1, max_size=4), value=st.integers(0, 2))
    def put(self, numbers: list[int], value: int) -> None:
        for number in numbers:
            self.store.put(key(number), memoryview(page(number, value)))
            self.model[number] = page(number, value)

    @rule(number=KEYS)
    def get(self, number: int) -> None:
        assert self.store.get(key(number)) == self.model.get(number)

    @rule(number=KEYS)
    def touch(self, number: int) -> None:
        assert self.store.touch(key(number)) == (number in self.model)

    @rule(number=KEYS)
    def discard(self, number: int) -> None:
        self.store.discard(key(number))
        self.model.pop(number, None)

    @rule()
    def clear(self) -> None:
        self.store.clear()
        self.model.clear()

    @rule()
    def hold(self) -> None:
        self.disk.going.clear()

    @rule()
    def let_go(self) -> None:
        self.disk.going.set()

    @rule()
    def wait(self) -> None:
        self.disk.going.set()
        self.store.wait()
        assert self.store.bytes_queued == 0
        assert self.store.bytes_used == FILE * len(self.model)

    @rule()
    def reopen(self) -> None:
        self.disk.going.set()
        self.store.close()
        self.open()

    @invariant()
    def pages_are_those_expected(self) -> None:
        assert [n for n in range(14) if key(n) in self.store] == sorted(self.model)
        assert self.store.bytes_queued <= PAGE * (len(self.model) + 1)

    def teardown(self) -> None:
        self.disk.going.set()
        self.store.close()
        files = {file_of(self.disk._files.folder, number) for number in self.model}
        assert set(Path(self.place.name).rglob("*.kv")) == files
        assert {thread for _, thread in self.disk.asked} <= {NAME}
        self.place.cleanup()


TestBehind = BehindMachine.TestCase


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[HeldDisk]:
    made = HeldDisk(tmp_path)
    yield made
    made.going.set()


def held(disk: HeldDisk, store: WriteBehind) -> None:
    """Have the disk stand still in the middle of writing page 0."""
    disk.going.clear()
    store.put(key(0), page(0))
    assert disk.begun.wait(SOON)


def on_disk(folder: Path) -> list[int]:
    return sorted(int(path.stem[:2], 16) for path in folder.rglob("*.kv"))


def test_what_changes_the_disk_is_a_threads_of_its_own(disk: HeldDisk, tmp_path: Path) -> None:
    store = WriteBehind(disk)
    for number in range(4):
        store.put(key(number), page(number))
    store.wait()
    assert store.get(key(1)) == page(1)
    assert store.touch(key(2))
    store.discard(key(3))
    store.wait()
    store.clear()
    store.close()
    assert [what for what, _ in disk.asked] == ["put"] * 4 + ["touch"] * 2 + ["discard", "clear"]
    assert {thread for _, thread in disk.asked} == {NAME}
    assert NAME not in {thread.name for thread in threading.enumerate()}


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


def test_what_waits_is_written_when_the_store_closes(disk: HeldDisk, tmp_path: Path) -> None:
    store = WriteBehind(disk)
    held(disk, store)
    for number in range(1, 9):
        store.put(key(number), page(number))
    assert on_disk(tmp_path) == []
    disk.going.set()
    store.close()
    store.close()
    assert on_disk(tmp_path) == list(range(9))
    store.put(key(9), page(9))
    store.clear()
    store.discard(key(1))
    store.wait()
    assert [number for number in range(10) if key(number) in store] == []
    assert (store.get(key(1)), store.touch(key(1))) == (None, False)
    assert on_disk(tmp_path) == list(range(9))


@pytest.mark.parametrize("remove", [WriteBehind.clear, lambda store: store.discard(key(0))])
def test_a_page_that_is_being_written_when_it_is_to_go_is_gone(
    disk: HeldDisk, tmp_path: Path, remove: Callable[[WriteBehind], None]
) -> None:
    store = WriteBehind(disk)
    held(disk, store)
    assert store.get(key(0)) == page(0)
    remove(store)
    assert (store.get(key(0)), key(0) in store, store.touch(key(0))) == (None, False, False)
    store.put(key(1), page(1))
    disk.going.set()
    store.close()
    assert on_disk(tmp_path) == [1]


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


@pytest.mark.parametrize("corrupt", CORRUPTIONS)
def test_a_file_that_is_not_whole_is_removed_behind(
    disk: HeldDisk, tmp_path: Path, corrupt: Callable[[Path], None]
) -> None:
    store = WriteBehind(disk)
    for number in (1, 2):
        store.put(key(number), page(number))
    store.wait()
    corrupt(file_of(tmp_path, 1))
    assert store.get(key(1)) is None
    store.wait()
    assert disk.damaged == 1
    assert not os.path.lexists(file_of(tmp_path, 1))
    store.put(key(1), page(1, 9))
    assert store.get(key(1)) == page(1, 9)
    store.close()
    assert HeldDisk(tmp_path).get(key(1)) == page(1, 9)


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


def test_what_is_no_page_is_refused_where_it_is_put(disk: HeldDisk) -> None:
    store = WriteBehind(disk)
    with pytest.raises(InputError, match=f"{PAGE} bytes, not 3") as error:
        store.put(key(1), b"abc")
    assert error.value.code == "input.pages"
    store.close()
    assert disk.asked == []
