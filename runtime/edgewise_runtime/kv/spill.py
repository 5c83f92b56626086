"""Where pages go when the device has no room for them: their bytes by their keys, in memory, on
disk, or in memory first.

A key says all that its page's bytes depend on, so a store never has to ask whether they are still
right, only whether they are there and whole. Stores forget what was least recently used. One thread
at a time uses a store.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

from edgewise_runtime.kv.page_disk import DiskStore, check_key
from edgewise_runtime.kv.write_behind import WriteBehind

__all__ = ["DiskStore", "MemoryStore", "PageStore", "Tiered", "WriteBehind"]


class PageStore(Protocol):
    """Bytes of pages by 32-byte keys, of `limit` bytes in all."""

    def put(self, key: bytes, data: bytes | memoryview, *, wait: bool = False) -> None:
        """Keep a page as the most recently used; the least recently used ones make room.

        Never fails because it is full: a page that does not fit is not kept.

        Args:
            wait: until it can be kept, where that takes time. Without, nobody waits for a disk.

        Raises:
            InputError: ``input.key`` for another key than 32 bytes.
        """
        ...

    def get(self, key: bytes) -> bytes | None:
        """A page's bytes, which makes it the most recently used; None where it is not there."""
        ...

    def __contains__(self, key: bytes) -> bool:
        """Whether a page seems to be there; `get` may still find it gone."""
        ...

    def touch(self, key: bytes) -> bool:
        """Make a page the most recently used without reading it; False where it is not there."""
        ...

    def discard(self, key: bytes) -> None:
        """Forget a page, if it is there."""
        ...

    def clear(self) -> None:
        """Forget all pages."""
        ...

    @property
    def bytes_used(self) -> int:
        """Bytes kept, at most `limit`."""
        ...

    @property
    def limit(self) -> int:
        """Bytes kept at most."""
        ...

    def wait(self) -> None:
        """Wait until all that was asked for is done; any thread may."""
        ...

    def close(self) -> None:
        """Be done; a closed store has no pages and keeps none. Closing twice is fine."""
        ...


class MemoryStore:
    """A `PageStore` in this process's memory."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._used = 0
        self._closed = False
        self._pages: OrderedDict[bytes, bytes] = OrderedDict()

    @property
    def bytes_used(self) -> int:
        return self._used

    @property
    def limit(self) -> int:
        return self._limit

    def put(self, key: bytes, data: bytes | memoryview, *, wait: bool = False) -> None:
        self.push(key, data)

    def push(self, key: bytes, data: bytes | memoryview) -> list[tuple[bytes, bytes]]:
        """As `put`, and returns what it did not keep, keys and bytes, least recently used first."""
        self.discard(check_key(key))
        self._pages[key] = page = bytes(data)
        self._used += len(page)
        fallen: list[tuple[bytes, bytes]] = []
        if len(page) > self._limit or self._closed:
            # Nothing else could make room for it.
            fallen.append((key, page))
            self.discard(key)
        while self._used > self._limit:
            oldest = self._pages.popitem(last=False)
            self._used -= len(oldest[1])
            fallen.append(oldest)
        return fallen

    def get(self, key: bytes) -> bytes | None:
        page = self._pages.get(check_key(key))
        if page is not None:
            self._pages.move_to_end(key)
        return page

    def __contains__(self, key: bytes) -> bool:
        return check_key(key) in self._pages

    def touch(self, key: bytes) -> bool:
        return self.get(key) is not None

    def discard(self, key: bytes) -> None:
        page = self._pages.pop(check_key(key), None)
        if page is not None:
            self._used -= len(page)

    def clear(self) -> None:
        self._pages.clear()
        self._used = 0

    def pages(self) -> list[tuple[bytes, bytes]]:
        """All keys and bytes, least recently used first."""
        return list(self._pages.items())

    def wait(self) -> None:
        """Nothing is ever to be waited for."""

    def close(self) -> None:
        self._closed = True
        self.clear()


class Tiered:
    """A `PageStore` that keeps pages in memory and, what falls out of there, on disk.

    What is got from the disk is in memory again, and stays on the disk. Closing writes to the disk
    what only the memory has, as much as fits there.
    """

    def __init__(self, memory: MemoryStore, disk: PageStore) -> None:
        self.memory = memory
        self.disk = disk
        # Pages in memory that came from the disk, which need no writing if they are still there.
        self._on_disk: set[bytes] = set()

    @property
    def bytes_used(self) -> int:
        """Bytes of both; a page in memory and on disk counts twice."""
        return self.memory.bytes_used + self.disk.bytes_used

    @property
    def limit(self) -> int:
        return self.memory.limit + self.disk.limit

    def put(self, key: bytes, data: bytes | memoryview, *, wait: bool = False) -> None:
        if key in self.memory and self.memory.get(key) == data:
            return
        self._on_disk.discard(key)
        self._push(key, data, wait)

    def get(self, key: bytes) -> bytes | None:
        page = self.memory.get(key)
        if page is None:
            page = self.disk.get(key)
            if page is not None:
                self._on_disk.add(key)
                self._push(key, page, wait=False)
        return page

    def __contains__(self, key: bytes) -> bool:
        return key in self.memory or key in self.disk

    def touch(self, key: bytes) -> bool:
        return self.memory.touch(key) or self.disk.touch(key)

    def discard(self, key: bytes) -> None:
        self._on_disk.discard(key)
        self.memory.discard(key)
        self.disk.discard(key)

    def clear(self) -> None:
        self._on_disk.clear()
        self.memory.clear()
        self.disk.clear()

    def wait(self) -> None:
        self.disk.wait()

    def close(self) -> None:
        room = self.disk.limit
        kept: list[tuple[bytes, bytes]] = []
        for key, page in reversed(self.memory.pages()):
            room -= len(page)
            if room < 0:
                break
            kept.append((key, page))
        for key, page in reversed(kept):
            self._lower(key, page, wait=True)
        self._on_disk.clear()
        self.memory.close()
        self.disk.close()

    def _push(self, key: bytes, data: bytes | memoryview, wait: bool) -> None:
        for fallen, page in self.memory.push(key, data):
            self._lower(fallen, page, wait)

    def _lower(self, key: bytes, page: bytes, wait: bool) -> None:
        unchanged = key in self._on_disk
        self._on_disk.discard(key)
        if not (unchanged and self.disk.touch(key)):
            self.disk.put(key, page, wait=wait)
