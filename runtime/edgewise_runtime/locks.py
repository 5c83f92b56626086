"""Locks on files and folders that end with the process that holds them, however it ends."""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

if sys.platform != "win32":
    import fcntl

PATIENCE_S = 5.0
"""Seconds for a lock that is kept for less than a thousandth of that."""

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
def locked(folder: Path) -> Iterator[None]:
    """Be the only one in a block of this folder, which takes no longer than looking around in it.

    Who keeps it for longer, whatever for, is not waited for, and neither is a disk without locks.
    """
    handle, deadline = os.open(folder, os.O_RDONLY), time.monotonic() + PATIENCE_S
    try:
        while time.monotonic() < deadline:
            with suppress(BlockingIOError):
                lock(handle)
                break
            time.sleep(0.001)
        yield
    finally:
        os.close(handle)


def until_free(handle: int) -> None:
    """Wait until nobody has a file or folder for themselves any more, and close it."""
    try:
        if sys.platform != "win32":
            fcntl.flock(handle, fcntl.LOCK_SH)
    finally:
        os.close(handle)
