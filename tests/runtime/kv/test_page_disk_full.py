"""A page that cannot be written is dropped and leaves nothing behind: full disks, lost folders."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from edgewise_runtime.kv.page_file import HEADER
from tests.runtime.kv.test_page_disk import file_of, key, open_files, open_store, page

FULL = """
import os, resource, sys
from pathlib import Path
from edgewise_runtime.kv.page_disk import DiskStore

store = DiskStore(Path(sys.argv[1]), 64 << 20, "me", 1 << 20)
before = len(os.listdir("/proc/self/fd"))
limits = resource.getrlimit(resource.RLIMIT_FSIZE)
store.put(bytes(32), bytes(1 << 20))
for most in (0, 50, 4096, 300_000):
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, limits[1]))
    store.put(bytes([1]) * 32, bytes(1 << 20))
resource.setrlimit(resource.RLIMIT_FSIZE, limits)
print(store.dropped, bytes([1]) * 32 in store, len(os.listdir("/proc/self/fd")) - before)
print(sorted(path.stat().st_size - (1 << 20) for path in Path(sys.argv[1]).rglob("*.*")))
store.put(bytes([1]) * 32, bytes(1 << 20))
print(store.dropped, store.get(bytes(32)) == store.get(bytes([1]) * 32) == bytes(1 << 20))
"""


def run_python(code: str, *args: object) -> str:
    argv = [sys.executable, "-c", code, *map(str, args)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_page_for_which_there_is_no_room_on_disk_is_dropped(tmp_path: Path) -> None:
    said = run_python(FULL, tmp_path).splitlines()
    assert said == ["4 False 0", f"[{HEADER.size}]", "4 True"]


def test_a_folder_that_was_removed_is_made_again(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.put(key(1), page(1))
    file_of(tmp_path, 1).unlink()
    file_of(tmp_path, 1).parent.rmdir()
    assert store.get(key(1)) is None
    store.put(key(2), page(2))
    assert (store.get(key(2)), store.dropped) == (page(2), 0)
    assert stat.S_IMODE(file_of(tmp_path, 2).parent.stat().st_mode) == 0o700


def test_where_nothing_can_be_written_pages_are_dropped(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    file_of(tmp_path, 1).parent.rmdir()
    file_of(tmp_path, 1).parent.write_text("in the way")
    store.put(key(1), page(1))
    assert (store.dropped, store.get(key(1)), key(1) in store) == (1, None, False)
    store.discard(key(1))
    assert store.bytes_used == 0


def test_an_interrupted_write_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(tmp_path)
    before = open_files()

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        store.put(key(1), page(1))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    assert open_files() == before
