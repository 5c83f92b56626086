"""A program's way to a device's queue, for what the host writes and for what was recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgewise_runtime.devices.base import Array
from edgewise_runtime.devices.vulkan.api import Objects
from edgewise_runtime.devices.vulkan.commands import Commands
from edgewise_runtime.devices.vulkan.gpu import Gpu
from edgewise_runtime.devices.vulkan.hazards import Touched, barriers
from edgewise_runtime.devices.vulkan.memory import MIB, TO_DEVICE, Buffers, Counters, Window

PIECE = 4 * MIB
"""Bytes that are handed to the device at a time: while it copies them, the next are written."""

ALIGNED = 16
"""Bytes that pieces in a window begin at."""

Fill = Callable[[Array, int], object]
"""Puts the bytes from one on into an array, as many as it has."""


@dataclass
class _Half:
    """Half of the window that the host writes to, and the last submission that reads it."""

    start: int
    used: int = 0
    submission: int = 0


@dataclass(frozen=True)
class _Copy:
    """Bytes of the window on their way to a buffer."""

    buffer: str
    source: int
    start: int
    size: int


class Line:
    """A program's way to the device's queue: what the host wrote goes before what is submitted.

    Attributes:
        submission: the program's last one.
        piece: bytes that are handed over at a time.
    """

    def __init__(
        self, gpu: Gpu, objects: Objects, counters: Counters, commands: Commands, buffers: Buffers
    ) -> None:
        self._gpu = gpu
        self._counters = counters
        self._buffers = buffers
        self.commands = commands
        self.submission = 0
        self.piece = -(-PIECE // ALIGNED) * ALIGNED
        self._window = Window(gpu, objects, counters, 2 * self.piece, TO_DEVICE)
        self._halves = [_Half(0), _Half(self.piece)]
        self._written: list[_Copy] = []
        self._spare: list[tuple[Any, int]] = []

    def write(self, buffer: str, start: int, size: int, fill: Fill) -> None:
        """Write `size` bytes to a buffer from one on, before whatever is submitted next.

        Raises:
            VulkanError: the device was lost.
        """
        done = 0
        while done < size:
            half = self._halves[0]
            if half.used == self.piece:
                half = self._turn()
            source = half.start + half.used
            count = min(self.piece - half.used, size - done)
            fill(self._window.bytes[source : source + count], done)
            self._window.show(source, count)
            self._written.append(_Copy(buffer, source, start + done, count))
            half.used = min(-(-(half.used + count) // ALIGNED) * ALIGNED, self.piece)
            done += count

    def _turn(self) -> _Half:
        """Hand over what is written, and go on in the other half."""
        if self._written:
            self.submit()
        self._halves.reverse()
        half = self._halves[0]
        self._gpu.wait(half.submission)
        half.used = 0
        return half

    def clear(self) -> None:
        """Make all buffers zero."""
        commands = self.begin()
        for _, buffer in self._buffers:
            self.commands.clear(commands, buffer)
        self.commands.end(commands)
        self.submit(commands)

    def submit(self, *recorded: Any) -> int:
        """Submit command buffers behind copies of what the host wrote.

        Raises:
            VulkanError: the driver does not take them.
        """
        before = [self._copies()] if self._written else []
        self.submission = self._gpu.submit([*before, *recorded])
        self._counters.submits += 1
        if before:
            self._halves[0].submission = self.submission
            self._written.clear()
        self._spare = [(one, self.submission if until < 0 else until) for one, until in self._spare]
        return self.submission

    def _copies(self) -> Any:
        commands = self.begin()
        window = self._window.buffer
        touched = [Touched((), ((c.buffer, c.start, c.start + c.size),)) for c in self._written]
        waiting: list[_Copy] = []
        for copy, wait in zip(self._written, barriers(touched), strict=True):
            if waiting and (wait or copy.buffer != waiting[0].buffer):
                self._copy(commands, window, waiting)
                waiting = []
            if wait:
                self.commands.after_all(commands)
            waiting.append(copy)
        self._copy(commands, window, waiting)
        self.commands.end(commands)
        return commands

    def _copy(self, commands: Any, window: Any, copies: Sequence[_Copy]) -> None:
        pieces = [(copy.source, copy.start, copy.size) for copy in copies]
        self.commands.copy(commands, window, self._buffers[copies[0].buffer], pieces)

    def begin(self) -> Any:
        """A new recording, for one submission: the next one."""
        self._counters.copies += 1
        done = self._gpu.done() if self._spare else 0
        for at, (commands, until) in enumerate(self._spare):
            if 0 <= until <= done:
                self._spare[at] = commands, -1
                break
        else:
            commands = self.commands.make()
            self._spare.append((commands, -1))
        self.commands.begin(commands, 0)
        return commands


def of_array(data: Array) -> Fill:
    """Fills pieces with those of an array, uint8."""
    return lambda piece, at: np.copyto(piece, data[at : at + len(piece)])
