"""What in a page is not a finite number: keys and values that its program could not hold.

Kernels write NaN where a number is beyond float16, and what is computed from it is not finite
either. So a page with such a number is of use to nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from edgewise_runtime.format.dtypes import DTYPES
from edgewise_runtime.format.manifest import StateGroup
from edgewise_runtime.format.state import Row, page_rows, row_bytes

Part = Literal["keys", "values", "both"]

_EXPONENTS = {"float16": ("<u2", 0x7C00), "float32": ("<u4", 0x7F800000)}
"""By dtype the integers that its numbers' bits are read as, and their exponents."""


@dataclass(frozen=True)
class Fault:
    """Where numbers that are not finite came into a sequence's pages.

    Attributes:
        page: which of its pages, in order.
        layer: the first layer of which that page has such numbers.
        part: what is not finite there: of one token's keys or values some numbers, or both, all of
            them: then the layer was given what is not finite.
    """

    page: int
    layer: int
    part: Part


@dataclass(frozen=True)
class PageNumbers:
    """The numbers of a program's pages, as `LoadedProgram.read_page` gives them.

    Args:
        group: the state group whose pages they are.
        dtype: what the program keeps in its buffers.
        whole: the group that says what a page is, where that is another; it has more buffers.
    """

    group: StateGroup
    dtype: str
    whole: StateGroup | None = None

    def finite(self, data: bytes) -> bool:
        """Whether all numbers of a page are finite."""
        return not any(keys or values for keys, values in self.counts(data))

    def own(self, data: bytes) -> bytes | None:
        """A page's bytes, zeros where others of its pool have left something and this group has no
        buffers; None where not all of its numbers are finite."""
        if not self.finite(data):
            return None
        others = self._rows.keys() - {*self.group.buffers, *self.group.scales}
        if not others:
            return data
        kept, at = bytearray(data), 0
        for name, row in self._rows.items():
            if name in others:
                kept[at : at + row_bytes(row)] = bytes(row_bytes(row))
            at += row_bytes(row)
        return bytes(kept)

    def counts(self, data: bytes) -> list[tuple[int, int]]:
        """For each layer how many keys and how many values are not finite; of int8 pages, how many
        of their scales."""
        coded = self.dtype == "int8"
        found, at = [], 0
        for name, row in self._rows.items():
            size = row_bytes(row)
            if name in (self.group.scales if coded else self.group.buffers):
                # A scale's word has the key's in its low half, the value's in the high one.
                bad = _not_finite("float16" if coded else row[0], data[at : at + size])
                parts = bad.reshape(-1, 2).T if coded else bad.reshape(2, -1)
                found.append((int(parts[0].sum()), int(parts[1].sum())))
            at += size
        return found

    def find(self, pages: Sequence[int], read: Callable[[int], bytes]) -> Fault | None:
        """The first fault in the pages of a sequence; None where all numbers are finite.

        What follows a token that is not finite is not either, in the layers behind: so a page has
        faults if an earlier one has, but for faults of the last layer.

        Args:
            read: the bytes of a page.
        """
        low, high = 0, len(pages)
        while low < high:
            middle = (low + high) // 2
            if self.finite(read(pages[middle])):
                low = middle + 1
            else:
                high = middle
        places = [low] if low < len(pages) else range(len(pages))
        for place in places:
            found = self.counts(read(pages[place]))
            for layer, counts in zip(self.group.layers, found, strict=True):
                if any(counts):
                    return Fault(place, layer, self._part(*counts))
        return None

    @property
    def _rows(self) -> dict[str, Row]:
        return page_rows(self.whole or self.group, self.dtype)

    def _part(self, keys: int, values: int) -> Part:
        row = self.group.kv_heads * (1 if self.dtype == "int8" else self.group.head_dim)
        if keys == values and keys % row == 0:
            return "both"
        return "keys" if keys else "values"


def _not_finite(dtype: str, data: bytes) -> npt.NDArray[np.bool_]:
    """Which numbers have the exponent of infinity and NaN; integers have none."""
    if dtype not in _EXPONENTS:
        return np.zeros(len(data) // DTYPES[dtype], bool)
    word, exponent = _EXPONENTS[dtype]
    found: npt.NDArray[np.bool_] = (np.frombuffer(data, word) & exponent) == exponent
    return found
