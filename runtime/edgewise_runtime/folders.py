"""Folders that appear whole or not at all, whatever becomes of the process that makes them.

A folder is built beside its place, under a hidden name that only edgewise gives, and its maker
holds a lock on it that ends with the process. So a folder of that name whose lock is free is what
a killed process left, and the next one that builds a folder there removes it.

One that is to replace another changes places with it in one step, where the system has such a step
(`exchange`). Who still reads the other (`held`) has a lock on it as well, and removes it at last.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from edgewise_runtime.errors import StorageError
from edgewise_runtime.exchange import exchange
from edgewise_runtime.files import storage_errors, sync_folder
from edgewise_runtime.locks import lock, lock_path, locked, until_free

UNFINISHED, MOVED_AWAY = "tmp", "old"
"""What a hidden folder is: one that is being built, or one that made room for it."""

STALE_S = 3600
"""Seconds after which folders by other names than the one that is being built are looked at: some
disks that several machines share keep locks to each of them."""

Waiting = Callable[[int, int], None]
"""Told how much of the waiting is done, ``(0, 1)`` and ``(1, 1)``, if there is any."""

_MEANWHILE = (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)
"""How a rename fails where what stands at its target went or came since that was looked at."""

_HIDDEN = re.compile(rf"\.(.+)\.edgewise-[0-9a-f]{{12}}\.({UNFINISHED}|{MOVED_AWAY})")


@contextmanager
def new_folder(
    path: Path, *, replace: bool = False, waiting: Waiting | None = None
) -> Iterator[Path]:
    """Build a whole folder that appears at `path` when the block ends, or never.

    The block fills a temporary folder beside `path`. On any exception, KeyboardInterrupt included,
    that folder is removed and `path` is as it was, as are the folders above it. With `replace`, a
    folder already at `path` stands there until the new one does, whatever ends this process, and
    is removed once nobody reads it. (Where the system or the disk cannot exchange two folders it is
    moved away first: who is killed just then leaves none, until the next one here puts it back.)

    Args:
        waiting: for what is made out of what stands there, which nobody may replace meanwhile: who
            builds the same is waited for, and this hears of it. Without, the last one stays.

    Raises:
        StorageError: ``storage.exists`` where `path` exists and `replace` is false; for an OSError
            of the block and of what is done here, see `files.storage_errors`.
    """
    if not replace:
        _refuse_existing(path)
    with (
        _folders_above(path),
        _claimed(path, waiting=waiting) as built,
        storage_errors("write", path),
    ):
        yield built
        _sync_tree(built)
        _put_in_place(built, path, replace=replace)
        sync_folder(path.parent)


@contextmanager
def passing_folder(parent: Path) -> Iterator[Path]:
    """A folder in `parent` that only this user may enter, for as long as a block lasts.

    What killed processes left of theirs goes.

    Raises:
        StorageError: it cannot be made, or an OSError of the block.
    """
    try:
        with (
            _claimed(parent / "edgewise", mode=0o700) as folder,
            storage_errors("write to", parent),
        ):
            yield folder
    except StorageError as error:
        error.remedy = "Free some space there, or name another folder in TMPDIR."
        raise


def remove_folder(path: Path) -> None:
    """Remove a folder: it is gone at once, whatever ends this process, and its files as soon as
    nobody reads them.

    Raises:
        StorageError: it cannot be removed.
    """
    left = _hidden(path, UNFINISHED)
    with storage_errors("remove", path):
        path.rename(left)
    _discard(left)


def remove_unfinished(path: Path) -> None:
    """Remove what processes that ended in the middle of `new_folder` left beside `path`.

    What was to become `path` goes at once, anything else after an hour. A folder that was moved
    away, and for which none came, is put back. Nothing here fails: what cannot be removed stays.
    """
    with suppress(OSError), os.scandir(path.parent) as entries:
        for entry in list(entries):
            hidden = _HIDDEN.fullmatch(entry.name)
            if hidden is None or not entry.is_dir(follow_symlinks=False):
                continue
            name, kind = hidden.groups()
            age = time.time() - entry.stat(follow_symlinks=False).st_mtime
            if name == path.name or age > STALE_S:
                _take_back(Path(entry.path), path.with_name(name), kind)


def _take_back(left: Path, place: Path, kind: str) -> None:
    with suppress(OSError):  # BlockingIOError: its process is at work, or somebody reads it
        lock = lock_path(left)
        if lock is None:
            return
        try:
            if kind == MOVED_AWAY and not os.path.lexists(place):
                left.rename(place)
            else:
                shutil.rmtree(left, ignore_errors=True)
        finally:
            os.close(lock)


def _hidden(path: Path, kind: str) -> Path:
    return path.with_name(f".{path.name}.edgewise-{secrets.token_hex(6)}.{kind}")


@contextmanager
def _folders_above(path: Path) -> Iterator[None]:
    """Make the folders that `path` is to stand in; those that were not there go if it fails."""
    with storage_errors("create", path):
        missing = [folder for folder in path.parents if not folder.exists()]
    try:
        with storage_errors("create", path):
            path.parent.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        for folder in missing:
            with suppress(OSError):
                folder.rmdir()
        raise


@contextmanager
def _claimed(path: Path, mode: int = 0o777, waiting: Waiting | None = None) -> Iterator[Path]:
    """A new folder beside `path`, under this process's lock; what has its name in the end goes."""
    with storage_errors("create", path):
        remove_unfinished(path)
        if waiting is None or os.name != "posix":  # elsewhere there are no locks
            built, lock = _make_claimed(path, mode)
        else:
            built, lock = _alone(path, mode, waiting)
    try:
        yield built
    except BaseException as cause:
        # Under its lock: who waits for it looks next whether it is there.
        if lock is None or _is_locked_by(lock, built):
            shutil.rmtree(built, ignore_errors=True)
        if isinstance(cause, StorageError):  # people know it by the name it was to have
            cause.message = cause.message.replace(str(built), str(path))
        raise
    finally:
        if lock is not None:
            os.close(lock)
        _discard(built)


