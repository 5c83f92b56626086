"""A program's memory on a GPU, an arena for each role, and memory of the host that GPUs reach."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from ctypes import byref, c_uint64
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgewise_runtime.devices.base import Array
from edgewise_runtime.devices.cuda.driver import ON_DEVICE, ON_HOST, Copy2D
from edgewise_runtime.devices.cuda.gpu import Gpu
from edgewise_runtime.errors import DeviceError
from edgewise_runtime.format.plan import ROLES, Buffer

ALIGNMENT = 256
"""Bytes that divide where a buffer begins, as plans' offsets inside them."""

MIB = 1 << 20


@dataclass
class Counters:
    """How often a program did what costs time: took memory, loaded, launched, waited."""

    arenas: int = 0
    modules: int = 0
    graphs: int = 0
    graph_launches: int = 0
    launches: int = 0
    waits: int = 0


class Memory:
    """A program's buffers, zeroed, in one piece of the GPU's memory for each role.

    Attributes:
        addresses, sizes: of every buffer by name; sizes in bytes.

    Raises:
        DeviceError: ``device.memory`` where they do not fit; nothing stays allocated then.
    """

    def __init__(
        self, gpu: Gpu, counters: Counters, buffers: Mapping[str, Buffer], sizes: Mapping[str, int]
    ) -> None:
        self.gpu = gpu
        self.sizes = sizes
        self.addresses: dict[str, int] = {}
        self._arenas: list[int] = []
        total = sum(sizes[name] for name in buffers)
        try:
            with gpu.errors(f"{gpu.card} does not hold the program's {total / MIB:,.0f} MiB"):
                for role in ROLES:
                    names = [name for name, buffer in buffers.items() if buffer.role == role]
                    self._take(names)
                    counters.arenas += bool(names)
        except DeviceError as error:
            self.destroy()
            if error.code == "device.memory":
                error.remedy = "Choose a smaller context (--context), so that fewer KV pages are "
                error.remedy += "kept, or a smaller model or quantization."
            raise

    def _take(self, names: list[str]) -> None:
        if not names:
            return
        offsets, end = [], 0
        for name in names:
            offsets.append(end)
            end += -(-self.sizes[name] // ALIGNMENT) * ALIGNMENT
        base = c_uint64()
        self.gpu.driver.call("cuMemAlloc_v2", byref(base), end)
        self._arenas.append(base.value)
        self.gpu.driver.call("cuMemsetD8Async", base.value, 0, end, self.gpu.stream)
        for name, offset in zip(names, offsets, strict=True):
            self.addresses[name] = base.value + offset

    def destroy(self) -> None:
        """Give the memory back."""
        for base in self._arenas:
            self.gpu.quietly("cuMemFree_v2", base)
        self._arenas = []


class Landing:
    """Memory of the host that the GPU copies to and from by itself: uint8, `array`.

    Raises:
        CudaError: there is not so much of it.
    """

    def __init__(self, gpu: Gpu, size: int) -> None:
        self._gpu = gpu
        most = max(size, 1)
        self._pointer = gpu.driver.handle("cuMemHostAlloc", most, 0)
        self.address = self._pointer.value or 0
        window: Any = (ctypes.c_uint8 * most).from_address(self.address)
        self.array: Array = np.frombuffer(window, np.uint8)[:size]

    def destroy(self) -> None:
        """Give it back; whoever still looks at `array` must not."""
        self.array = np.empty(0, np.uint8)
        self._gpu.quietly("cuMemFreeHost", self._pointer)


def to_device(gpu: Gpu, address: int, data: Array) -> None:
    """Copy from memory of the host, of which the driver makes a copy of its own before it returns.

    Raises:
        CudaError: the driver refuses.
    """
    gpu.driver.call("cuMemcpyHtoDAsync_v2", address, data.ctypes.data, data.nbytes, gpu.stream)


def to_host(gpu: Gpu, address: int, size: int) -> Array:
    """A copy of `size` bytes, uint8, once all before is done.

    Raises:
        CudaError: the driver refuses, or something before failed.
    """
    data = np.empty(size, np.uint8)
    if size:
        gpu.driver.call("cuMemcpyDtoHAsync_v2", data.ctypes.data, address, size, gpu.stream)
    gpu.wait()
    return data


def rectangle(gpu: Gpu, address: int, rows: range, pitch: int, within: range) -> Array:
    """Some bytes of each of some rows of `pitch` bytes: uint8, (rows, bytes of each).

    Raises:
        CudaError: as `to_host`.
    """
    data = np.empty((len(rows), len(within)), np.uint8)
    if data.size:
        copy = Copy2D(
            srcMemoryType=ON_DEVICE,
            srcDevice=address + rows.start * pitch + within.start,
            srcPitch=pitch,
            dstMemoryType=ON_HOST,
            dstHost=data.ctypes.data,
            dstPitch=len(within),
            WidthInBytes=len(within),
            Height=len(rows),
        )
        gpu.driver.call("cuMemcpy2DAsync_v2", byref(copy), gpu.stream)
    gpu.wait()
    return data
