"""Moving data between the host and a GPU's buffers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from io import FileIO
from typing import Any

import numpy as np

from edgewise_runtime.devices.arrays import read_piece
from edgewise_runtime.devices.base import Array
from edgewise_runtime.devices.wgpu.buffers import MIB, Buffers, Counters, submit
from edgewise_runtime.devices.wgpu.gpu import Gpu
from edgewise_runtime.format.bundle import Progress, TensorEntry

UPLOAD_CHUNK = 8 * MIB
"""Bytes of weights written at a time, and"""
UPLOAD_AHEAD = 64 * MIB
"""written before the host waits for them to arrive: until then wgpu holds copies."""

MAX_READ = 64 * MIB
"""Bytes read back at a time."""

FIRST_READ = MIB
"""Bytes that can be read back without making a larger buffer for it."""

LONG_ROW = 4096
"""Bytes of a row of which the host leaves out what it does not want."""

UPLOADING = "Uploading weights"


class Landing:
    """A buffer that the GPU copies to and the host reads from, made anew where it is too small."""

    def __init__(self, gpu: Gpu, counters: Counters, size: int) -> None:
        self._gpu = gpu
        self._counters = counters
        self._buffer = self._make(size)

    def _make(self, size: int) -> Any:
        flags = self._gpu.api.BufferUsage
        usage = flags.MAP_READ | flags.COPY_DST
        self._counters.buffers += 1
        return self._gpu.device.create_buffer(size=max(size, 8), usage=usage)

    def target(self, size: int) -> Any:
        """wgpu's buffer to copy to, with at least `size` bytes."""
        if self._buffer.size < size:
            self._buffer.destroy()
            self._buffer = self._make(1 << (size - 1).bit_length())
        return self._buffer

    def fetch(self, size: int) -> Array:
        """The first `size` bytes, uint8, once everything submitted is done."""
        self._counters.readbacks += 1
        self._buffer.map_sync("READ", 0, size)
        try:
            data: Array = np.frombuffer(self._buffer.read_mapped(0, size), np.uint8)
        finally:
            self._buffer.unmap()
        return data

    def destroy(self) -> None:
        self._buffer.destroy()


