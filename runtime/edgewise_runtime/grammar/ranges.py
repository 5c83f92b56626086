"""Sets of code points as sorted, disjoint, inclusive ranges; surrogates are never in one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

Ranges: TypeAlias = "tuple[tuple[int, int], ...]"

LAST = 0x10FFFF
SURROGATES = (0xD800, 0xDFFF)


def ranges_of(pairs: Iterable[tuple[int, int]]) -> Ranges:
    """The union of inclusive pairs in any order, as few ranges as it takes, without surrogates."""
    first_surrogate, last_surrogate = SURROGATES
    whole: list[tuple[int, int]] = []
    for first, last in pairs:
        if first < first_surrogate <= last:
            whole.append((first, first_surrogate - 1))
        elif first < first_surrogate:
            whole.append((first, last))
        if last > last_surrogate:
            whole.append((max(first, last_surrogate + 1), last))
    joined: list[tuple[int, int]] = []
    for first, last in sorted(whole):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], last))
        else:
            joined.append((first, last))
    return tuple(joined)


def others(ranges: Ranges) -> Ranges:
    """All code points that are not in `ranges`."""
    gaps: list[tuple[int, int]] = []
    after = 0
    for first, last in ranges:
        if after < first:
            gaps.append((after, first - 1))
        after = last + 1
    if after <= LAST:
        gaps.append((after, LAST))
    return ranges_of(gaps)


def common(left: Ranges, right: Ranges) -> Ranges:
    """What is in both."""
    found: list[tuple[int, int]] = []
    i = j = 0
    while i < len(left) and j < len(right):
        first, last = max(left[i][0], right[j][0]), min(left[i][1], right[j][1])
        if first <= last:
            found.append((first, last))
        if left[i][1] < right[j][1]:
            i += 1
        else:
            j += 1
    return tuple(found)


def characters(text: str) -> Ranges:
    """The set of a text's characters."""
    return ranges_of((ord(c), ord(c)) for c in text)


EVERY = ranges_of([(0, LAST)])
