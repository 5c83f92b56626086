"""Pages on their way to a disk: seen as if they were there, and nobody waits for it."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from edgewise_runtime.errors import InputError
from edgewise_runtime.kv.write_behind import NAME, WriteBehind
from tests.runtime.kv.held_disk import HeldDisk, held, on_disk
from tests.runtime.kv.test_page_disk import CORRUPTIONS, FILE, KEYS, PAGE, file_of, key, page


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


@pytest.mark.parametrize("corrupt", CORRUPTIONS)
def test_a_file_that_is_not_whole_is_removed_behind(
    disk: HeldDisk, tmp_path: Path, corrupt: Callable[[Path], None]
) -> None:
    store = WriteBehind(disk)
    for number in (1, 2):
        store.put(key(number), page(number))
    store.wait()
    corrupt(file_of(tmp_path, 1))
    disk.going.clear()
    assert store.get(key(1)) is None
    assert (key(1) in store, store.touch(key(1))) == (False, False)
    disk.going.set()
    store.wait()
    assert disk.damaged == 1
    assert not os.path.lexists(file_of(tmp_path, 1))
    store.put(key(1), page(1, 9))
    assert store.get(key(1)) == page(1, 9)
    store.close()
    assert HeldDisk(tmp_path).get(key(1)) == page(1, 9)


@pytest.mark.parametrize("corrupt", CORRUPTIONS)
def test_a_page_is_written_in_place_of_a_file_that_is_not_whole(
    disk: HeldDisk, tmp_path: Path, corrupt: Callable[[Path], None]
) -> None:
    store = WriteBehind(disk)
    store.put(key(2), page(2))
    store.put(key(1), page(1))
    store.wait()
    corrupt(file_of(tmp_path, 1))
    disk.begun.clear()
    held(disk, store)
    assert store.get(key(1)) is None
    if not store.touch(key(1)):
        store.put(key(1), page(1))
    disk.going.set()
    store.close()
    assert HeldDisk(tmp_path).get(key(1)) == page(1)


def test_what_is_no_page_is_refused_where_it_is_put(disk: HeldDisk) -> None:
    store = WriteBehind(disk)
    with pytest.raises(InputError, match=f"{PAGE} bytes, not 3") as error:
        store.put(key(1), b"abc")
    assert error.value.code == "input.pages"
    store.close()
    assert disk.asked == []
