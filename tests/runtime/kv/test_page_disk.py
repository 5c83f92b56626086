"""Pages on disk: the right ones stay, and no file is believed unless it is whole."""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from edgewise_runtime.errors import InputError
from edgewise_runtime.kv.page_disk import DiskStore
from edgewise_runtime.kv.page_file import HEADER, MAGIC, VERSION

PAGE = 96
FILE = HEADER.size + PAGE
KEYS = st.integers(0, 13)


def key(number: int) -> bytes:
    return bytes([number]) * 32


def page(number: int, value: int = 0) -> bytes:
    return bytes([number, value]) * (PAGE // 2)


def open_store(folder: Path, limit: int = 100 * FILE, producer: str = "me") -> DiskStore:
    return DiskStore(folder, limit, producer, PAGE)


def file_of(folder: Path, number: int, producer: str = "me") -> Path:
    home = hashlib.sha256(producer.encode()).hexdigest()[:32]
    return folder / home / f"{key(number).hex()}.kv"


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


class DiskMachine(RuleBasedStateMachine):
    """A store of 9 files against a dict in the order of use; others' files are in the way."""

    LIMIT = 9 * FILE + FILE // 2

    def __init__(self) -> None:
        super().__init__()
        self.place = tempfile.TemporaryDirectory()
        self.folder = Path(self.place.name) / "pages"
        self.store = open_store(self.folder, self.LIMIT)
        self.model: OrderedDict[int, bytes] = OrderedDict()
        self.fds = open_files()

    @rule(numbers=st.lists(KEYS, max_size=6), value=st.integers(0, 2))
    def put(self, numbers: list[int], value: int) -> None:
        for number in numbers:
            self.store.put(key(number), memoryview(page(number, value)))
            self.model[number] = page(number, value)
            self.model.move_to_end(number)
            while len(self.model) > 9:
                self.model.popitem(last=False)

    @rule(number=KEYS)
    def get(self, number: int) -> None:
        assert self.store.get(key(number)) == self.model.get(number)
        if number in self.model:
            self.model.move_to_end(number)

    @rule(number=KEYS)
    def touch(self, number: int) -> None:
        assert self.store.touch(key(number)) == (number in self.model)
        if number in self.model:
            self.model.move_to_end(number)

    @rule(number=KEYS)
    def discard(self, number: int) -> None:
        self.store.discard(key(number))
        self.model.pop(number, None)

    @rule(number=KEYS, at=st.integers(0, FILE - 1))
    def damage(self, number: int, at: int) -> None:
        if number in self.model:
            path = file_of(self.folder, number)
            data = bytearray(path.read_bytes())
            data[at] ^= 0xFF
            path.write_bytes(data)
            assert self.store.get(key(number)) is None
            assert not path.exists()
            self.model.pop(number)

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = open_store(self.folder, self.LIMIT)

    @invariant()
    def pages_are_those_expected(self) -> None:
        assert [n for n in range(14) if key(n) in self.store] == sorted(self.model)
        assert self.store.bytes_used == FILE * len(self.model)
        assert open_files() == self.fds

    def teardown(self) -> None:
        assert sorted(self.folder.rglob("*.kv")) == sorted(
            file_of(self.folder, number) for number in self.model
        )
        self.place.cleanup()


TestDisk = DiskMachine.TestCase


def test_a_file_is_what_the_module_says(tmp_path: Path) -> None:
    open_store(tmp_path).put(key(1), page(1))
    producer = hashlib.sha256(b"me").digest()
    signed = b"EWKV" + (1).to_bytes(4, "little") + producer + key(1) + PAGE.to_bytes(8, "little")
    whole = signed + hashlib.sha256(signed + page(1)).digest() + page(1)
    assert file_of(tmp_path, 1).read_bytes() == whole


def test_pages_are_this_users_alone(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "pages"
    open_store(folder).put(key(1), page(1))
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (folder, *sorted(folder.rglob("*")))]
    assert modes == [0o700, 0o700, 0o600]


def corrupt_length(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def corrupt_more(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\0")


def corrupt_empty(path: Path) -> None:
    path.write_bytes(b"")


def other_key(path: Path) -> None:
    path.write_bytes(file_of(path.parents[1], 2).read_bytes())


def other_producer(path: Path) -> None:
    open_store(path.parents[1], producer="you").put(key(1), page(1))
    path.write_bytes(file_of(path.parents[1], 1, "you").read_bytes())


def other_version(path: Path) -> None:
    producer = hashlib.sha256(b"me").digest()
    signed = HEADER.pack(MAGIC, VERSION + 1, producer, key(1), PAGE, bytes(32))[:-32]
    path.write_bytes(signed + hashlib.sha256(signed + page(1)).digest() + page(1))


def link_to_a_whole_one(path: Path) -> None:
    elsewhere = path.parents[1] / "elsewhere"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


def link_to_nothing(path: Path) -> None:
    path.unlink()
    path.symlink_to("nowhere")


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


CORRUPTIONS = [
    corrupt_length,
    corrupt_more,
    corrupt_empty,
    other_key,
    other_producer,
    other_version,
    link_to_a_whole_one,
    link_to_nothing,
    pipe,
]


@pytest.mark.parametrize("corrupt", CORRUPTIONS)
@pytest.mark.parametrize("again", [False, True])
def test_a_file_that_is_not_whole_is_removed_and_can_be_written_anew(
    tmp_path: Path, corrupt: Callable[[Path], None], again: bool
) -> None:
    store = open_store(tmp_path)
    for number in (1, 2):
        store.put(key(number), page(number))
    corrupt(file_of(tmp_path, 1))
    if again:
        store = open_store(tmp_path)
    before = open_files()
    assert store.get(key(1)) is None
    assert store.damaged == 1
    assert not os.path.lexists(file_of(tmp_path, 1))
    assert store.get(key(2)) == page(2)
    store.put(key(1), page(1, 9))
    assert store.get(key(1)) == page(1, 9)
    assert (store.damaged, store.dropped, open_files()) == (1, 0, before)


@given(data=st.binary(max_size=2 * FILE))
def test_no_bytes_are_taken_for_a_page(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as place:
        store = open_store(Path(place))
        file_of(Path(place), 1).write_bytes(data)
        assert store.get(key(1)) is None


def test_a_folder_in_a_files_place_costs_that_page_only(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    file_of(tmp_path, 1).mkdir()
    before = open_files()
    assert key(1) not in store
    assert store.get(key(1)) is None
    store.put(key(1), page(1))
    store.discard(key(1))
    assert store.dropped == 1
    store.put(key(2), page(2))
    assert store.get(key(2)) == page(2)
    assert open_files() == before
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [file_of(tmp_path, 2)]


@pytest.mark.parametrize("size", [0, PAGE - 1, PAGE + 1])
def test_a_page_of_another_size_is_refused(tmp_path: Path, size: int) -> None:
    store = open_store(tmp_path)
    with pytest.raises(InputError, match=f"{PAGE} bytes, not {size}") as error:
        store.put(key(1), bytes(size))
    assert error.value.code == "input.pages"
    assert key(1) not in store


def test_a_page_larger_than_the_limit_is_not_kept_and_drives_nothing_out(tmp_path: Path) -> None:
    open_store(tmp_path).put(key(1), page(1))
    small = DiskStore(tmp_path, FILE, "me", PAGE + 1)
    small.put(key(2), bytes(PAGE + 1))
    assert key(2) not in small
    assert open_store(tmp_path).get(key(1)) == page(1)
