"""Text that may be anything, up to a trigger."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from edgewise_runtime.errors import InputError
from edgewise_runtime.format.reading import shorten

MAX_BYTES = 1024
"""Bytes of all triggers together."""


def free_text(triggers: Sequence[bytes]) -> list[list[int]]:
    """Where each byte leads from each place of free text: a place, the first of which is 0, or as
    many as there are where a trigger is whole.

    A place is the longest beginning of a trigger that the text ends in (A. Aho and M. Corasick,
    "Efficient String Matching", 1975).

    Raises:
        InputError: ``constraint.triggers`` for none, for an empty one, and for too many.
    """
    size = sum(map(len, triggers))
    if not triggers or size > MAX_BYTES or not all(triggers):
        raise InputError(
            f"Cannot wait for {len(triggers)} triggers of {size} bytes: {shorten(triggers)}.",
            remedy=f"Give at least one, none of them empty, and {MAX_BYTES:,} bytes at most.",
            code="constraint.triggers",
        )
    beginnings = [word[:end] for word in triggers for end in range(1, len(word))]
    places = {place: i for i, place in enumerate(dict.fromkeys([b"", *beginnings]))}
    whole, letters = frozenset(triggers), sorted(set(b"".join(triggers)))
    table: list[list[int]] = []
    for place in places:
        row = [0] * 256
        for byte in letters:
            ends = list(_ends(place + bytes([byte])))
            if whole.intersection(ends):
                row[byte] = len(places)
            else:
                row[byte] = next(places[end] for end in ends if end in places)
        table.append(row)
    return table


def _ends(text: bytes) -> Iterator[bytes]:
    """What a text ends in, longest first: last nothing at all."""
    for start in range(len(text) + 1):
        yield text[start:]
