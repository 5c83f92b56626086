"""The page files under a folder: which there are, least recently used first, and room for more.

Every producer has a folder of its own in there, and all of them share one bound, so that pages of a
model compiled anew or removed since make room like any others. When a file was last used is its
modification time: several processes see it, and so does the next one.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from edgewise_runtime.errors import StorageError
from edgewise_runtime.files import storage_errors, unlink_unclaimed

MAX_ENTRIES = 1 << 18
"""Entries of folders looked at when the files are counted, whatever they are, and"""
MAX_FILES = 1 << 16
"""files kept."""

STALE_S = 3600
"""Seconds after which a temporary file's writer must be gone, also where locks do not tell."""

RESCAN = 8
"""The files are counted again once another 1/8 of the limit was written: others write too."""

_PRODUCER = re.compile(r"[0-9a-f]{32}")
_PAGE = re.compile(r"[0-9a-f]{64}\.kv")
_TEMPORARY = re.compile(r"\.[0-9a-f]{64}\.kv\.[0-9a-f]{12}\.tmp")


@dataclass(frozen=True, slots=True)
class _Known:
    size: int
    used_ns: int


class PageFiles:
    """The files ``<producer>/<key>.kv`` of a folder, of `limit` bytes in all.

    Processes that share the folder exceed the limit by `1 / RESCAN` of it and a file each. Nothing
    here follows a symbolic link below the folder, and files by other names are left alone.

    Raises:
        StorageError: ``storage.permission`` for a folder of another user, or one that others may
            write to; where it cannot be made or read.
    """

    def __init__(self, folder: Path, limit: int) -> None:
        self.folder = folder
        self.limit = limit
        self.bytes = 0
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._written = 0
        self._last_ns = 0
        make_private(folder, open_to_readers=True)
        with storage_errors("read", folder):
            self.scan()
        self.make_room(0)

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, name: str) -> bool:
        return name in self._known

    def scan(self) -> None:
        """Count the files anew."""
        found: list[tuple[int, str, int]] = []
        for name, entry in _entries(self.folder):
            with suppress(OSError):
                status = entry.stat(follow_symlinks=False)
                if not stat.S_ISREG(status.st_mode):
                    continue
                if _PAGE.fullmatch(entry.name):
                    found.append((status.st_mtime_ns, name, status.st_size))
                elif status.st_mtime < time.time() - STALE_S:
                    Path(entry.path).unlink()
                else:
                    unlink_unclaimed(Path(entry.path))
        found.sort()
        self._known = OrderedDict((name, _Known(size, used)) for used, name, size in found)
        self.bytes = sum(size for _, _, size in found)
        self._written = 0

    def use(self, name: str, size: int) -> None:
        """A file was read or written just now: it is the most recently used one."""
        self.forget(name)
        # Later than the last one, even where the clock stood still or was set back.
        self._last_ns = max(time.time_ns(), self._last_ns + 1)
        with suppress(OSError):
            os.utime(self.folder / name, ns=(self._last_ns, self._last_ns))
        self._known[name] = _Known(size, self._last_ns)
        self.bytes += size

    def wrote(self, size: int) -> None:
        """So many bytes were written: now and then, see what others wrote."""
        self._written += size
        if self._written * RESCAN > self.limit:
            with suppress(OSError):
                self.scan()
            self.make_room(0)

    def forget(self, name: str) -> None:
        """A file is gone."""
        known = self._known.pop(name, None)
        if known is not None:
            self.bytes -= known.size

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        self.forget(name)
        with suppress(OSError):
            (self.folder / name).unlink()

    def remove_all(self, home: str) -> None:
        """Remove the files of one producer."""
        with suppress(OSError):
            self.scan()
        for name in [name for name in self._known if name.startswith(f"{home}/")]:
            self.remove(name)

    def make_room(self, size: int) -> None:
        """Remove the least recently used files until `size` more bytes fit."""
        count = MAX_FILES - (size > 0)
        while self._known and (self.bytes + size > self.limit or len(self._known) > count):
            name, known = next(iter(self._known.items()))
            used_ns = _used_ns(self.folder / name)
            if used_ns is not None and used_ns > known.used_ns:
                # Another process used it since.
                self._known[name] = _Known(known.size, used_ns)
                self._known.move_to_end(name)
            else:
                self.remove(name)


def make_private(folder: Path, *, open_to_readers: bool = False) -> None:
    """Make a folder, or check that the one there is this user's alone.

    Args:
        open_to_readers: whether others may look at what is in it, though not change it.

    Raises:
        StorageError: ``storage.permission`` where it is not, and where it cannot be made.
    """
    with storage_errors("create", folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat() if open_to_readers else folder.lstat()
    if os.name != "posix":
        return
    others = 0o022 if open_to_readers else 0o077
    if not stat.S_ISDIR(status.st_mode):
        what = "is a symbolic link"
    elif status.st_uid != os.geteuid():
        what = f"belongs to user {status.st_uid}"
    elif status.st_mode & others:
        what = f"is open to other users (mode {stat.S_IMODE(status.st_mode):04o})"
    else:
        return
    raise StorageError(
        f"{folder} {what}, and what is kept there would tell them what was asked.",
        remedy=f"Choose another folder, or `chmod go= {folder}` if it is yours.",
        code="storage.permission",
    )


def _entries(folder: Path) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """What may be a page or a temporary file, with its name in the folder; bounded."""
    left = MAX_ENTRIES
    with os.scandir(folder) as producers:
        for producer in producers:
            left -= 1
            if left < 0:
                return
            if not _PRODUCER.fullmatch(producer.name) or not producer.is_dir(follow_symlinks=False):
                continue
            with suppress(OSError), os.scandir(producer.path) as files:
                for entry in files:
                    left -= 1
                    if left < 0:
                        return
                    if _PAGE.fullmatch(entry.name) or _TEMPORARY.fullmatch(entry.name):
                        yield f"{producer.name}/{entry.name}", entry


def _used_ns(path: Path) -> int | None:
    try:
        return path.lstat().st_mtime_ns
    except OSError:
        return None
