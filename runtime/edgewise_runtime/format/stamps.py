"""Remembers which large files were hashed before, so that a second start need not hash them.

Stamps of one folder live in one JSON file in the user's cache folder. They save time and decide
nothing else: without them, or where they cannot be written, everything is hashed.
"""

from __future__ import annotations

import os
from pathlib import Path

from edgewise_runtime.errors import EdgewiseError, StorageError
from edgewise_runtime.files import (
    cache_folder,
    read_bytes,
    sha256_bytes,
    storage_errors,
    write_json,
)
from edgewise_runtime.format.reading import parse_json

Stamp = list[object]
"""Size, modification time, change time (ns) and sha256 of a file."""

MAX_BYTES = 1 << 24


def make_stamp(status: os.stat_result, sha256: str) -> Stamp:
    """What identifies a file's present contents, if its sha256 is this.

    Make it before hashing: a file that changes meanwhile then has another stamp.
    """
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, sha256]


class Stamps:
    """The stamps of a folder's files by name."""

    def __init__(self, folder: Path) -> None:
        self._name = f"{sha256_bytes(os.fsencode(folder))[:32]}.json"
        self._table: dict[str, Stamp] = {}
        self._changed = False
        try:
            data = read_bytes(cache_folder() / "verified" / self._name, MAX_BYTES)
            found = parse_json(data, self._name, StorageError)
        except EdgewiseError:
            return
        if isinstance(found, dict):
            self._table = found

    def holds(self, name: str, stamp: Stamp) -> bool:
        return self._table.get(name) == stamp

    def add(self, name: str, stamp: Stamp) -> None:
        self._table[name] = stamp
        self._changed = True

    def save(self) -> None:
        """Write what was added, if the cache folder lets us."""
        if not self._changed:
            return
        try:
            path = cache_folder() / "verified" / self._name
            with storage_errors("create", path.parent):
                path.parent.mkdir(parents=True, exist_ok=True)
            write_json(path, self._table)
        except StorageError:
            return