def _is_locked_by(handle: int, folder: Path) -> bool:
    with suppress(OSError):
        return os.path.samestat(os.fstat(handle), folder.lstat())
    return False


def _alone(path: Path, mode: int, waiting: Waiting) -> tuple[Path, int | None]:
    """As `_make_claimed`, once nobody else builds the same."""
    waited = False
    while True:
        # Who failed has removed the folders above, too.
        path.parent.mkdir(parents=True, exist_ok=True)
        with locked(path.parent):
            other = _being_built(path)
            if other is None:
                claimed = _make_claimed(path, mode)
                break
        try:
            if not waited:
                waiting(0, 1)
                waited = True
        except BaseException:
            os.close(other)
            raise
        until_free(other)
        remove_unfinished(path)
    if waited:
        waiting(1, 1)
    return claimed


def _being_built(path: Path) -> int | None:
    """A handle of the folder that somebody is making of the same name, if there is one."""
    for hidden in list(path.parent.iterdir()):
        found = _HIDDEN.fullmatch(hidden.name)
        if found is None or found.groups() != (path.name, UNFINISHED):
            continue
        with suppress(OSError):  # it went meanwhile
            handle = os.open(hidden, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                # Those who read what has been replaced share it.
                lock(handle, shared=True)
            except BlockingIOError:
                return handle
            os.close(handle)
    return None


def _make_claimed(path: Path, mode: int) -> tuple[Path, int | None]:
    while True:
        built = _hidden(path, UNFINISHED)
        built.mkdir(mode)
        # Whoever cleans up may take the folder for one that was left, until it is locked.
        with suppress(BlockingIOError, FileNotFoundError):
            lock = lock_path(built)
            if built.exists():
                return built, lock
            if lock is not None:
                os.close(lock)


def _refuse_existing(path: Path) -> None:
    if os.path.lexists(path):
        raise StorageError(
            f"{path} exists.",
            remedy="Remove it, choose another name, or ask to replace it.",
            code="storage.exists",
        )


def _sync_tree(folder: Path) -> None:
    for root, _, names in os.walk(folder):
        for name in names:
            # Windows flushes only what is open for writing.
            with (Path(root) / name).open("rb" if os.name == "posix" else "r+b") as file:
                os.fsync(file.fileno())
        sync_folder(Path(root))


def _put_in_place(built: Path, path: Path, *, replace: bool) -> None:
    """What stood at `path` then has the name of what was built."""
    if not replace:
        # Renaming onto an empty folder succeeds on POSIX, so look once more.
        _refuse_existing(path)
        built.rename(path)
        return
    while True:
        try:
            if not os.path.lexists(path):
                built.rename(path)
            elif not exchange(built, path):
                _rename_both(built, path)
            return
        except OSError as cause:
            if cause.errno not in _MEANWHILE or not built.exists():
                raise


def _rename_both(built: Path, path: Path) -> None:
    old = _hidden(path, MOVED_AWAY)
    lock: int | None = None
    with suppress(OSError):  # a link, or somebody is about to remove it
        lock = lock_path(path, shared=True)  # nobody is to put it back while this goes on
    try:
        path.rename(old)
        try:
            built.rename(path)
        except BaseException:
            old.rename(path)
            raise
        old.rename(built)
    finally:
        if lock is not None:
            os.close(lock)


def _discard(folder: Path) -> None:
    """Remove a folder under a hidden name, unless somebody reads it, who does so in the end."""
    with suppress(OSError):
        if folder.is_symlink() or not folder.is_dir():
            folder.unlink()
            return
        lock = lock_path(folder)
        shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            os.close(lock)
