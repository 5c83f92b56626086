"""Folders that appear whole or not at all, whatever becomes of the process that makes them.

A folder is built beside its place, under a hidden name that only edgewise gives, and its maker
holds a lock on it that ends with the process. So a folder of that name whose lock is free is what
a killed process left, and the next one that builds a folder there removes it.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from edgewise_runtime.errors import StorageError
from edgewise_runtime.files import storage_errors, sync_folder

if sys.platform != "win32":
    import fcntl

UNFINISHED, MOVED_AWAY = "tmp", "old"
"""What a hidden folder is: one that is being built, or one that made room for it."""

STALE_S = 3600
"""Seconds after which folders by other names than the one that is being built are looked at: some
disks that several machines share keep locks to each of them."""

_HIDDEN = re.compile(rf"\.(.+)\.edgewise-[0-9a-f]{{12}}\.({UNFINISHED}|{MOVED_AWAY})")


@contextmanager
def new_folder(path: Path, *, replace: bool = False) -> Iterator[Path]:
    """Build a whole folder that appears at `path` when the block ends, or never.

    The block fills a temporary folder beside `path`. On any exception, KeyboardInterrupt included,
    that folder is removed and `path` is as it was, as are the folders above it. With `replace`, a
    folder already at `path` is moved away first and removed last.

    Raises:
        StorageError: ``storage.exists`` where `path` exists and `replace` is false; for an OSError
            of the block and of what is done here, see `files.storage_errors`.
    """
    if not replace:
        _refuse_existing(path)
    with _folders_above(path), _claimed(path) as built, storage_errors("write", path):
        yield built
        _sync_tree(built)
        _put_in_place(built, path, replace=replace)
        sync_folder(path.parent)


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
    with suppress(OSError):  # BlockingIOError: its process is at work
        lock = _lock(left)
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
def _claimed(path: Path) -> Iterator[Path]:
    """A new folder beside `path`, under this process's lock, and removed if the block fails."""
    with storage_errors("create", path):
        remove_unfinished(path)
        built, lock = _make_claimed(path)
    try:
        yield built
    except BaseException as cause:
        shutil.rmtree(built, ignore_errors=True)
        if isinstance(cause, StorageError):  # people know it by the name it was to have
            cause.message = cause.message.replace(str(built), str(path))
        raise
    finally:
        if lock is not None:
            os.close(lock)


def _make_claimed(path: Path) -> tuple[Path, int | None]:
    while True:
        built = _hidden(path, UNFINISHED)
        built.mkdir()
        # Whoever cleans up may take the folder for one that was left, until it is locked.
        with suppress(BlockingIOError, FileNotFoundError):
            lock = _lock(built)
            if built.exists():
                return built, lock
            if lock is not None:
                os.close(lock)


def _lock(folder: Path) -> int | None:
    """Claim a folder until the handle is closed; None where the system or the disk has no locks.

    Raises:
        BlockingIOError: another process has it.
        OSError: it cannot be opened.
    """
    if sys.platform == "win32":
        return None
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise
    except OSError:
        os.close(handle)
        return None
    return handle


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
    if not replace or not os.path.lexists(path):
        # Renaming onto an empty folder succeeds on POSIX, so look once more.
        _refuse_existing(path)
        built.rename(path)
        return
    old = _hidden(path, MOVED_AWAY)
    path.rename(old)
    try:
        built.rename(path)
    except BaseException:
        old.rename(path)
        raise
    if old.is_dir() and not old.is_symlink():
        shutil.rmtree(old, ignore_errors=True)
    else:
        old.unlink()
