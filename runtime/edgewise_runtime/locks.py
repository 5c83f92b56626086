"""Locks on files and folders that end with the process that holds them, however it ends."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

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


def wait_for(file: Path, waiting: Callable[[int, int], None]) -> int | None:
    """Make a file, if there is none, and lock it once nobody else has it.

    Returns:
        The handle to close; until then the file may be removed. None on a system without locks.

    Args:
        waiting: told ``(0, 1)`` and ``(1, 1)`` before and after it is waited for, if it is.

    Raises:
        OSError: it cannot be made.
    """
    if sys.platform == "win32":
        return None
    waited = False
    while True:
        handle = os.open(file, os.O_RDONLY | os.O_CREAT | _NO_LINK, 0o666)
        try:
            try:
                lock(handle)
            except BlockingIOError:
                if not waited:
                    waiting(0, 1)
                    waited = True
                fcntl.flock(handle, fcntl.LOCK_EX)
            # Who had it before has removed it, and somebody may have made another.
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(handle), file.lstat()):
                    if waited:
                        waiting(1, 1)
                    return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)
