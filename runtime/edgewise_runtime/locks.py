"""Locks on files and folders that end with the process that holds them, however it ends."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from edgewise_runtime.files import storage_errors

if sys.platform != "win32":
    import fcntl

_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


def lock(handle: int, *, shared: bool = False) -> bool:
    """Claim an open file or folder until the handle is closed, at once or not at all.

    Returns:
        False where the system or the disk has no locks.

    Raises:
        BlockingIOError: somebody has it; with `shared`, for themselves alone.
    """
    if sys.platform == "win32":
        return False
    try:
        fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:
        return False
    return True


def lock_path(path: Path, *, shared: bool = False) -> int | None:
    """As `lock` of what stands at a path and is no link; returns the handle to close.

    None where there are no locks.

    Raises:
        BlockingIOError: somebody has it.
        OSError: it cannot be opened; FileNotFoundError where it is gone, or another by now.
    """
    if sys.platform == "win32":
        return None
    handle = os.open(path, os.O_RDONLY | _NO_LINK)
    try:
        locked = lock(handle, shared=shared)
        # What was opened may have got another name before it was locked.
        if locked and not os.path.samestat(os.fstat(handle), path.lstat()):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    except BaseException:
        os.close(handle)
        raise
    if locked:
        return handle
    os.close(handle)
    return None


@contextmanager
def turn(path: Path, waiting: Callable[[int, int], None]) -> Iterator[None]:
    """Be the only one in a block of this path, among processes and threads that ask for that.

    Whoever comes second waits for the first. The lock lies beside `path` in a hidden file, which
    goes with whoever has it. Where there are no locks, nobody waits.

    Args:
        waiting: told how much of the waiting is done, ``(0, 1)`` and ``(1, 1)``, if there is any.

    Raises:
        StorageError: the file cannot be made.
    """
    if sys.platform == "win32":
        yield
        return
    beside = path.with_name(f".{path.name}.edgewise.lock")
    handle = _taken(beside, waiting)
    try:
        yield
    finally:
        with suppress(OSError):
            beside.unlink()
        os.close(handle)


def _taken(beside: Path, waiting: Callable[[int, int], None]) -> int:
    waited = False
    while True:
        with storage_errors("create", beside):
            handle = os.open(beside, os.O_RDONLY | os.O_CREAT | _NO_LINK, 0o666)
        try:
            try:
                if not lock(handle):
                    return handle
            except BlockingIOError:
                if not waited:
                    waiting(0, 1)
                    waited = True
                fcntl.flock(handle, fcntl.LOCK_EX)
            # Who had it before has removed it, and somebody may have made another.
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(handle), beside.lstat()):
                    if waited:
                        waiting(1, 1)
                    return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)
