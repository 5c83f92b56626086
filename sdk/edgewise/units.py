"""Numbers in words."""

from __future__ import annotations

_BYTES = ("bytes", "KiB", "MiB", "GiB", "TiB")


def size(count: float) -> str:
    """Return a number of bytes in the unit that leaves one to four digits before the point."""
    unit = 0
    while count >= 1024 and unit < len(_BYTES) - 1:
        count, unit = count / 1024, unit + 1
    return f"{count:.0f} {_BYTES[unit]}" if unit == 0 else f"{count:.1f} {_BYTES[unit]}"


def weights(count: int) -> str:
    """Return a number of weights as people name models by, such as ``596.0M``."""
    for unit, letter in ((10**9, "B"), (10**6, "M"), (10**3, "K")):
        if count >= unit:
            return f"{count / unit:.1f}{letter}"
    return str(count)
