"""The bound on page files: over producers and processes, and whatever else lies in the folder."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from edgewise_runtime.errors import StorageError
from edgewise_runtime.kv import page_files
from edgewise_runtime.kv.page_disk import DiskStore
from edgewise_runtime.kv.page_file import HEADER
from edgewise_runtime.kv.page_files import RESCAN, make_private
from edgewise_runtime.locks import lock_path

PAGE = 96
FILE = HEADER.size + PAGE


def key(number: int) -> bytes:
    return number.to_bytes(32, "little")


def page(number: int) -> bytes:
    return number.to_bytes(8, "little") * (PAGE // 8)


def open_store(folder: Path, files: int = 100, producer: str = "me") -> DiskStore:
    return DiskStore(folder, files * FILE, producer, PAGE)


def fill(store: DiskStore, numbers: range) -> None:
    for number in numbers:
        store.put(key(number), page(number))


def kept(store: DiskStore, numbers: range) -> list[int]:
    return [number for number in numbers if key(number) in store]


def test_a_smaller_limit_holds_when_the_folder_is_opened(tmp_path: Path) -> None:
    fill(open_store(tmp_path), range(10))
    store = open_store(tmp_path, 4)
    assert kept(store, range(10)) == [6, 7, 8, 9]
    assert store.bytes_used == store.limit == 4 * FILE


def test_producers_share_the_limit_and_not_the_pages(tmp_path: Path) -> None:
    old = open_store(tmp_path, 6, "a model compiled long ago")
    fill(old, range(6))
    new = open_store(tmp_path, 6, "a new one")
    assert new.get(key(5)) is None
    fill(new, range(2))
    assert kept(old, range(6)) == [2, 3, 4, 5]
    assert old.get(key(2)) == page(2)
    fill(new, range(2, 5))
    assert kept(old, range(6)) == [2]
    assert kept(new, range(5)) == [0, 1, 2, 3, 4]


def test_stores_see_each_others_pages_and_what_was_used(tmp_path: Path) -> None:
    one, two = open_store(tmp_path, 40), open_store(tmp_path, 40)
    fill(one, range(20))
    assert two.get(key(3)) == page(3)
    assert two.get(key(7)) == page(7)
    fill(one, range(20, 58))
    # What the other used last is not what goes first.
    assert kept(one, range(58)) == [3, 7, *range(20, 58)]
    assert two.get(key(4)) is None
    assert two.get(key(57)) == page(57)


def test_what_others_write_counts_after_a_while(tmp_path: Path) -> None:
    one, two = open_store(tmp_path, 40), open_store(tmp_path, 40)
    fill(one, range(40))
    assert two.bytes_used == 0
    fill(two, range(100, 101 + 40 // RESCAN))
    assert len(list(tmp_path.rglob("*.kv"))) * FILE == two.bytes_used == two.limit
    fill(two, range(110, 140))
    assert one.bytes_used == 40 * FILE
    assert len(list(tmp_path.rglob("*.kv"))) * FILE <= two.limit * (RESCAN + 1) / RESCAN


def test_clearing_removes_what_others_wrote_for_the_same_producer_only(tmp_path: Path) -> None:
    one, two, other = open_store(tmp_path), open_store(tmp_path), open_store(tmp_path, 100, "you")
    for store in (one, other):
        fill(store, range(5))
    two.clear()
    assert (kept(one, range(5)), kept(other, range(5))) == ([], [0, 1, 2, 3, 4])
    assert two.bytes_used == 5 * FILE


HAMMER = """
import random, sys
from pathlib import Path
from edgewise_runtime.kv.page_disk import DiskStore

folder, seed, limit, size = Path(sys.argv[1]), *map(int, sys.argv[2:])
store = DiskStore(folder, limit, "me", size)
draw = random.Random(seed)
hits = 0
for _ in range(600):
    number = draw.randrange(40)
    key, page = bytes([number]) * 32, bytes([number]) * size
    match draw.randrange(8):
        case 0 | 1 | 2:
            store.put(key, page)
        case 3:
            store.discard(key)
        case _:
            found = store.get(key)
            assert found in (None, page), number
            hits += found is not None
