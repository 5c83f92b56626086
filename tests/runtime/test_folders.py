"""Folders that appear whole or not at all, and what becomes of those that nobody finished."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue

import pytest

from edgewise_runtime import exchange, folders, locks
from edgewise_runtime.errors import StorageError
from edgewise_runtime.files import write_bytes
from tests.sdk.cli.commands import environment


def entries(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture(params=["exchanging", "in two steps"])
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A system that exchanges two folders, and one that has no call for that."""
    if request.param == "in two steps":
        two_steps(monkeypatch)


def two_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "CALLS", {})


def test_a_folder_appears_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "bundle"
    with folders.new_folder(path) as folder:
        (folder / "sub").mkdir()
        (folder / "sub" / "a").write_text("a")
        assert not path.exists()
    assert (path / "sub" / "a").read_text() == "a"
    assert entries(tmp_path / "deep") == ["bundle"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("replace", [True, False])
def test_a_folder_never_appears_when_something_goes_wrong(
    tmp_path: Path, error: type[BaseException], replace: bool
) -> None:
    path = tmp_path / "bundle"
    if replace:
        path.mkdir()
        (path / "old").write_text("old")
    before = entries(tmp_path)

    def build() -> None:
        with folders.new_folder(path, replace=replace) as folder:
            (folder / "new").write_text("new")
            raise error

    with pytest.raises(error):
        build()
    assert entries(tmp_path) == before
    assert not (path / "new").exists()


@pytest.mark.usefixtures("system")
def test_a_folder_is_replaced_only_on_request(tmp_path: Path) -> None:
    path = tmp_path / "bundle"
    path.mkdir()
    (path / "old").write_text("old")
    with pytest.raises(StorageError) as error, folders.new_folder(path):
        pytest.fail("the block was entered")
    assert error.value.code == "storage.exists"
    with folders.new_folder(path, replace=True) as folder:
        (folder / "new").write_text("new")
    assert entries(path) == ["new"]
    assert entries(tmp_path) == ["bundle"]


@pytest.mark.usefixtures("system")
def test_a_link_is_replaced_and_what_it_leads_to_is_kept(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "old").write_text("old")
    (tmp_path / "bundle").symlink_to("real")
    with folders.new_folder(tmp_path / "bundle", replace=True) as folder:
        (folder / "new").write_text("new")
    assert entries(tmp_path) == ["bundle", "real"]
    assert entries(tmp_path / "real") == ["old"]
    assert not (tmp_path / "bundle").is_symlink()


def test_at_no_moment_is_there_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, gone = tmp_path / "bundle", []
    rename = os.rename

    def slow(*names: Path) -> None:
        rename(*names)
        time.sleep(0.001)

    # Between two renames the other thread has time to look.
    monkeypatch.setattr(os, "rename", slow)
    with folders.new_folder(path):
        pass
    with going_on(lambda: gone.append(None) if not os.path.lexists(path) else None):
        for _ in range(50):
            with folders.new_folder(path, replace=True):
                pass
    assert not gone
    assert entries(tmp_path) == ["bundle"]


@contextmanager
def going_on(what: Callable[[], object]) -> Iterator[None]:
    """Have a thread do something again and again; what it raises is raised at the end."""
    ended = threading.Event()

    def again() -> None:
        while not ended.is_set():
            what()

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(again)
        try:
            yield
        finally:
            ended.set()
        running.result()


def test_what_waits_for_its_turn_is_told_and_waits(tmp_path: Path) -> None:
    path, told, done = tmp_path / "dist/bundle", SimpleQueue[tuple[int, int]](), []

    def second() -> None:
        with folders.alone_at(path, lambda *how_far: told.put(how_far)):
            done.append("second")

    with ThreadPoolExecutor(1) as pool:
        with folders.alone_at(path, lambda *how_far: pytest.fail("nobody else is there")):
            waiting = pool.submit(second)
            assert told.get(timeout=60) == (0, 1)
            done.append("first")
        waiting.result()
    assert done == ["first", "second"]
    assert told.get_nowait() == (1, 1)
    assert entries(tmp_path / "dist") == []


def test_a_lock_that_a_killed_process_left_is_none(tmp_path: Path) -> None:
    (tmp_path / ".bundle.edgewise.lock").touch()
    with folders.alone_at(tmp_path / "bundle", lambda *how_far: pytest.fail("nobody has it")):
        pass
    assert entries(tmp_path) == []


def test_a_folder_that_appeared_meanwhile_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "bundle"
    with pytest.raises(StorageError) as error, folders.new_folder(path):
        path.mkdir()
    assert error.value.code == "storage.exists"
    assert entries(tmp_path) == ["bundle"]


def test_the_old_folder_comes_back_when_the_new_one_cannot_be_put_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "bundle"
    path.mkdir()
    (path / "old").write_text("old")
    rename, calls = Path.rename, []

    def second_fails(self: Path, target: Path) -> Path:
        calls.append(self)
        if len(calls) == 2:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return rename(self, target)

    two_steps(monkeypatch)
    monkeypatch.setattr(Path, "rename", second_fails)
    with pytest.raises(StorageError), folders.new_folder(path, replace=True) as folder:
        (folder / "new").write_text("new")
    assert entries(path) == ["old"]
    assert entries(tmp_path) == ["bundle"]


def test_a_file_in_the_way_of_a_folder_is_an_error_of_ours(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError) as error, folders.new_folder(tmp_path / "file" / "bundle"):
        pytest.fail("the block was entered")
    assert error.value.code in {"storage.missing", "storage.exists"}
    assert error.value.remedy


def test_folders_above_one_that_failed_go_with_it_and_those_of_others_stay(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    for path in (tmp_path / "dist/deep/bundle", tmp_path / "mine/bundle"):
        with pytest.raises(KeyboardInterrupt), folders.new_folder(path):
            raise KeyboardInterrupt
    assert entries(tmp_path) == ["mine"]


def test_an_error_of_the_system_while_it_is_filled_is_one_of_ours(tmp_path: Path) -> None:
    with (
        pytest.raises(StorageError, match=r"bundle: No space left") as error,
        folders.new_folder(tmp_path / "bundle"),
    ):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert error.value.code == "storage.full"
    assert entries(tmp_path) == []


def test_an_error_names_a_file_in_it_as_it_was_to_be_called(tmp_path: Path) -> None:
    with pytest.raises(StorageError) as error, folders.new_folder(tmp_path / "bundle") as folder:
        write_bytes(folder / "a/b", b"")
    assert f"{tmp_path / 'bundle/a/b'}: No such file" in str(error.value)


KILLED = """
import os, sys
from pathlib import Path
from edgewise_runtime.folders import new_folder
with new_folder(Path(sys.argv[1]), replace=True) as folder:
    (folder / "half").write_text("of it")
    os.kill(os.getpid(), 9)
"""


def killed_while_building(path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, path], env=environment(), check=False)
    assert done.returncode == -9
    assert len([name for name in entries(path.parent) if name.endswith(".tmp")]) == 1


def age(path: Path) -> None:
    before = time.time() - folders.STALE_S - 60
    os.utime(path, (before, before))


def test_what_a_killed_process_left_goes_when_the_same_folder_is_built_again(
    tmp_path: Path,
) -> None:
    killed_while_building(tmp_path / "bundle")
    with folders.new_folder(tmp_path / "bundle"):
        assert len(entries(tmp_path)) == 1, "the one that is being built"
    assert entries(tmp_path) == ["bundle"]


@pytest.fixture
def left(tmp_path: Path) -> Path:
    """A folder that nobody is at work on any more."""
    folder = tmp_path / ".other.edgewise-0123456789ab.tmp"
    folder.mkdir()
    (folder / "half").write_text("of it")
    return folder


def test_what_was_to_have_another_name_goes_after_an_hour(tmp_path: Path, left: Path) -> None:
    folders.remove_unfinished(tmp_path / "bundle")
    assert left.exists()
    age(left)
    folders.remove_unfinished(tmp_path / "bundle")
    assert entries(tmp_path) == []


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    handle = os.open(folder, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    yield
    os.close(handle)


def test_a_folder_that_somebody_is_at_work_on_stays(tmp_path: Path, left: Path) -> None:
    age(left)
    for name in ("other", "bundle"):
        with locked(left):
            folders.remove_unfinished(tmp_path / name)
        assert (left / "half").exists()


@pytest.mark.usefixtures("system")
def test_one_that_is_being_built_is_taken_for_what_it_is(tmp_path: Path) -> None:
    path = tmp_path / "bundle"
    with folders.new_folder(path) as first:
        folders.remove_unfinished(path)
        assert first.exists()
        # Another of the same name at the same time: the last one that is finished stays.
        with folders.new_folder(path) as second:
            assert first != second
            (second / "a").write_text("")
        assert entries(path) == ["a"]
        with folders.new_folder(path, replace=True):
            pass
        assert first.exists()
        path.rmdir()
    assert entries(tmp_path) == ["bundle"]


@pytest.mark.parametrize(
    "name", [".bundle.tmp", ".bundle.0123456789ab.tmp", "bundle.edgewise-0123456789ab.tmp", ".git"]
)
def test_what_others_call_their_folders_is_never_touched(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    age(tmp_path / name)
    folders.remove_unfinished(tmp_path / "bundle")
    assert entries(tmp_path) == [name]


def test_a_link_by_such_a_name_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / ".bundle.edgewise-0123456789ab.tmp").symlink_to("thesis")
    folders.remove_unfinished(tmp_path / "bundle")
    assert (tmp_path / "thesis").exists()


@pytest.mark.parametrize("came", [True, False])
def test_a_folder_that_was_moved_away_comes_back_unless_another_came(
    tmp_path: Path, came: bool
) -> None:
    path, old = tmp_path / "bundle", tmp_path / ".bundle.edgewise-0123456789ab.old"
    old.mkdir()
    (old / "kept").write_text("")
    if came:
        path.mkdir()
    folders.remove_unfinished(path)
    assert entries(tmp_path) == ["bundle"]
    assert (path / "kept").exists() == (not came)


def test_where_locks_are_not_known_nothing_is_removed(
    tmp_path: Path, left: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(handle: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(locks.fcntl, "flock", unknown)
    age(left)
    with folders.new_folder(tmp_path / "bundle"):
        pass
    assert entries(tmp_path) == [left.name, "bundle"]


def test_a_passing_folder_is_the_users_own_and_takes_those_of_the_dead_with_it(
    tmp_path: Path,
) -> None:
    killed = """
import os, sys
from pathlib import Path
from edgewise_runtime.folders import passing_folder
with passing_folder(Path(sys.argv[1])) as folder:
    (folder / "key.pem").touch()
    os.kill(os.getpid(), 9)
"""
    subprocess.run([sys.executable, "-c", killed, tmp_path], env=environment(), check=False)
    assert len(entries(tmp_path)) == 1
    with folders.passing_folder(tmp_path) as folder:
        assert entries(tmp_path) == [folder.name]
        assert folder.stat().st_mode & 0o777 == 0o700
    assert entries(tmp_path) == []


def test_a_full_folder_for_temporary_files_is_named_with_the_variable(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=f"{tmp_path}: No space") as error:  # noqa: SIM117
        with folders.passing_folder(tmp_path):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert error.value.code == "storage.full"
    assert "TMPDIR" in error.value.remedy
