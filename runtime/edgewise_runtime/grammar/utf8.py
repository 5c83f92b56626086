"""Sets of characters as the byte sequences that UTF-8 writes them with."""

from __future__ import annotations

from typing import TypeAlias

from edgewise_runtime.grammar.ranges import Ranges

Bytes: TypeAlias = "tuple[tuple[int, int], ...]"
"""A range of bytes for each place, one after the other."""

_ENDS_BY_LENGTH = (0x7F, 0x7FF, 0xFFFF, 0x10FFFF)


def utf8_sequences(ranges: Ranges) -> list[Bytes]:
    """The characters as sequences of byte ranges: a text of one of them is any bytes out of one
    sequence.

    No two sequences have a byte string in common, and where two ranges in the same place after the
    same ones overlap, they are equal. Ranges are cut where the encoded length changes, and then
    where not all continuations of a byte are in one (K. Thompson's ``rgrep``, as told by R. Cox,
    "Regular Expression Matching in the Wild", 2010).
    """
    found: list[Bytes] = []
    left = list(reversed(ranges))
    while left:
        first, last = left.pop()
        cut = _cut_after(first, last)
        if cut is None:
            found.append(tuple(zip(chr(first).encode(), chr(last).encode(), strict=True)))
        else:
            left += [(cut + 1, last), (first, cut)]
    return found


def _cut_after(first: int, last: int) -> int | None:
    """Behind which code point a range has to be cut; None where each byte of it is one range."""
    end = next(end for end in _ENDS_BY_LENGTH if first <= end)
    if last > end:
        return end
    if last <= 0x7F:
        return None
    for bits in (6, 12, 18):
        low = (1 << bits) - 1
        if first & ~low == last & ~low:
            continue
        if first & low:
            return first | low
        if last & low != low:
            return (last & ~low) - 1
    return None
