"""Pages at rest on a disk: a file each (`page_file`), which is believed only if it is whole.

Nothing is flushed to the disk: after a power cut the sha256 tells which files are torn.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from edgewise_runtime.errors import InputError
from edgewise_runtime.files import temporary_file
from edgewise_runtime.kv.page_file import HEADER, header_of, payload_of, producer_digest
from edgewise_runtime.kv.page_files import PageFiles, make_private

KEY_BYTES = 32

# No symbolic links, no waiting for the other end of a pipe, no text; not every system has each.
_SAFELY = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def check_key(key: bytes) -> bytes:
    """The key, if it can be one.

    Raises:
        InputError: ``input.key``.
    """
    if not isinstance(key, bytes) or len(key) != KEY_BYTES:
        raise InputError(f"{key!r} is not a key of {KEY_BYTES} bytes.", code="input.key")
    return key


class DiskStore:
    """A `spill.PageStore` of files, which processes may share and which the next one finds again.

    `put`, `get`, `touch`, `discard` and `clear` are one thread's; another one may `read`, and ask
    whether a page is there.

    Args:
        folder: where all producers' pages lie; made if it is not there.
        limit_bytes: of all files in it, headers included.
        producer: what computes the pages; other producers' pages are never found.
        page_bytes: bytes of every page.

    Attributes:
        dropped: pages that could not be written: the disk was full, or the folder gone.
        damaged: files that were not what their names say, and were removed.

    Raises:
        StorageError: where the folder cannot be made or is not this user's alone.
    """

    def __init__(self, folder: Path, limit_bytes: int, producer: str, page_bytes: int) -> None:
        self._producer = producer_digest(producer)
        self._home = self._producer.hex()[:32]
        self._page_bytes = page_bytes
        self._file_bytes = HEADER.size + page_bytes
        self._closed = False
        self._files = PageFiles(folder, limit_bytes)
        make_private(folder / self._home)
        self.dropped = 0
        self.damaged = 0

    @property
    def bytes_used(self) -> int:
        """Bytes of all files in the folder, as far as this process knows."""
        return self._files.bytes

    @property
    def limit(self) -> int:
        return self._files.limit

    def check(self, key: bytes, data: bytes | memoryview) -> memoryview:
        """The bytes of a page, if it can be one.

        Raises:
            InputError: ``input.key``, ``input.pages`` for another size than the store's pages have.
        """
        view = memoryview(data).cast("B")
        check_key(key)
        if len(view) != self._page_bytes:
            message = f"A page has {self._page_bytes} bytes, not {len(view)}."
            raise InputError(message, code="input.pages")
        return view

    def put(self, key: bytes, data: bytes | memoryview, *, wait: bool = False) -> None:
        """Keep a page; it is dropped, and counted, where it cannot be written.

        Raises:
            InputError: as `check` does.
        """
        view, name = self.check(key, data), self._name(key)
        if self._closed or self._file_bytes > self.limit:
            return
        self._files.forget(name)
        self._files.make_room(self._file_bytes)
        if not self._write(name, header_of(self._producer, key, view), view):
            self.dropped += 1
            return
        self._files.use(name, self._file_bytes)
        self._files.wrote(self._file_bytes)

    def get(self, key: bytes) -> bytes | None:
        """The page's bytes; None where it is not there or not whole, and then it is removed.

        Raises:
            InputError: ``input.key``.
        """
        name = self._name(key)
        try:
            data = self.read(key)
        except OSError:
            # Gone, or out of reach for a reason that may pass.
            self._files.forget(name)
            return None
        if data is None:
            self.damaged += 1
            self._files.remove(name)
            return None
        self._files.use(name, self._file_bytes)
        return data

    def read(self, key: bytes) -> bytes | None:
        """The page's bytes, without a change to anything; None where what is there is not whole.

        Raises:
            InputError: ``input.key``.
            OSError: where nothing is there, or it is out of reach.
        """
        name = self._name(key)
        if self._closed:
            raise FileNotFoundError(name)
        try:
            return self._read(key, name)
        except OSError as cause:
            if cause.errno == errno.ELOOP:
                return None
            raise

    def __contains__(self, key: bytes) -> bool:
        """Whether the page is there; whether it is whole, only `get` tells."""
        name = self._name(key)
        if self._closed:
            return False
        try:
            status = (self._files.folder / name).lstat()
        except OSError:
            return False
        return stat.S_ISREG(status.st_mode) and status.st_size == self._file_bytes

    def touch(self, key: bytes) -> bool:
        """Make a page the most recently used without reading it; False where it is not there."""
        name, found = self._name(key), key in self
        if found:
            self._files.use(name, self._file_bytes)
        else:
            self._files.forget(name)
        return found

    def discard(self, key: bytes) -> None:
        """Remove a page, if it is there."""
        name = self._name(key)
        if not self._closed:
            self._files.remove(name)

    def clear(self) -> None:
        """Remove all pages of this producer, those that other processes wrote as well."""
        if not self._closed:
            self._files.remove_all(self._home)

    def wait(self) -> None:
        """Nothing is ever to be waited for: all is done when it was asked for."""

    def close(self) -> None:
        """Be done: the pages stay on the disk for the next store; this one has none any more."""
        self._closed = True

    def _name(self, key: bytes) -> str:
        return f"{self._home}/{check_key(key).hex()}.kv"

    def _write(self, name: str, *parts: bytes | memoryview) -> bool:
        path = self._files.folder / name
        try:
            # Whoever emptied the cache may have removed the folders too.
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with temporary_file(path, 0o600) as (temporary, handle):
                with os.fdopen(handle, "wb") as file:
                    for part in parts:
                        file.write(part)
                os.replace(temporary, path)
        except OSError:
            return False
        return True

    def _read(self, key: bytes, name: str) -> bytes | None:
        handle = os.open(self._files.folder / name, os.O_RDONLY | _SAFELY)
        try:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode) or status.st_size != self._file_bytes:
                return None
            with open(handle, "rb", closefd=False) as file:
                data = file.read(self._file_bytes)
        finally:
            os.close(handle)
        return payload_of(self._producer, key, data)
