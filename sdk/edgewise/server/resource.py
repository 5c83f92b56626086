"""What the server hands out: named contents with a hash, from memory or from a file."""

from __future__ import annotations

import gzip
import hashlib
import os
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from threading import Lock

TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".jinja": "text/plain; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".map": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".webmanifest": "application/manifest+json",
    ".wgsl": "text/wgsl; charset=utf-8",
    ".woff2": "font/woff2",
}
"""Content types by suffix; what is not here is bytes."""

COMPRESSED = frozenset(
    {".css", ".html", ".jinja", ".js", ".json", ".map", ".svg", ".txt", ".webmanifest", ".wgsl"}
)
WORTH_COMPRESSING = 1024  # bytes
MAX_COMPRESSED = 32 << 20  # bytes of a file that is still compressed, and held for that

IMMUTABLE = "public, max-age=31536000, immutable"
REVALIDATED = "no-cache"


@dataclass(frozen=True)
class StoredFile:
    """A file as it was when it was offered: a path that is no link, size and time of change."""

    path: Path
    size: int
    changed_ns: int

    @staticmethod
    def of(path: Path) -> StoredFile:
        """The file as it is now."""
        real = path.resolve(strict=True) if path.is_symlink() else path
        status = real.stat()
        return StoredFile(real, status.st_size, status.st_mtime_ns)

    def open(self) -> FileIO | None:
        """The file for reading, unbuffered; None where it is gone, a link or another by now."""
        try:
            handle = os.open(self.path, os.O_RDONLY | _NO_LINK)
        except OSError:
            return None
        file = FileIO(handle)
        status = os.fstat(handle)
        if (status.st_size, status.st_mtime_ns) == (self.size, self.changed_ns):
            return file
        file.close()
        return None


# Windows has neither of these, but asks for one that POSIX does not have.
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


@dataclass(frozen=True)
class Resource:
    """One URL's contents.

    Attributes:
        source: the bytes themselves, or the file that has them.
        size: in bytes.
        sha256: of the contents; what the ETag is made of.
        immutable: whether the URL can never mean other contents.
    """

    source: bytes | StoredFile
    suffix: str
    size: int
    sha256: str
    immutable: bool = False

    @property
    def content_type(self) -> str:
        return TYPES.get(self.suffix, "application/octet-stream")

    @property
    def compressible(self) -> bool:
        return self.suffix in COMPRESSED and WORTH_COMPRESSING <= self.size <= MAX_COMPRESSED

    @property
    def cache_control(self) -> str:
        return IMMUTABLE if self.immutable else REVALIDATED


def in_memory(data: bytes, suffix: str, *, immutable: bool = False) -> Resource:
    """A resource of bytes at hand."""
    return Resource(data, suffix, len(data), hashlib.sha256(data).hexdigest(), immutable)


class Compressed:
    """Gzipped contents by sha256, those most recently asked for, within a number of bytes."""

    def __init__(self, most: int = 64 << 20) -> None:
        self._most = most
        self._held: OrderedDict[str, bytes] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    @property
    def held(self) -> int:
        """Bytes held now."""
        return self._bytes

    def get(self, sha256: str, read: Callable[[], bytes]) -> bytes:
        """What ``read`` gives, gzipped: made once as long as there is room."""
        with self._lock:
            if sha256 in self._held:
                self._held.move_to_end(sha256)
                return self._held[sha256]
        made = gzip.compress(read(), 6, mtime=0)
        with self._lock:
            if sha256 not in self._held:
                self._held[sha256] = made
                self._bytes += len(made)
            while self._bytes > self._most:
                self._bytes -= len(self._held.popitem(last=False)[1])
        return made
