"""Two names that change places in one step of the system, where it has such a step."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from collections.abc import Callable
from pathlib import Path

_AT_FDCWD = -100
_UNKNOWN = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP})
"""What systems and disks answer that cannot do it; nothing has happened then."""


def _renameat2(libc: ctypes.CDLL) -> Callable[[bytes, bytes], int]:
    call, exchange = libc.renameat2, ctypes.c_uint(2)
    return lambda one, other: int(call(_AT_FDCWD, one, _AT_FDCWD, other, exchange))


def _renamex_np(libc: ctypes.CDLL) -> Callable[[bytes, bytes], int]:
    call, swap = libc.renamex_np, ctypes.c_uint(2)
    return lambda one, other: int(call(one, other, swap))


CALLS: dict[str, Callable[[ctypes.CDLL], Callable[[bytes, bytes], int]]] = {
    "linux": _renameat2,
    "darwin": _renamex_np,  # as its manual has it; never tried
}
"""The system's own call, by platform; elsewhere there is none."""


def exchange(one: Path, other: Path) -> bool:
    """Let what stands at two paths of one disk change places: who looks sees it before or after.

    Returns:
        Whether it was done; False where the system or the disk has no such step.

    Raises:
        OSError: as a rename's, where one of them is not there, say.
    """
    find = CALLS.get(sys.platform)
    try:
        call = find(ctypes.CDLL(None, use_errno=True)) if find else None
    except AttributeError:  # a C library that does not know it
        return False
    if call is None:
        return False
    if call(os.fsencode(one), os.fsencode(other)) == 0:
        return True
    number = ctypes.get_errno()
    if number in _UNKNOWN:
        return False
    raise OSError(number, os.strerror(number), str(one), None, str(other))
