"""What a page of state is: a row of every buffer whose first extent is the symbol ``pages``."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from edgewise_runtime.devices.common import buffer_error
from edgewise_runtime.format import expr as ex
from edgewise_runtime.format.dtypes import DTYPES
from edgewise_runtime.format.manifest import StateGroup
from edgewise_runtime.format.plan import Buffer

SYMBOL = "pages"
"""The load symbol that is the number of pages."""


@dataclass(frozen=True)
class PageRow:
    """A page's part in one buffer: `bytes` of them from byte ``page * bytes`` of the buffer on, and
    from byte `offset` on in the page's bytes."""

    buffer: str
    offset: int
    bytes: int


@dataclass(frozen=True)
class Paging:
    """The pages of a loaded program: how many there are, and the rows that make up each."""

    pages: int
    rows: tuple[PageRow, ...]

    @property
    def page_bytes(self) -> int:
        """Bytes of a page over all buffers."""
        return sum(row.bytes for row in self.rows)

    def check(self, *pages: int) -> None:
        """Refuse pages that are not there.

        Raises:
            DeviceError: ``device.buffer``.
        """
        for page in pages:
            if not 0 <= page < self.pages:
                raise buffer_error(f"Page {page} is not one of the program's {self.pages}.")

    def check_data(self, page: int, size: int) -> None:
        """Refuse data of another size than a page's.

        Raises:
            DeviceError: ``device.buffer``.
        """
        self.check(page)
        if size != self.page_bytes:
            raise buffer_error(f"A page has {self.page_bytes} bytes, not {size}.")


def paging(
    groups: Iterable[StateGroup], buffers: Mapping[str, Buffer], load: Mapping[str, int]
) -> Paging:
    """The pages of a program's buffers.

    Rows come in the order in which the state groups list their buffers, then by the names of those
    that no group lists: the same bytes mean the same state on every load of the program.
    """
    paged = {b.name: b for b in buffers.values() if b.role == "state" and b.shape[:1] == (SYMBOL,)}
    listed = dict.fromkeys(name for group in groups for name in group.buffers if name in paged)
    rows: list[PageRow] = []
    offset = 0
    for name in [*listed, *sorted(paged.keys() - listed.keys())]:
        buffer = paged[name]
        extents = [ex.evaluate(dim, load) for dim in buffer.shape[1:]]
        size = math.prod(extents) * DTYPES[buffer.dtype]
        rows.append(PageRow(name, offset, size))
        offset += size
    return Paging(load[SYMBOL] if rows else 0, tuple(rows))
