"""Which launches have to wait for those before them, by what each reads and writes.

A barrier orders all that came before it with all that comes after, so only the launches since the
last one count. Two launches are ordered where one of them writes what the other touches.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Range = tuple[str, int, int]
"""A piece of a buffer: its name, its first byte and the one after its last."""


@dataclass(frozen=True)
class Touched:
    """What a launch reads and writes."""

    reads: tuple[Range, ...]
    writes: tuple[Range, ...]


def barriers(launches: Sequence[Touched]) -> list[bool]:
    """Whether each launch needs a barrier before it; the first one never does."""
    needed: list[bool] = []
    read: list[Range] = []
    written: list[Range] = []
    for launch in launches:
        wait = (
            _meet(launch.reads, written)
            or _meet(launch.writes, written)
            or _meet(launch.writes, read)
        )
        if wait:
            read, written = [], []
        needed.append(wait)
        read += launch.reads
        written += launch.writes
    return needed


def _meet(some: Iterable[Range], others: Sequence[Range]) -> bool:
    return any(
        name == other and start < last and first < end
        for name, start, end in some
        for other, first, last in others
    )
