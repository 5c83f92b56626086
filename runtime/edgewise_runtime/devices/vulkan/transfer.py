"""Moving data between the host and a device's buffers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from io import FileIO
from typing import Any

import numpy as np

from edgewise_runtime.devices.arrays import read_piece
from edgewise_runtime.devices.base import Array
from edgewise_runtime.devices.vulkan.api import Objects
from edgewise_runtime.devices.vulkan.commands import Commands
from edgewise_runtime.devices.vulkan.gpu import Gpu
from edgewise_runtime.devices.vulkan.line import Fill, Line
from edgewise_runtime.devices.vulkan.memory import (
    MIB,
    TO_HOST,
    Buffers,
    Counters,
    Window,
)
from edgewise_runtime.format.bundle import Progress, TensorEntry

MAX_READ = 64 * MIB
"""Bytes read back at a time."""

FIRST_READ = MIB
"""Bytes that can be read back without making a larger window for it."""

UPLOADING = "Uploading weights"


class Mailbox:
    """The small buffers that plans write, copied to the host's side with the launches that did.

    Args:
        mail: names of buffers by plan.
    """

    def __init__(
        self,
        gpu: Gpu,
        objects: Objects,
        counters: Counters,
        buffers: Buffers,
        mail: Mapping[str, Iterable[str]],
    ) -> None:
        self._gpu = gpu
        self._counters = counters
        self._buffers = buffers
        self._mail = {plan: tuple(names) for plan, names in mail.items()}
        self._offsets: dict[str, int] = {}
        total = 0
        for name in dict.fromkeys(name for names in self._mail.values() for name in names):
            self._offsets[name] = total
            total += -(-buffers.sizes[name] // gpu.adapter.limits.atom) * gpu.adapter.limits.atom
        self._window = Window(gpu, objects, counters, max(total, 1), TO_HOST)
        self._sent: dict[str, int] = {}
        self._seen = 0

    def record(self, at: Commands, commands: Any, plan: str) -> None:
        """Record copies of what a plan writes, behind its launches."""
        names = self._mail[plan]
        if not names:
            return
        at.after_all(commands)
        for name in names:
            piece = (0, self._offsets[name], self._buffers.sizes[name])
            at.copy(commands, self._buffers[name], self._window.buffer, [piece])
        at.bring_home(commands)

    def sent(self, plan: str, submission: int) -> None:
        """A plan was submitted."""
        for name in self._mail[plan]:
            self._sent[name] = submission

    def forget(self, names: Iterable[str]) -> None:
        """Buffers are written otherwise: what was sent is old."""
        for name in names:
            self._sent.pop(name, None)

    def look(self, name: str) -> Array | None:
        """A buffer's bytes, uint8, in place, once they are there; None if it was not sent."""
        submission = self._sent.get(name)
        if submission is None:
            return None
        if submission > self._seen:
            self._gpu.wait(submission)
            self._seen = submission
            self._counters.readbacks += 1
        return self._window.look(self._offsets[name], self._buffers.sizes[name])


class Reader:
    """Reads any piece of any buffer, through one window that grows as needed."""

    def __init__(
        self, gpu: Gpu, objects: Objects, counters: Counters, line: Line, buffers: Buffers
    ) -> None:
        self._gpu = gpu
        self._objects = objects
        self._counters = counters
        self._line = line
        self._buffers = buffers
        self._window = Window(gpu, objects, counters, FIRST_READ, TO_HOST)

    def read(self, buffer: str, start: int, size: int) -> Array:
        """`size` bytes from byte `start` on, uint8, once all that was submitted is done."""
        data = np.empty(size, np.uint8)
        for at in range(0, size, MAX_READ):
            count = min(MAX_READ, size - at)
            data[at : at + count] = self.gather([(buffer, start + at, count)])
        return data

    def rectangle(self, buffer: str, rows: range, pitch: int, within: range) -> Array:
        """Some bytes of each of some rows of `pitch` bytes: uint8, (rows, bytes of each)."""
        shape = len(rows), len(within)
        if 0 in shape:
            return np.empty(shape, np.uint8)
        if len(within) == pitch:
            return self.read(buffer, rows.start * pitch, len(rows) * pitch).reshape(shape)
        pieces = [(buffer, row * pitch + within.start, len(within)) for row in rows]
        return np.array(self.gather(pieces)).reshape(shape)

    def gather(self, pieces: Iterable[tuple[str, int, int]]) -> Array:
        """Pieces of buffers one after another, each a buffer, its first byte and how many: uint8,
        until the next read.

        One submission and one wait.
        """
        at, commands = self._line.commands, self._line.begin()
        by_buffer: dict[str, list[tuple[int, int, int]]] = {}
        total = 0
        for buffer, start, size in pieces:
            by_buffer.setdefault(buffer, []).append((start, total, size))
            total += size
        self._grow(total)
        for buffer, copies in by_buffer.items():
            at.copy(commands, self._buffers[buffer], self._window.buffer, copies)
        at.bring_home(commands)
        at.end(commands)
        self._gpu.wait(self._line.submit(commands))
        self._counters.readbacks += 1
        return self._window.look(0, total)

    def _grow(self, size: int) -> None:
        """Make the window larger where it is too small; nothing reads it between two reads."""
        if self._window.size < size:
            self._window.destroy()
            larger = 1 << (size - 1).bit_length()
            self._window = Window(self._gpu, self._objects, self._counters, larger, TO_HOST)


def upload(
    gpu: Gpu,
    line: Line,
    params: Iterable[tuple[Mapping[str, TensorEntry], Mapping[str, FileIO]]],
    total: int,
    progress: Progress | None,
    call: Callable[..., Any],
) -> None:
    """Copy parameters of `total` bytes from their open files to the buffers of the same names.

    Args:
        call: calls a function where the device may be used.

    Raises:
        BundleError: a file is damaged.
        DeviceError: ``device.file`` where a file has become shorter; what Vulkan refuses.
        StorageError: a file cannot be read.
    """
    done = 0
    for tensors, files in params:
        for name in sorted(tensors, key=lambda name: (tensors[name].file, tensors[name].offset)):
            entry = tensors[name]
            for start in range(0, entry.bytes, line.piece):
                count = min(line.piece, entry.bytes - start)
                fill = _of_file(files[entry.file], entry.offset + start)
                with gpu.errors(f"Uploading {name!r}"):
                    call(line.write, name, start, count, fill)
                done += count
                if progress is not None:
                    progress(UPLOADING, done, total)
    with gpu.errors("Uploading weights"):
        call(lambda: gpu.wait(line.submit()))


def _of_file(file: FileIO, first: int) -> Fill:
    return lambda piece, at: read_piece(file, first + at, piece)
