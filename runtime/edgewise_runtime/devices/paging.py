"""What a page of state is on a device: a row of every buffer of the program's state group."""

from __future__ import annotations

from dataclasses import dataclass

from edgewise_runtime.devices.common import buffer_error
from edgewise_runtime.format.manifest import StateGroup
from edgewise_runtime.format.state import page_rows, row_bytes


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


def paging(group: StateGroup, state_dtype: str, pages: int) -> Paging:
    """The pages of a loaded program whose state is one group: so many, of what the group says."""
    rows: list[PageRow] = []
    offset = 0
    for name, row in page_rows(group, state_dtype).items():
        rows.append(PageRow(name, offset, row_bytes(row)))
        offset += rows[-1].bytes
    return Paging(pages, tuple(rows))
