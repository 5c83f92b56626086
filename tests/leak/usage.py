"""What a process holds of the system, as Linux counts it."""

from __future__ import annotations

import gc
import os
import re
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

_SELF = Path("/proc/self")


@dataclass(frozen=True)
class Usage:
    """What is held.

    Attributes:
        threads: of this process.
        descriptors: open files, sockets, pipes.
        mappings: ranges of memory that are mapped to a file which is gone, as libraries that were
            loaded from a copy are.
        children: processes that this one has begun.
        resident: bytes in memory.
    """

    threads: int
    descriptors: int
    mappings: int
    children: int
    resident: int

    def to_json(self) -> dict[str, int]:
        return asdict(self)


def used() -> Usage:
    """What this process holds now, garbage apart."""
    gc.collect()
    status = (_SELF / "status").read_text()
    maps = (_SELF / "maps").read_text().splitlines()
    children = (_SELF / "task" / str(os.getpid()) / "children").read_text().split()
    return Usage(
        threads=_number(status, "Threads"),
        descriptors=len(list((_SELF / "fd").iterdir())),
        mappings=sum(line.endswith("(deleted)") for line in maps),
        children=len(children),
        resident=_number(status, "VmRSS") << 10,
    )


def settled(within_s: float = 5.0) -> Usage:
    """What it holds once nothing is being closed any more: a server's thread may be at it."""
    usage, end = used(), time.monotonic() + within_s
    while time.monotonic() < end:
        time.sleep(0.05)
        before, usage = usage, used()
        if replace(usage, resident=0) == replace(before, resident=0):
            break
    return usage


def _number(status: str, name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+)", status, re.MULTILINE)
    if found is None:
        raise ValueError(f"/proc/self/status has no {name}")
    return int(found[1])
