"""Which of several GPUs of a kind is meant by an index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from edgewise_runtime.errors import DeviceError


class Indexed(Protocol):
    """What people choose by its index; its text is what a list calls it."""

    @property
    def index(self) -> int: ...


Found = TypeVar("Found", bound=Indexed)


def by_index(found: Sequence[Found], index: int | None, one: str, several: str) -> Found:
    """The one with an index, None for the first, which is the best.

    Args:
        found: all of them, at least one, in the order of their indices.
        one, several: what they are, in words.

    Raises:
        DeviceError: ``device.adapter`` where it is not there, listing those that are.
    """
    chosen = 0 if index is None else index
    if isinstance(chosen, bool) or not isinstance(chosen, int) or not 0 <= chosen < len(found):
        listed = "; ".join(f"{each.index} is {each}" for each in found)
        raise DeviceError(
            f"There is no {one} {index!r}.", remedy=f"{several}: {listed}.", code="device.adapter"
        )
    return found[chosen]
