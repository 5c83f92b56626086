"""Other processes of this machine, as /proc shows them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path


def running(pid: int) -> bool:
    """Whether a process is there and has not ended; one that nobody has waited for has."""
    try:
        return _stat(pid)[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def children(words: str, parent: int | None = None) -> list[int]:
    """A process's children, usually this one's, whose command line has these words in it."""
    found = []
    wanted = os.getpid() if parent is None else parent
    for path in Path("/proc").glob("[0-9]*"):
        try:
            theirs = int(_stat(int(path.name))[1]) == wanted
            if theirs and words.encode() in (path / "cmdline").read_bytes():
                found.append(int(path.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def eventually(condition: Callable[[], bool]) -> bool:
    """Whether it becomes true, for which another process may need a while."""
    for _ in range(1200):
        if condition():
            return True
        time.sleep(0.05)
    return False


def _stat(pid: int) -> list[str]:
    """The fields after the name, which may hold anything: state, parent, …"""
    return Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
