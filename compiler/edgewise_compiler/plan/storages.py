"""Where temporaries live: scratch storages reused as soon as their last reader has run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

ALIGN = 256  # bytes; WebGPU's default minimum storage offset, and more than any CPU vector needs


@dataclass(frozen=True)
class Lifetime:
    """A temporary that holds its ``bytes`` from step ``first`` to step ``last``, both included."""

    key: str
    bytes: int
    first: int
    last: int


def assign_storages(lifetimes: Sequence[Lifetime]) -> tuple[dict[str, int], list[int]]:
    """Give each temporary a storage of its own for its lifetime.

    Greedy in order of first use: the smallest free storage that fits, else the largest free one,
    grown, else a new one. Two temporaries alive in the same step never share a storage, so a
    kernel's outputs never overlap its inputs and a storage is never bound twice in one step.

    Returns:
        The storage index of each key, and the size in bytes of each storage.
    """
    storage_of: dict[str, int] = {}
    sizes: list[int] = []
    busy_until: list[int] = []
    for life in sorted(lifetimes, key=lambda item: (item.first, -item.bytes, item.key)):
        need = -(-life.bytes // ALIGN) * ALIGN
        free = [i for i, until in enumerate(busy_until) if until < life.first]
        fitting = [i for i in free if sizes[i] >= need]
        if fitting:
            chosen = min(fitting, key=lambda i: (sizes[i], i))
        elif free:
            chosen = max(free, key=lambda i: (sizes[i], -i))
            sizes[chosen] = need
        else:
            chosen = len(sizes)
            sizes.append(need)
            busy_until.append(-1)
        busy_until[chosen] = life.last
        storage_of[life.key] = chosen
    return storage_of, sizes
