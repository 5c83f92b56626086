"""Pages of state on a GPU: copied there, read back and written, each with one submission."""

from __future__ import annotations

from typing import Any

from edgewise_runtime.devices.common import buffer_error
from edgewise_runtime.devices.paging import Paging
from edgewise_runtime.devices.wgpu.buffers import Buffers, Counters, submit
from edgewise_runtime.devices.wgpu.gpu import Gpu
from edgewise_runtime.devices.wgpu.transfer import Reader


def check_rows(paging: Paging) -> None:
    """Refuse rows that WebGPU, which copies 4 bytes at a time, cannot copy.

    Raises:
        DeviceError: ``device.buffer``.
    """
    for row in paging.rows:
        if row.bytes % 4:
            raise buffer_error(
                f"A page of {row.buffer!r} has {row.bytes} bytes: a GPU's memory is copied 4 "
                "bytes at a time."
            )


class GpuPages:
    """Moves pages of a program's state.

    WebGPU copies nothing within one buffer, so pages go by way of a buffer that holds one. The
    queue keeps all of it in order with the runs before and after.

    Raises:
        DeviceError: ``device.buffer`` as `check_rows` does.
    """

    def __init__(
        self, gpu: Gpu, counters: Counters, buffers: Buffers, reader: Reader, paging: Paging
    ) -> None:
        check_rows(paging)
        self.paging = paging
        self._gpu = gpu
        self._counters = counters
        self._buffers = buffers
        self._reader = reader
        flags = gpu.api.BufferUsage
        self._staging = gpu.device.create_buffer(
            label="page", size=max(paging.page_bytes, 4), usage=flags.COPY_SRC | flags.COPY_DST
        )
        counters.buffers += 1

    def copy(self, source: int, target: int) -> None:
        """Make page `target` what page `source` is."""
        with self._gpu.errors(f"Copying page {source} to {target}"):
            encoder = self._gpu.device.create_command_encoder()
            for row in self.paging.rows:
                buffer, start = self._buffers[row.buffer], source * row.bytes
                encoder.copy_buffer_to_buffer(buffer, start, self._staging, row.offset, row.bytes)
            self._unload(encoder, target)
            submit(self._gpu, self._counters, encoder)

    def read(self, page: int) -> bytes:
        """The page's bytes, once everything submitted is done."""
        with self._gpu.errors(f"Reading page {page}"):
            pieces = [
                (self._buffers[row.buffer], page * row.bytes, row.bytes) for row in self.paging.rows
            ]
            return self._reader.gather(pieces)

    def write(self, page: int, data: bytes) -> None:
        """Make a page these bytes."""
        with self._gpu.errors(f"Writing page {page}"):
            self._gpu.queue.write_buffer(self._staging, 0, data)
            encoder = self._gpu.device.create_command_encoder()
            self._unload(encoder, page)
            submit(self._gpu, self._counters, encoder)

    def _unload(self, encoder: Any, page: int) -> None:
        for row in self.paging.rows:
            buffer, start = self._buffers[row.buffer], page * row.bytes
            encoder.copy_buffer_to_buffer(self._staging, row.offset, buffer, start, row.bytes)

    def destroy(self) -> None:
        """Give the memory back."""
        self._staging.destroy()
