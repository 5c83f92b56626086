"""Pages of state on a device: copied there, read back and written, each with one submission."""

from __future__ import annotations

import numpy as np

from edgewise_runtime.devices.paging import Paging
from edgewise_runtime.devices.vulkan.gpu import Gpu
from edgewise_runtime.devices.vulkan.line import Line, of_array
from edgewise_runtime.devices.vulkan.memory import Buffers
from edgewise_runtime.devices.vulkan.transfer import Reader


class GpuPages:
    """Moves pages of a program's state, in order with the runs before and after."""

    def __init__(
        self, gpu: Gpu, buffers: Buffers, line: Line, reader: Reader, paging: Paging
    ) -> None:
        self.paging = paging
        self._gpu = gpu
        self._buffers = buffers
        self._line = line
        self._reader = reader

    def copy(self, source: int, target: int) -> None:
        """Make page `target` what page `source` is."""
        if source == target:
            return
        with self._gpu.errors(f"Copying page {source} to {target}"):
            at, commands = self._line.commands, self._line.begin()
            for row in self.paging.rows:
                buffer = self._buffers[row.buffer]
                piece = (source * row.bytes, target * row.bytes, row.bytes)
                at.copy(commands, buffer, buffer, [piece])
            at.end(commands)
            self._line.submit(commands)

    def read(self, page: int) -> bytes:
        """The page's bytes, once everything submitted is done."""
        with self._gpu.errors(f"Reading page {page}"):
            return self._reader.gather(
                [(row.buffer, page * row.bytes, row.bytes) for row in self.paging.rows]
            ).tobytes()

    def write(self, page: int, data: bytes) -> None:
        """Make a page these bytes, before whatever is submitted next."""
        whole = np.frombuffer(data, np.uint8)
        with self._gpu.errors(f"Writing page {page}"):
            for row in self.paging.rows:
                part = whole[row.offset : row.offset + row.bytes]
                self._line.write(row.buffer, page * row.bytes, row.bytes, of_array(part))
