"""What the server hands out: named contents with a hash, from memory or from a file."""

from __future__ import annotations

import gzip
import hashlib
from collections import OrderedDict
from dataclasses import dataclass
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
    ".webmanifest": "application/manifest+json",
    ".wgsl": "text/wgsl; charset=utf-8",
    ".woff2": "font/woff2",
}
"""Content types by suffix; what is not here is bytes."""

COMPRESSED = frozenset({".css", ".html", ".jinja", ".js", ".json", ".map", ".svg", ".wgsl"})
WORTH_COMPRESSING = 1024  # bytes
MAX_COMPRESSED = 16 << 20  # bytes of a file that is still compressed, and held for that

IMMUTABLE = "public, max-age=31536000, immutable"
REVALIDATED = "no-cache"


@dataclass(frozen=True)
class Resource:
    """One URL's contents.

    Attributes:
        source: the bytes themselves, or the file that has them.
        sha256: of the contents; what the ETag is made of.
        immutable: whether the URL can never mean other contents.
    """

    source: bytes | Path
    suffix: str
    size: int
    sha256: str
    immutable: bool

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
    """Gzipped contents by sha256, the most recently asked for, within a number of bytes."""

    def __init__(self, most: int = 64 << 20) -> None:
        self._most = most
        self._held: OrderedDict[str, bytes] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def get(self, sha256: str, data: bytes) -> bytes:
        """``data`` gzipped, made once as long as there is room."""
        with self._lock:
            if sha256 in self._held:
                self._held.move_to_end(sha256)
                return self._held[sha256]
        made = gzip.compress(data, 6, mtime=0)
        with self._lock:
            if sha256 not in self._held:
                self._held[sha256] = made
                self._bytes += len(made)
            while self._bytes > self._most and self._held:
                self._bytes -= len(self._held.popitem(last=False)[1])
        return made