print(hits, store.damaged, store.dropped)
"""


def test_processes_share_a_folder(tmp_path: Path) -> None:
    limit = 16 * FILE
    argv = [sys.executable, "-c", HAMMER, str(tmp_path)]
    workers = [
        subprocess.Popen([*argv, str(seed), str(limit), str(PAGE)], stdout=subprocess.PIPE)
        for seed in range(3)
    ]
    for worker in workers:
        said = worker.communicate(timeout=60)[0].split()
        assert worker.returncode == 0
        assert int(said[0]) > 0
        assert said[1:] == [b"0", b"0"]
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} == {".kv"}
    assert len(files) * FILE <= limit + 3 * (limit / RESCAN + FILE)


def test_other_files_are_left_alone_and_temporary_ones_of_the_dead_removed(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.put(key(1), page(1))
    home = next(path for path in tmp_path.iterdir() if path.is_dir())
    old, new, dead = (home / f".{key(n).hex()}.kv.{'ab' * 6}.tmp" for n in (1, 2, 3))
    others = [
        tmp_path / "notes",
        home / "notes.kv",
        home / ".notes.tmp",
        home / f"{key(1).hex().upper()}F.kv",
        tmp_path / f"{key(9).hex()}.kv",
        new,
    ]
    for path in (old, dead, *others):
        path.write_bytes(b"x" * 1000)
    hours_ago = time.time() - 3 * 3600
    os.utime(old, (hours_ago, hours_ago))
    os.utime(others[1], (hours_ago, hours_ago))
    writing = lock_path(new)
    assert writing is not None
    store = open_store(tmp_path, 1)
    assert store.bytes_used == FILE
    store.put(key(2), page(2))
    assert kept(store, range(3)) == [2]
    os.close(writing)
    assert not old.exists()
    assert not dead.exists()
    assert all(path.exists() for path in others)


def test_links_to_elsewhere_are_not_followed_when_files_are_counted(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    fill(open_store(outside), range(3))
    inside = tmp_path / "inside"
    inside.mkdir()
    home = next(outside.iterdir())
    (inside / "0123456789abcdef0123456789abcdef").symlink_to(home)
    store = open_store(inside, 1, "somebody")
    (next(p for p in inside.iterdir() if not p.is_symlink()) / f"{key(0).hex()}.kv").symlink_to(
        home / f"{key(0).hex()}.kv"
    )
    again = open_store(inside, 1, "somebody")
    assert (store.bytes_used, again.bytes_used) == (0, 0)
    fill(again, range(5, 8))
    assert len(list(home.iterdir())) == 3


def test_a_store_in_a_linked_folder_of_pages_is_refused(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.put(key(1), page(1))
    home = next(tmp_path.iterdir())
    home.rename(tmp_path / "moved")
    home.symlink_to(tmp_path / "moved")
    with pytest.raises(StorageError, match="symbolic link") as error:
        open_store(tmp_path)
    assert error.value.code == "storage.permission"


@pytest.mark.parametrize(("mode", "outer"), [(0o777, True), (0o720, True), (0o750, False)])
def test_a_folder_open_to_others_is_refused(tmp_path: Path, mode: int, outer: bool) -> None:
    folder = tmp_path / "pages"
    open_store(folder)
    chosen = folder if outer else next(folder.iterdir())
    chosen.chmod(mode)
    with pytest.raises(StorageError, match=f"{mode:04o}") as error:
        open_store(folder)
    assert error.value.code == "storage.permission"
    assert "chmod" in error.value.remedy


def test_a_folder_of_another_user_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(StorageError, match="belongs to user") as error:
        make_private(tmp_path / "pages")
    assert error.value.code == "storage.permission"


def test_a_file_in_the_folders_place_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "pages").write_text("no folder")
    with pytest.raises(StorageError) as error:
        open_store(tmp_path / "pages")
    assert error.value.code == "storage.exists"


def test_counting_files_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(open_store(tmp_path), range(30))
    monkeypatch.setattr(page_files, "MAX_ENTRIES", 11)
    assert open_store(tmp_path).bytes_used == 10 * FILE
    monkeypatch.undo()
    assert open_store(tmp_path).bytes_used == 30 * FILE


def test_there_is_a_limit_to_the_number_of_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_files, "MAX_FILES", 5)
    store = open_store(tmp_path)
    fill(store, range(12))
    assert kept(store, range(12)) == [7, 8, 9, 10, 11]


def test_a_clock_set_back_does_not_change_what_was_used_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(tmp_path, 3)
    fill(store, range(3))
    monkeypatch.setattr(time, "time_ns", lambda: 1)
    assert store.get(key(0)) == page(0)
    fill(open_store(tmp_path, 3), range(3, 4))
    assert kept(store, range(4)) == [0, 2, 3]
