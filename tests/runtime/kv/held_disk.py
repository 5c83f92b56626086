"""A disk that stands still when it is told to."""

from __future__ import annotations

import threading
from pathlib import Path

from edgewise_runtime.kv.page_disk import DiskStore
from edgewise_runtime.kv.write_behind import WriteBehind
from tests.runtime.kv.test_page_disk import FILE, PAGE, key, page

SOON = 60.0
"""Seconds after which a thread that was let go must have ended."""


class HeldDisk(DiskStore):
    """A disk that stands still while it is held, and may refuse what it is asked for.

    Attributes:
        going: whether it does what it is asked for.
        begun: set when it is asked for something.
        asked: what for, on which thread.
        error: raised instead.
    """

    def __init__(self, folder: Path, limit: int = 100 * FILE) -> None:
        super().__init__(folder, limit, "me", PAGE)
        self.going, self.begun = threading.Event(), threading.Event()
        self.asked: list[tuple[str, str]] = []
        self.error: BaseException | None = None
        self.going.set()

    def put(self, key: bytes, data: bytes | memoryview, *, wait: bool = False) -> None:
        self._asked("put")
        super().put(key, data)

    def get(self, key: bytes) -> bytes | None:
        self._asked("get")
        return super().get(key)

    def touch(self, key: bytes) -> bool:
        self._asked("touch")
        return super().touch(key)

    def discard(self, key: bytes) -> None:
        self._asked("discard")
        super().discard(key)

    def clear(self) -> None:
        self._asked("clear")
        super().clear()

    def _asked(self, what: str) -> None:
        self.asked.append((what, threading.current_thread().name))
        self.begun.set()
        self.going.wait()
        if self.error is not None:
            raise self.error


def held(disk: HeldDisk, store: WriteBehind) -> None:
    """Have the disk stand still in the middle of writing page 0."""
    disk.going.clear()
    store.put(key(0), page(0))
    assert disk.begun.wait(SOON)


def on_disk(folder: Path) -> list[int]:
    return sorted(int(path.stem[:2], 16) for path in folder.rglob("*.kv"))
