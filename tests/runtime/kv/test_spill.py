"""Pages in memory, and in memory before the disk: what was used last is there, and is right."""

from __future__ import annotations

import os
import tempfile
from collections import OrderedDict
from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from edgewise_runtime.errors import InputError
from edgewise_runtime.kv.page_file import HEADER
from edgewise_runtime.kv.spill import DiskStore, MemoryStore, PageStore, Tiered, WriteBehind

PAGE = 512
FILE = HEADER.size + PAGE
KEYS = st.integers(0, 11)
VALUES = st.integers(0, 2)


def key(number: int) -> bytes:
    return bytes([number]) * 32


def page(number: int, value: int = 0, size: int = PAGE) -> bytes:
    return bytes([number, value]) + bytes(size - 2)


class MemoryMachine(RuleBasedStateMachine):
    """A memory store against a dict in the order of use."""

    LIMIT = 5 * PAGE

    def __init__(self) -> None:
        super().__init__()
        self.store = MemoryStore(self.LIMIT)
        self.model: OrderedDict[bytes, bytes] = OrderedDict()

    @rule(number=KEYS, size=st.sampled_from([PAGE // 2, PAGE, 2 * PAGE, 5 * PAGE, 6 * PAGE]))
    def push(self, number: int, size: int) -> None:
        data = page(number, size=size)
        self.model.pop(key(number), None)
        fallen = []
        if size > self.LIMIT:
            fallen = [(key(number), data)]
        else:
            self.model[key(number)] = data
        while sum(len(kept) for kept in self.model.values()) > self.LIMIT:
            fallen.append(self.model.popitem(last=False))
        assert self.store.push(key(number), memoryview(data)) == fallen

    @rule(number=KEYS)
    def get(self, number: int) -> None:
        assert self.store.get(key(number)) == self.model.get(key(number))
        if key(number) in self.model:
            self.model.move_to_end(key(number))

    @rule(number=KEYS)
    def touch(self, number: int) -> None:
        assert self.store.touch(key(number)) == (key(number) in self.model)
        if key(number) in self.model:
            self.model.move_to_end(key(number))

    @rule(number=KEYS)
    def discard(self, number: int) -> None:
        self.store.discard(key(number))
        self.model.pop(key(number), None)

    @invariant()
    def pages_are_those_expected(self) -> None:
        assert self.store.pages() == list(self.model.items())
        assert self.store.bytes_used == sum(len(kept) for kept in self.model.values())
        assert self.store.bytes_used <= self.store.limit == self.LIMIT
        assert all(
            (key(number) in self.store) == (key(number) in self.model) for number in range(12)
        )


TestMemory = MemoryMachine.TestCase


class TieredMachine(RuleBasedStateMachine):
    """Memory before a disk: of as many pages as the larger holds, the last used are never lost."""

    MEMORY, DISK = 3, 6

    def __init__(self) -> None:
        super().__init__()
        self.place = tempfile.TemporaryDirectory()
        self.values: dict[int, bytes] = {}
        # Those that must still be there, least recently used first.
        self.used: OrderedDict[int, bytes] = OrderedDict()
        self.store = self.open()

    def open(self) -> Tiered:
        limit = self.DISK * FILE
        disk = DiskStore(Path(self.place.name) / "pages", limit, "me", PAGE)
        return Tiered(MemoryStore(self.MEMORY * PAGE), disk)

    @rule(number=KEYS, value=VALUES)
    def put(self, number: int, value: int) -> None:
        self.store.put(key(number), page(number, value))
        self.use(number, page(number, value))

    @rule(number=KEYS)
    def get(self, number: int) -> None:
        known = key(number) in self.store
        found = self.store.get(key(number))
        assert known == (found is not None)
        assert found in (None, self.values.get(number))
        if found is not None:
            self.use(number, found)

    @rule(number=KEYS)
    def touch(self, number: int) -> None:
        if key(number) in self.store.memory:
            assert self.store.touch(key(number))
            self.use(number, self.values[number])

    @rule(number=KEYS)
    def discard(self, number: int) -> None:
        self.store.discard(key(number))
        self.used.pop(number, None)
        self.values.pop(number, None)
        assert key(number) not in self.store

    @rule()
    def restart(self) -> None:
        self.store.close()
        self.store = self.open()
        assert self.store.memory.bytes_used == 0

    def use(self, number: int, data: bytes) -> None:
        self.values[number] = self.used[number] = data
        self.used.move_to_end(number)
        self.keep(max(self.MEMORY, self.DISK))

    def keep(self, most: int) -> None:
        while len(self.used) > most:
            self.used.popitem(last=False)

    @invariant()
    def the_last_used_are_there(self) -> None:
        assert [number for number in self.used if key(number) not in self.store] == []
        assert self.store.bytes_used <= self.store.limit

    def teardown(self) -> None:
        self.place.cleanup()


TestTiered = TieredMachine.TestCase


class SmallDiskMachine(TieredMachine):
    """The same with less room on disk than in memory: closing writes what was used last."""

    MEMORY, DISK = 4, 2

    @rule()
    def restart(self) -> None:
        super().restart()
        # The memory is gone, and the disk holds fewer.
        self.keep(self.DISK)


TestTieredSmallDisk = SmallDiskMachine.TestCase


def tiered(folder: Path, memory: int, disk: int) -> Tiered:
    limit = disk * FILE
    return Tiered(MemoryStore(memory * PAGE), DiskStore(folder / "pages", limit, "me", PAGE))


def test_a_cleared_store_has_no_pages_and_takes_new_ones(tmp_path: Path) -> None:
    disk = DiskStore(tmp_path / "alone", 1 << 20, "me", PAGE)
    for store in (MemoryStore(1 << 20), disk, tiered(tmp_path, 2, 2)):
        for number in range(4):
            store.put(key(number), page(number))
        store.clear()
        assert store.bytes_used == 0
        assert [number for number in range(4) if key(number) in store] == []
        assert store.get(key(3)) is None
        store.put(key(5), page(5))
        assert store.get(key(5)) == page(5)
    assert len(list(tmp_path.rglob("*.kv"))) == 1


def test_pages_fall_from_memory_to_disk_and_come_back(tmp_path: Path) -> None:
    store: PageStore = tiered(tmp_path, 1, 2)
    assert isinstance(store, Tiered)
    store.put(key(1), page(1))
    assert key(1) not in store.disk
    store.put(key(2), page(2))
    assert (key(1) in store.memory, key(1) in store.disk) == (False, True)
    assert store.get(key(1)) == page(1)
    assert (key(1) in store.memory, key(2) in store.disk) == (True, True)
    assert store.limit == PAGE + 2 * FILE
    assert store.bytes_used == store.limit


def test_a_page_on_disk_that_is_touched_is_not_the_next_to_go(tmp_path: Path) -> None:
    store = tiered(tmp_path, 1, 2)
    for number in range(3):
        store.put(key(number), page(number))
    assert [store.touch(key(number)) for number in (2, 0, 5)] == [True, True, False]
    store.put(key(3), page(3))
    assert [key(number) in store for number in range(4)] == [True, False, True, True]


def test_a_page_that_came_from_the_disk_is_not_written_again(tmp_path: Path) -> None:
    store = tiered(tmp_path, 1, 4)
    store.put(key(1), page(1))
    store.put(key(2), page(2))
    file = next((tmp_path / "pages").rglob(f"{key(1).hex()}.kv"))
    written = file.stat().st_ino
    assert store.get(key(1)) == page(1)
    store.put(key(1), page(1))
    store.put(key(3), page(3))
    assert file.stat().st_ino == written
    assert store.get(key(1)) == page(1)
    store.put(key(1), page(1, 2))
    store.put(key(3), page(3))
    assert file.stat().st_ino != written
    assert store.get(key(1)) == page(1, 2)


def test_a_page_that_vanished_from_the_disk_meanwhile_is_written_again(tmp_path: Path) -> None:
    store = tiered(tmp_path, 1, 4)
    store.put(key(1), page(1))
    store.put(key(2), page(2))
    assert store.get(key(1)) == page(1)
    next((tmp_path / "pages").rglob(f"{key(1).hex()}.kv")).unlink()
    store.put(key(3), page(3))
    assert store.get(key(1)) == page(1)


def test_prefixes_survive_a_restart(tmp_path: Path) -> None:
    store = tiered(tmp_path, 8, 8)
    for number in range(5):
        store.put(key(number), page(number))
    store.close()
    store.close()
    again = tiered(tmp_path, 8, 8)
    assert [again.get(key(number)) for number in range(6)] == [*map(page, range(5)), None]


def test_closing_waits_for_a_slow_disk_rather_than_to_lose_pages(tmp_path: Path) -> None:
    dropped: list[int] = []
    disk = DiskStore(tmp_path / "pages", 1 << 20, "me", PAGE)
    store = Tiered(
        MemoryStore(1 << 20), WriteBehind(disk, room=2 * PAGE, on_dropped=dropped.append)
    )
    for number in range(12):
        store.put(key(number), page(number))
    store.close()
    assert dropped == []
    again = tiered(tmp_path, 12, 12)
    assert [again.get(key(number)) for number in range(12)] == [*map(page, range(12))]


def test_closing_writes_no_more_than_the_disk_keeps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = []
    replace = os.replace

    def counting(source: Path, target: Path) -> None:
        written.append(target.stem)
        replace(source, target)

    store = tiered(tmp_path, 8, 2)
    for number in range(8):
        store.put(key(number), page(number))
    monkeypatch.setattr(os, "replace", counting)
    store.close()
    # As many as fit without their headers.
    assert written == [key(number).hex() for number in range(8 - 2 * FILE // PAGE, 8)]


def behind(folder: Path) -> WriteBehind:
    return WriteBehind(DiskStore(folder / "behind", 1 << 20, "me", PAGE))


def test_a_closed_store_has_no_pages_and_keeps_none(tmp_path: Path) -> None:
    disk = DiskStore(tmp_path / "alone", 1 << 20, "me", PAGE)
    for store in (MemoryStore(1 << 20), disk, tiered(tmp_path, 1, 1), behind(tmp_path)):
        store.put(key(1), page(1))
        store.close()
        store.put(key(2), page(2))
        assert (store.get(key(1)), store.get(key(2))) == (None, None)
        assert key(1) not in store
        store.discard(key(1))


@pytest.mark.parametrize("wrong", [b"", b"short", bytes(33), "x" * 32, None])
def test_only_keys_of_32_bytes_are_keys(tmp_path: Path, wrong: bytes) -> None:
    disk = DiskStore(tmp_path / "alone", 1 << 20, "me", PAGE)
    for store in (MemoryStore(1 << 20), disk, tiered(tmp_path, 1, 1), behind(tmp_path)):
        for use in (
            lambda store=store: store.put(wrong, page(1)),
            lambda store=store: store.get(wrong),
            lambda store=store: store.discard(wrong),
            lambda store=store: wrong in store,
        ):
            with pytest.raises(InputError) as error:
                use()
            assert error.value.code == "input.key"
        store.close()
