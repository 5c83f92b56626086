"""Pages on their way to a disk: whoever puts them there does not wait for it.

What changes the disk is done by a thread of its own, in the order in which it was asked for. Until
then it is seen as if it were done: a page that waits to be written is read from where it waits.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import monotonic

from edgewise_runtime.kv.page_disk import DiskStore, check_key

QUEUE_BYTES = 256 << 20
"""Bytes of pages that wait to be written, at most."""

PATIENCE_S = 10.0
"""Seconds that an engine which closes waits for its disk."""

NAME = "edgewise-pages"
"""Of the thread. As all of ours it does not wait for an engine that is collected on it."""

_ALL = b""
"""In place of a key: what is done about all pages."""


@dataclass(frozen=True, slots=True, eq=False)
class _Errand:
    """Something to be done on the disk.

    Attributes:
        do: does it.
        page: what it writes; None where it writes nothing.
        gone: whether the page, or all of them, are gone with it.
    """

    do: Callable[[], object]
    page: bytes | None = None
    gone: bool = False


class WriteBehind:
    """A `spill.PageStore` on a disk that others write to.

    One thread at a time uses it; `wait` is any thread's.

    Args:
        disk: used by nobody else from now on.
        room: bytes that may wait. Where pages come faster than the disk takes them, the least
            recently used of those that wait are dropped.
        patience_s: seconds that `close`, and all of `put` with `wait` before it, wait at most.
        on_dropped: hears how many pages did not come to lie on the disk, on any thread.
    """

    def __init__(
        self,
        disk: DiskStore,
        *,
        room: int = QUEUE_BYTES,
        patience_s: float = PATIENCE_S,
        on_dropped: Callable[[int], None] | None = None,
    ) -> None:
        self._disk = disk
        self._room = room
        self._patience_s = patience_s
        self._on_dropped = on_dropped or (lambda pages: None)
        self._changed = threading.Condition()
        # By key, in the order they are to be done; and the one that is being done.
        self._waiting: OrderedDict[bytes, _Errand] = OrderedDict()
        self._doing: dict[bytes, _Errand] = {}
        self._queued = 0
        self._closed = False
        self._deadline: float | None = None
        self._thread = threading.Thread(target=self._work, name=NAME, daemon=True)
        self._thread.start()

    @property
    def bytes_used(self) -> int:
        """Bytes on the disk."""
        return self._disk.bytes_used

    @property
    def bytes_queued(self) -> int:
        """Bytes of pages that are not on the disk yet, at most `room`."""
        return self._queued

    @property
    def limit(self) -> int:
        """Bytes on the disk at most."""
        return self._disk.limit

    def put(self, key: bytes, data: bytes | memoryview, *, wait: bool = False) -> None:
        """Keep a page.

        Args:
            wait: for room, rather than to drop pages that wait; as long as patience lasts.

        Raises:
            InputError: as `DiskStore.check` does.
        """
        size = len(self._disk.check(key, data))
        with self._changed:
            if self._closed:
                return
            self._take_back(key)
            if wait and size <= self._room:
                self._changed.wait_for(lambda: self._queued + size <= self._room, self._patience())
            dropped = self._make_room(size)
            if self._queued + size <= self._room:
                page = bytes(data)
                self._queued += size
                self._waiting[key] = _Errand(partial(self._write, key, page), page)
                self._changed.notify_all()
            else:
                dropped += 1
        if dropped:
            self._on_dropped(dropped)

    def get(self, key: bytes) -> bytes | None:
        """A page's bytes, from where it waits or from the disk; None where it is not there.

        Raises:
            InputError: ``input.key``.
        """
        errand = self._decided(key)
        if errand is not None:
            return errand.page
        try:
            data = self._disk.read(key)
        except OSError:
            return None
        if data is None:
            # Not whole: it is removed, unless another process writes it meanwhile.
            self._send(key, partial(self._disk.get, key), gone=True)
        else:
            self._send(key, partial(self._disk.touch, key))
        return data

    def __contains__(self, key: bytes) -> bool:
        errand = self._decided(key, used=False)
        return key in self._disk if errand is None else not errand.gone

    def touch(self, key: bytes) -> bool:
        """Make a page the most recently used without reading it; False where it is not there."""
        errand = self._decided(key)
        if errand is not None:
            return not errand.gone
        found = key in self._disk
        if found:
            self._send(key, partial(self._disk.touch, key))
        return found

    def discard(self, key: bytes) -> None:
        """Remove a page, if it is there."""
        self._send(check_key(key), partial(self._disk.discard, key), gone=True)

    def clear(self) -> None:
        """Remove all pages of this producer, those that other processes wrote as well."""
        with self._changed:
            for key in list(self._waiting):
                self._take_back(key)
        self._send(_ALL, self._disk.clear, gone=True)

    def wait(self) -> None:
        """Wait until what was asked for is done, as long as patience lasts."""
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting and not self._doing, self._patience_s)

    def close(self) -> None:
        """Wait for what is to be written, as long as patience lasts; the rest is dropped."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            patience = self._patience()
        self._thread.join(patience)
        with self._changed:
            dropped = sum(errand.page is not None for errand in self._waiting.values())
            for key in list(self._waiting):
                self._take_back(key)
        self._disk.close()
        if dropped:
            self._on_dropped(dropped)

    def _decided(self, key: bytes, *, used: bool = True) -> _Errand | None:
        """What is to be done about a page, if the disk need not be looked at to know of it."""
        check_key(key)
        with self._changed:
            # What was asked for last counts, and nothing was before all pages were to go.
            found = (e.get(k) for e in (self._waiting, self._doing) for k in (key, _ALL))
            errand = next((one for one in found if one is not None), None)
            if errand is None or not (errand.gone or errand.page is not None):
                return None
            if used and self._waiting.get(key) is errand:
                self._waiting.move_to_end(key)
            return errand

    def _send(self, key: bytes, do: Callable[[], object], *, gone: bool = False) -> None:
        """Have something done about a page after all else, in place of what was to be done."""
        with self._changed:
            if not self._closed:
                self._take_back(key)
                self._waiting[key] = _Errand(do, gone=gone)
                self._changed.notify_all()

    def _take_back(self, key: bytes) -> None:
        errand = self._waiting.pop(key, None)
        if errand is not None and errand.page is not None:
            self._queued -= len(errand.page)

    def _make_room(self, size: int) -> int:
        """Drop the least recently used pages that wait, as many as must be; how many those are.

        What only tells the disk of a use goes with them: it is behind anyway.
        """
        dropped = 0
        removals: list[tuple[bytes, _Errand]] = []
        while self._waiting and self._queued + size > self._room >= size:
            key, errand = self._waiting.popitem(last=False)
            if errand.gone:
                removals.append((key, errand))
            elif errand.page is not None:
                self._queued -= len(errand.page)
                dropped += 1
        for key, errand in reversed(removals):
            self._waiting[key] = errand
            self._waiting.move_to_end(key, last=False)
        return dropped

    def _patience(self) -> float:
        """Seconds that are left of it, which begins to run out when it is first asked for."""
        now = monotonic()
        if self._deadline is None:
            self._deadline = now + self._patience_s
        return max(self._deadline - now, 0.0)

    def _write(self, key: bytes, page: bytes) -> None:
        before = self._disk.dropped
        self._disk.put(key, page)
        if self._disk.dropped > before:
            self._on_dropped(1)

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                if not self._waiting:
                    return
                key, errand = self._waiting.popitem(last=False)
                self._doing = {key: errand}
            try:
                errand.do()
            except Exception:
                # Pages only save time: whatever a disk may do, it costs no more than a page.
                self._on_dropped(int(errand.page is not None))
            with self._changed:
                self._doing = {}
                if errand.page is not None:
                    self._queued -= len(errand.page)
                self._changed.notify_all()
