"""Folders that are read for a while, and stay whole for that long whatever comes in their place.

Who opens a folder's files one after another by their paths may find the first of one folder and the
second of the one that replaced it. So a reader goes through a handle of the folder, and holds a
lock that keeps `folders` from removing what was replaced.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from weakref import finalize

from edgewise_runtime import locks
from edgewise_runtime.folders import remove_unfinished

HANDLES = Path("/proc/self/fd")
"""Where Linux lets what is open be reached by paths that begin with its handle."""


class Held:
    """A folder as it was when it was opened.

    Attributes:
        files: leads to the folder itself until it is released, or this object is gone, wherever it
            is by then. Where the system has no such paths, the path it was opened by.

    Raises:
        OSError: it is not there, or is no folder.
    """

    def __init__(self, path: Path) -> None:
        self.files = path
        self._handle: finalize[..., Held] | None = None
        if not HANDLES.is_dir():
            return
        with suppress(PermissionError):  # it may be entered, though not be listed
            handle = _opened(path)
            self._handle = finalize(self, _release, handle, path)
            self.files = HANDLES / str(handle)

    def release(self) -> None:
        """Read nothing more of it. Who is the last to read what was replaced removes it."""
        if self._handle is not None:
            self._handle()


def _opened(path: Path) -> int:
    # Who has just put it in its place, or is about to remove it, has it for a moment.
    deadline = time.monotonic() + locks.PATIENCE_S
    while True:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            locks.lock(handle, shared=True)
            stays = os.path.samestat(os.fstat(handle), path.stat())
        except BlockingIOError:
            stays = False
        except OSError:
            os.close(handle)
            raise
        if stays or time.monotonic() > deadline:
            return handle
        os.close(handle)
        time.sleep(0.001)


def _release(handle: int, path: Path) -> None:
    try:
        stands = os.path.samestat(os.fstat(handle), path.stat())
    except OSError:
        stands = False
    finally:
        os.close(handle)
    if not stands:
        remove_unfinished(path)