class Mailbox:
    """The small buffers a plan writes, copied to the host's side with the launches that wrote them.

    Args:
        mail: names of buffers that are sent together, several times.
    """

    def __init__(
        self, gpu: Gpu, counters: Counters, buffers: Buffers, mail: Iterable[Iterable[str]]
    ) -> None:
        self._buffers = buffers
        self._offsets: dict[str, int] = {}
        self._bytes = 0
        for name in dict.fromkeys(name for names in mail for name in names):
            self._offsets[name] = self._bytes
            self._bytes += -(-buffers.sizes[name] // 8) * 8
        self._landing = Landing(gpu, counters, self._bytes)
        self._under_way: set[str] = set()
        self._arrived: dict[str, Array] = {}

    def send(self, encoder: Any, names: Iterable[str]) -> None:
        """Encode copies of buffers; what was sent before and not looked at stays under way."""
        target = self._landing.target(self._bytes)
        for name in names:
            size = self._buffers.sizes[name]
            encoder.copy_buffer_to_buffer(self._buffers[name], 0, target, self._offsets[name], size)
            self._under_way.add(name)
            self._arrived.pop(name, None)

    def forget(self, names: Iterable[str]) -> None:
        """Buffers are written otherwise: what was sent is old."""
        for name in names:
            self._under_way.discard(name)
            self._arrived.pop(name, None)

    def look(self, name: str) -> Array | None:
        """A buffer's bytes, uint8, waiting for all that are under way; None if it was not sent."""
        if name in self._under_way:
            data = self._landing.fetch(self._bytes)
            for sent in self._under_way:
                start = self._offsets[sent]
                self._arrived[sent] = data[start : start + self._buffers.sizes[sent]]
            self._under_way.clear()
        return self._arrived.get(name)

    def destroy(self) -> None:
        self._landing.destroy()


class Reader:
    """Reads any piece of any buffer, through one buffer that grows as needed."""

    def __init__(self, gpu: Gpu, counters: Counters) -> None:
        self._gpu = gpu
        self._counters = counters
        self._landing = Landing(gpu, counters, FIRST_READ)

    def read(self, buffer: Any, start: int, size: int) -> Array:
        """`size` bytes from byte `start` on, uint8, once all that was submitted is done."""
        first, end = start // 4 * 4, -(-(start + size) // 4) * 4
        data = np.empty(end - first, np.uint8)
        for at in range(first, end, MAX_READ):
            count = min(MAX_READ, end - at)
            encoder = self._gpu.device.create_command_encoder()
            encoder.copy_buffer_to_buffer(buffer, at, self._landing.target(count), 0, count)
            submit(self._gpu, self._counters, encoder)
            data[at - first : at - first + count] = self._landing.fetch(count)
        return data[start - first : start - first + size]

    def rectangle(self, buffer: Any, rows: range, pitch: int, within: range) -> Array:
        """Some bytes of each of some rows of `pitch` bytes: uint8, (rows, bytes of each).

        What lies between is left out where the rows are long.
        """
        shape = len(rows), len(within)
        if 0 in shape:
            return np.empty(shape, np.uint8)
        aligned = not (pitch % 4 or within.start % 4 or len(within) % 4)
        long = len(within) < pitch >= LONG_ROW and len(rows) * pitch > FIRST_READ
        if aligned and long:
            pieces = [(buffer, row * pitch + within.start, len(within)) for row in rows]
            return np.frombuffer(self.gather(pieces), np.uint8).reshape(shape)
        whole = self.read(buffer, rows.start * pitch, len(rows) * pitch).reshape(-1, pitch)
        return np.ascontiguousarray(whole[:, within.start : within.stop])

    def gather(self, pieces: Iterable[tuple[Any, int, int]]) -> bytes:
        """Pieces of buffers one after another, each a buffer, its first byte and how many.

        One submission and one wait; 4 divides all the numbers.
        """
        listed = list(pieces)
        total = sum(size for _, _, size in listed)
        target, end = self._landing.target(total), 0
        encoder = self._gpu.device.create_command_encoder()
        for buffer, start, size in listed:
            encoder.copy_buffer_to_buffer(buffer, start, target, end, size)
            end += size
        submit(self._gpu, self._counters, encoder)
        return self._landing.fetch(total).tobytes()

    def destroy(self) -> None:
        self._landing.destroy()


def upload(
    gpu: Gpu,
    params: Iterable[tuple[Mapping[str, TensorEntry], Mapping[str, FileIO]]],
    total: int,
    buffers: Buffers,
    reader: Reader,
    progress: Progress | None,
) -> None:
    """Copy parameters of `total` bytes from their open files to the buffers of the same names.

    Raises:
        BundleError: a file is damaged.
        DeviceError: ``device.file`` where a file has become shorter; what wgpu refuses.
        StorageError: a file cannot be read.
    """
    done = ahead = 0
    piece = np.empty(min(total, UPLOAD_CHUNK), np.uint8)
    for tensors, files in params:
        for name in sorted(tensors, key=lambda name: (tensors[name].file, tensors[name].offset)):
            entry = tensors[name]
            for start in range(0, entry.bytes, UPLOAD_CHUNK):
                count = min(UPLOAD_CHUNK, entry.bytes - start)
                read_piece(files[entry.file], entry.offset + start, piece[:count])
                done, ahead = done + count, ahead + count
                with gpu.errors(f"Uploading {name!r}"):
                    _write(gpu, buffers[name], start, piece[:count])
                    # Until the next submission wgpu keeps its copy.
                    submit(gpu, buffers.counters, gpu.device.create_command_encoder())
                    if ahead >= UPLOAD_AHEAD or done == total:
                        reader.read(buffers[name], 0, 4)
                        ahead = 0
                if progress is not None:
                    progress(UPLOADING, done, total)


def _write(gpu: Gpu, buffer: Any, start: int, data: Array) -> None:
    if len(data) % 4:
        data = np.concatenate([data, np.zeros(-len(data) % 4, np.uint8)])
    gpu.queue.write_buffer(buffer, start, data)
