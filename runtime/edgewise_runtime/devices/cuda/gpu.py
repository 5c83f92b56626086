"""NVIDIA's GPUs of this machine, and one that was opened: a context and a stream in it."""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from copy import copy
from ctypes import byref, c_int, c_size_t
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgewise_runtime.devices.cuda.driver import (
    LOST,
    NO_CODE,
    OUT_OF_MEMORY,
    CudaError,
    Driver,
    open_driver,
)
from edgewise_runtime.devices.index import by_index
from edgewise_runtime.errors import DeviceError

KERNEL_MODULE = Path("/proc/driver/nvidia/version")
_VERSION = re.compile(r"Kernel Module.*?\s(\d{3,}(?:\.\d+)+)\s")

_MAJOR, _MINOR = 75, 76
_MULTIPROCESSORS = 16
_LENGTH_OF_NAME = 256

_SLEEPING = 0x04
"""A context's flag: threads that wait for the GPU sleep, and leave their core to others."""
_OWN_STREAM = 0x01
"""A stream's flag: it does not wait for the default one."""


@dataclass(frozen=True)
class Card:
    """One GPU. `index` is what people choose it by, in the driver's order.

    Attributes:
        arch: its compute capability, major * 10 + minor.
        processors: multiprocessors that it has.
        memory: bytes of it.
        driver: its version where the system tells, and the CUDA that it implements, such as
            ``550.54.14 for CUDA 12.4``.
    """

    index: int
    name: str
    arch: int
    processors: int
    memory: int
    driver: str

    def __str__(self) -> str:
        return f"{self.name} (compute capability {self.arch // 10}.{self.arch % 10})"


def cards() -> tuple[Card, ...]:
    """The GPUs of this machine, at least one.

    Raises:
        DeviceError: ``device.driver``, ``device.fork``; ``device.adapter`` where there is none.
    """
    driver = open_driver()
    count = c_int()
    driver.call("cuDeviceGetCount", byref(count))
    if not count.value:
        raise DeviceError(
            "NVIDIA's driver has no GPU here.",
            remedy="See what `nvidia-smi` says, and whether CUDA_VISIBLE_DEVICES hides it.",
            code="device.adapter",
        )
    return tuple(_card(driver, index) for index in range(count.value))


def _card(driver: Driver, index: int) -> Card:
    device, total = c_int(), c_size_t()
    driver.call("cuDeviceGet", byref(device), index)
    name = ctypes.create_string_buffer(_LENGTH_OF_NAME)
    driver.call("cuDeviceGetName", name, len(name), device)
    driver.call("cuDeviceTotalMem_v2", byref(total), device)

    def attribute(which: int) -> int:
        value = c_int()
        driver.call("cuDeviceGetAttribute", byref(value), which, device)
        return value.value

    return Card(
        index=index,
        name=name.value.decode(errors="replace"),
        arch=attribute(_MAJOR) * 10 + attribute(_MINOR),
        processors=attribute(_MULTIPROCESSORS),
        memory=total.value,
        driver=f"{_driver_version()}for CUDA {driver.cuda}",
    )


def _driver_version() -> str:
    """What the kernel's part of the driver says of itself on Linux, and a space; or nothing."""
    try:
        found = _VERSION.search(KERNEL_MODULE.read_text("ascii", errors="replace"))
    except OSError:
        return ""
    return "" if found is None else f"{found[1]} "


def choose_card(index: int | None) -> Card:
    """The GPU with an index, None for the first.

    Raises:
        DeviceError: as `cards`; ``device.adapter`` where it is not there, listing those that are.
    """
    return by_index(cards(), index, "NVIDIA GPU", "GPUs")


@dataclass
class Fate:
    """What became of a context: ``lost``, nothing can be done with it any more; ``gone``, and what
    it had was given back."""

    lost: bool = False
    gone: bool = False


class Gpu:
    """A GPU with a context of this process's own, which other libraries' failures do not touch.

    Attributes:
        stream: where everything happens, in its order.
        fate: of the context.

    Raises:
        DeviceError: ``device.memory``, ``device.lost``, ``device.driver``.
    """

    def __init__(self, card: Card) -> None:
        self.card = card
        self.driver = open_driver()
        self.fate = Fate()
        try:
            self._context = self.driver.handle("cuCtxCreate_v2", _SLEEPING, card.index)
            self.stream = self.driver.handle("cuStreamCreate", _OWN_STREAM)
        except CudaError as error:
            raise self.explained(f"{card} does not open", error) from error

    def lane(self) -> Gpu:
        """The same context with a stream of its own, to be ended by `end_lane`.

        While one thread captures what it asks of a stream, another must not use that stream.

        Raises:
            DeviceError: as the context has them.
        """
        other = copy(self)
        with self.errors(f"{self.card} makes no stream"):
            other.stream = self.driver.handle("cuStreamCreate", _OWN_STREAM)
        return other

    def end_lane(self) -> None:
        """Give the stream back."""
        self.quietly("cuStreamDestroy_v2", self.stream)

    @contextmanager
    def errors(self, what: str) -> Iterator[None]:
        """Let the current thread use the context; turn the driver's errors into a DeviceError.

        Raises:
            DeviceError: ``device.memory``, ``device.lost``, or ``device.kernel`` for the rest; it
                begins with `what`.
        """
        try:
            self.driver.call("cuCtxSetCurrent", self._context)
            yield
        except CudaError as error:
            raise self.explained(what, error) from error

    def explained(self, what: str, error: CudaError) -> DeviceError:
        """The error that people read, of one of the driver's."""
        if error.number == OUT_OF_MEMORY:
            remedy = "Close other programs on the GPU (nvidia-smi lists them)."
            return DeviceError(f"{what}: {error}.", remedy=remedy, code="device.memory")
        if error.number in LOST:
            self.fate.lost = True
            remedy = "Load the model again. If it happens again, update the GPU's driver."
            return DeviceError(f"{what}: {error}.", remedy=remedy, code="device.lost")
        remedy = ""
        if error.number in NO_CODE:
            remedy = "Update the GPU's driver, or compile the model again with this edgewise."
        return DeviceError(f"{what}: {error}.", remedy=remedy, code="device.kernel")

    def free_memory(self) -> int:
        """Bytes of its memory that nobody has taken."""
        free, total = c_size_t(), c_size_t()
        with self.errors("Asking for free memory"):
            self.driver.call("cuMemGetInfo_v2", byref(free), byref(total))
        return free.value

    def wait(self) -> None:
        """Wait until all is done that was asked for.

        Raises:
            CudaError: some of it failed.
        """
        self.driver.call("cuStreamSynchronize", self.stream)

    def discard(self) -> None:
        """Give back whatever the context still has: nothing can be done with it any more."""
        self.fate.gone = True
        with suppress(CudaError):
            self.driver.call("cuCtxDestroy_v2", self._context)

    def quietly(self, function: str, *arguments: Any) -> None:
        """Give something back; what has gone with the context needs no giving back."""
        with suppress(CudaError):
            self.driver.call(function, *arguments)


_open: dict[tuple[int, int], Gpu] = {}


def open_gpu(card: Card) -> Gpu:
    """The process's context on a GPU: opened once, and once more after it was lost."""
    key = (os.getpid(), card.index)
    found = _open.get(key)
    if found is None or found.fate.lost:
        if found is not None:
            found.discard()
        found = _open[key] = Gpu(card)
    return found
