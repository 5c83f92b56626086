"""Moving weights, pages of state and what a run wrote between the host and a GPU."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from io import FileIO

from edgewise_runtime.devices.arrays import read_piece
from edgewise_runtime.devices.base import Array
from edgewise_runtime.devices.cuda.gpu import Gpu
from edgewise_runtime.devices.cuda.memory import MIB, Counters, Landing, Memory
from edgewise_runtime.devices.paging import Paging
from edgewise_runtime.format.bundle import Progress, TensorEntry

UPLOAD_CHUNK = 8 * MIB
"""Bytes of weights read at a time: while one piece is copied, the next is read."""

UPLOADING = "Uploading weights"

_UNTIMED = 0x02
"""An event's flag: nobody asks when it was."""


class Mailbox:
    """The small buffers that plans write, copied to the host with the launches that wrote them.

    Args:
        mail: names of buffers that are sent together, several times.
    """

    def __init__(
        self, gpu: Gpu, counters: Counters, memory: Memory, mail: Iterable[Iterable[str]]
    ) -> None:
        self._gpu = gpu
        self._counters = counters
        self._memory = memory
        self._offsets: dict[str, int] = {}
        end = 0
        for name in dict.fromkeys(name for names in mail for name in names):
            self._offsets[name] = end
            end += -(-memory.sizes[name] // 8) * 8
        self._landing = Landing(gpu, end)
        self._sent = gpu.driver.handle("cuEventCreate", _UNTIMED)
        self._under_way: set[str] = set()
        self._arrived: dict[str, Array] = {}

    def copy(self, names: Iterable[str]) -> None:
        """Ask the GPU for copies of buffers; a graph that is captured asks each time it runs."""
        for name in names:
            target = self._landing.address + self._offsets[name]
            source, size = self._memory.addresses[name], self._memory.sizes[name]
            self._gpu.driver.call("cuMemcpyDtoHAsync_v2", target, source, size, self._gpu.stream)

    def sent(self, names: Iterable[str]) -> None:
        """Note that copies are under way; what was sent before and not looked at stays so."""
        self._gpu.driver.call("cuEventRecord", self._sent, self._gpu.stream)
        for name in names:
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
            self._gpu.driver.call("cuEventSynchronize", self._sent)
            self._counters.waits += 1
            for sent in self._under_way:
                start = self._offsets[sent]
                self._arrived[sent] = self._landing.array[start:][: self._memory.sizes[sent]].copy()
            self._under_way.clear()
        return self._arrived.get(name)

    def destroy(self) -> None:
        """Give its memory back."""
        self._landing.destroy()
        self._gpu.quietly("cuEventDestroy_v2", self._sent)


class Pages:
    """Moves pages of a program's state, in order with the runs before and after."""

    def __init__(self, gpu: Gpu, memory: Memory, paging: Paging) -> None:
        self.paging = paging
        self._gpu = gpu
        self._memory = memory
        self._landing = Landing(gpu, paging.page_bytes)

    def copy(self, source: int, target: int) -> None:
        """Make page `target` what page `source` is."""
        if source == target:
            return
        with self._gpu.errors(f"Copying page {source} to {target}"):
            for row in self.paging.rows:
                base = self._memory.addresses[row.buffer]
                here, there = base + source * row.bytes, base + target * row.bytes
                copy = "cuMemcpyDtoDAsync_v2"
                self._gpu.driver.call(copy, there, here, row.bytes, self._gpu.stream)

    def read(self, page: int) -> bytes:
        """The page's bytes, once everything before is done."""
        with self._gpu.errors(f"Reading page {page}"):
            for row in self.paging.rows:
                here = self._memory.addresses[row.buffer] + page * row.bytes
                target, copy = self._landing.address + row.offset, "cuMemcpyDtoHAsync_v2"
                self._gpu.driver.call(copy, target, here, row.bytes, self._gpu.stream)
            self._gpu.wait()
            return self._landing.array.tobytes()

    def write(self, page: int, data: bytes) -> None:
        """Make a page these bytes."""
        with self._gpu.errors(f"Writing page {page}"):
            self._landing.array[:] = memoryview(data)
            for row in self.paging.rows:
                there = self._memory.addresses[row.buffer] + page * row.bytes
                source, copy = self._landing.address + row.offset, "cuMemcpyHtoDAsync_v2"
                self._gpu.driver.call(copy, there, source, row.bytes, self._gpu.stream)
            self._gpu.wait()  # or the next page would come into the memory that this one leaves

    def destroy(self) -> None:
        """Give its memory back."""
        self._landing.destroy()


class _Piece:
    """Memory of the host for a piece of the weights, and when the GPU has taken what is in it."""

    def __init__(self, gpu: Gpu, size: int) -> None:
        self._gpu = gpu
        self._landing = Landing(gpu, size)
        self._taken = gpu.driver.handle("cuEventCreate", _UNTIMED)

    def free(self, size: int) -> Array:
        """Its first bytes, once nothing in it is needed any more."""
        self._gpu.driver.call("cuEventSynchronize", self._taken)
        return self._landing.array[:size]

    def send(self, address: int, size: int) -> None:
        """Copy its first bytes to the GPU."""
        source, copy = self._landing.address, "cuMemcpyHtoDAsync_v2"
        self._gpu.driver.call(copy, address, source, size, self._gpu.stream)
        self._gpu.driver.call("cuEventRecord", self._taken, self._gpu.stream)

    def destroy(self) -> None:
        self._landing.destroy()
        self._gpu.quietly("cuEventDestroy_v2", self._taken)


def upload(
    gpu: Gpu,
    params: Iterable[tuple[Mapping[str, TensorEntry], Mapping[str, FileIO]]],
    total: int,
    memory: Memory,
    progress: Progress | None,
) -> None:
    """Copy parameters of `total` bytes from their open files to the buffers of the same names.

    Raises:
        BundleError: a file is damaged.
        DeviceError: ``device.file`` where a file has become shorter; what the driver refuses.
        StorageError: a file cannot be read.
    """
    done, turn = 0, 0
    pieces: list[_Piece] = []
    try:
        with gpu.errors("Taking memory to upload weights"):
            for _ in range(2):
                pieces.append(_Piece(gpu, min(total, UPLOAD_CHUNK)))
        for tensors, files in params:
            for name in sorted(tensors, key=lambda n: (tensors[n].file, tensors[n].offset)):
                entry, address = tensors[name], memory.addresses[name]
                for start in range(0, entry.bytes, UPLOAD_CHUNK):
                    count = min(UPLOAD_CHUNK, entry.bytes - start)
                    piece, turn = pieces[turn], 1 - turn
                    with gpu.errors(f"Uploading {name!r}"):
                        into = piece.free(count)
                    read_piece(files[entry.file], entry.offset + start, into)
                    with gpu.errors(f"Uploading {name!r}"):
                        piece.send(address + start, count)
                    done += count
                    if progress is not None:
                        progress(UPLOADING, done, total)
        with gpu.errors("Uploading weights"):
            gpu.wait()
    finally:
        with gpu.errors("Uploading weights"):
            for piece in pieces:
                gpu.quietly("cuStreamSynchronize", gpu.stream)
                piece.destroy()
