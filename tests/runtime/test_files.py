"""Files that appear whole or not at all, and errors that say what to do."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import subprocess
import sys
import tempfile
import tracemalloc
from pathlib import Path

import pytest

from edgewise_runtime import files
from edgewise_runtime.errors import StorageError
from tests.disks import file_sizes_limited
from tests.sdk.cli.commands import environment


def entries(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "a"
    files.write_bytes(path, b"first")
    files.write_bytes(path, b"second")
    assert path.read_bytes() == b"second"
    assert entries(tmp_path) == ["a"]


def test_a_new_file_follows_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        files.write_bytes(tmp_path / "a", b"")
        files.write_bytes(tmp_path / "b", b"", mode=0o600)
    finally:
        os.umask(before)
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in "ab"]
    assert modes == [0o640, 0o600]


def test_json_is_compact_or_indented_and_never_nan(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    files.write_json(path, {"a": [1, 2], "b": "é"})
    assert path.read_text() == '{"a":[1,2],"b":"\\u00e9"}\n'
    files.write_json(path, {"a": 1}, indent=1)
    assert path.read_text() == '{\n "a": 1\n}\n'
    with pytest.raises(ValueError, match="JSON"):
        files.write_json(path, float("nan"))
    assert entries(tmp_path) == ["a.json"]


def test_what_stood_there_stays_when_writing_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"before")

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match="No space left") as error:
        files.write_bytes(path, b"after")
    assert error.value.code == "storage.full"
    assert path.read_bytes() == b"before"
    assert entries(tmp_path) == ["a"]


KILLED = """
import os, sys
from pathlib import Path
from edgewise_runtime import files
os.fsync = lambda handle: os.kill(os.getpid(), 9)
files.write_bytes(Path(sys.argv[1]), b"half")
"""


def test_what_a_killed_process_left_goes_when_the_same_file_is_written_again(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"before")
    done = subprocess.run([sys.executable, "-c", KILLED, path], env=environment(), check=False)
    assert done.returncode == -9
    assert len(entries(tmp_path)) == 2
    files.write_bytes(tmp_path / "b", b"")
    assert len(entries(tmp_path)) == 3, "what was left of another file stays"
    with files.temporary_file(path, 0o666) as (being_written, handle):
        files.write_bytes(path, b"after")
        assert entries(tmp_path) == sorted([being_written.name, "a", "b"])
        os.close(handle)
    assert entries(tmp_path) == ["a", "b"]


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.ENOSPC, "storage.full"),
        (errno.EDQUOT, "storage.full"),
        (errno.EFBIG, "storage.full"),
        (errno.EACCES, "storage.permission"),
        (errno.EPERM, "storage.permission"),
        (errno.EROFS, "storage.permission"),
        (errno.ENOENT, "storage.missing"),
        (errno.ENOTDIR, "storage.missing"),
        (errno.EIO, "storage.io"),
    ],
)
def test_an_error_of_the_system_becomes_one_of_ours(number: int, code: str) -> None:
    with pytest.raises(StorageError, match="Could not pack a/b: ") as error:  # noqa: SIM117
        with files.storage_errors("pack", Path("a/b")):
            raise OSError(number, os.strerror(number))
    assert error.value.code == code
    assert bool(error.value.remedy) == (number != errno.EIO)


def test_reading_stops_at_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"12345")
    assert files.read_bytes(path, 5) == b"12345"
    with pytest.raises(StorageError) as error:
        files.read_bytes(path, 4)
    assert error.value.code == "storage.size"


def test_reading_takes_memory_for_what_is_there_and_not_for_what_may_be(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(1000))
    tracemalloc.start()
    try:
        files.read_bytes(tmp_path / "a", 1 << 26)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_a_file_that_grows_while_it_is_read_is_read_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"12345")
    fstat = os.fstat

    def before_it_grows(handle: int) -> os.stat_result:
        status = fstat(handle)
        path.write_bytes(b"1234567890")
        return status

    monkeypatch.setattr(os, "fstat", before_it_grows)
    assert files.read_bytes(path, 10) == b"1234567890"
    path.write_bytes(b"12345")
    with pytest.raises(StorageError):
        files.read_bytes(path, 9)


def test_only_a_file_can_be_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, code in (
        (".", "storage.type"),
        ("gone", "storage.missing"),
        ("pipe", "storage.missing"),
    ):
        with pytest.raises(StorageError) as error:
            files.read_bytes(tmp_path / name, 5)
        assert error.value.code == code


@pytest.mark.parametrize("size", [0, 1, files.CHUNK, 2 * files.CHUNK + 3])
def test_a_file_hashes_like_its_bytes(tmp_path: Path, size: int) -> None:
    data = bytes(range(256)) * (size // 256 + 1)
    path = tmp_path / "a"
    path.write_bytes(data[:size])
    heard: list[int] = []
    expected = hashlib.sha256(data[:size]).hexdigest()
    assert files.sha256_file(path, heard.append) == files.sha256_bytes(data[:size]) == expected
    assert sum(heard) == size


def test_hashing_what_is_not_there_is_an_error_of_ours(tmp_path: Path) -> None:
    with pytest.raises(StorageError):
        files.sha256_file(tmp_path / "gone")


def test_the_users_folders_follow_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert files.data_folder() == tmp_path / "data/edgewise"
    assert files.cache_folder() == tmp_path / "cache/edgewise"
    assert files.state_folder() == tmp_path / "state/edgewise"


@pytest.mark.parametrize("value", ["", "relative"])
def test_without_the_environment_they_are_at_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", value)
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.delenv("XDG_STATE_HOME")
    assert files.data_folder() == tmp_path / ".local/share/edgewise"
    assert files.cache_folder() == tmp_path / ".cache/edgewise"
    assert files.state_folder() == tmp_path / ".local/state/edgewise"


def test_a_user_without_a_home_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(StorageError) as error:
        files.data_folder()
    assert "XDG_DATA_HOME" in error.value.remedy


def test_where_no_temporary_file_can_be_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)
    with file_sizes_limited(0), pytest.raises(StorageError, match="temporary directory") as error:
        files.temporary_folder()
    assert error.value.code == "storage.temporary"
    assert "TMPDIR" in error.value.remedy
    assert files.temporary_folder().is_dir()
