"""Memory for buffers on the CPU, zeroed by the system on first touch."""

from __future__ import annotations

import ctypes
import mmap
import sys
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np

from edgewise_runtime.devices.base import Array
from edgewise_runtime.errors import DeviceError
from edgewise_runtime.files import shown, storage_errors

GIB = 1 << 30

LARGE_PAGE = 2 << 20
"""Bytes of a large page where small ones have 4 KiB."""


def zeros(size: int) -> Array:
    """Fresh zeroed memory: uint8 [size], page-aligned. Pages never touched cost nothing.

    Raises:
        DeviceError: ``device.memory`` where the system refuses.
    """
    return np.frombuffer(_anonymous(size), dtype=np.uint8)


def large_zeros(size: int) -> Array:
    """As `zeros`, in large pages as far as Linux has any: uint8 [size], aligned to them.

    Raises:
        DeviceError: ``device.memory`` where the system refuses.
    """
    memory = _anonymous(size + LARGE_PAGE)
    memory.madvise(mmap.MADV_HUGEPAGE)
    array = np.frombuffer(memory, dtype=np.uint8)
    start = -array.ctypes.data % LARGE_PAGE
    return array[start : start + size]


def _anonymous(size: int) -> mmap.mmap:
    try:
        if sys.platform == "win32":
            return mmap.mmap(-1, size)
        return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, ValueError, OverflowError) as cause:
        raise DeviceError(
            f"The system refused {size} bytes ({size / GIB:.2f} GiB) of memory: {cause}.",
            remedy="Ask for a smaller context or batch, or raise the process's memory limit.",
            code="device.memory",
        ) from cause


def read_piece(file: FileIO, start: int, piece: Array) -> None:
    """Fill a piece, uint8, with what a file has from a byte on.

    Raises:
        DeviceError: ``device.file`` where the file has become shorter.
        StorageError: it cannot be read.
    """
    path, rest = Path(file.name), piece.data
    with storage_errors("read", path):
        file.seek(start)
        while rest and (count := file.readinto(rest)):
            rest = rest[count:]
    if rest:
        end = start + len(piece)
        raise changed_size(path, end - len(rest), end)


def changed_size(path: Path, size: int, before: int) -> DeviceError:
    """The error of a file that had ``before`` bytes when it began to be read."""
    message = f"{shown(path)} has {size} bytes, and had {before} when the bundle was opened."
    return DeviceError(message, remedy="Open the bundle again.", code="device.file")


def exportable(array: Array) -> Array:
    """The same memory as an array that DLPack accepts, which refuses read-only arrays.

    For kernels only, which never write to parameters: the pages stay read-only.
    """
    if array.flags.writeable:
        return array
    # ctypes arrays are made anew per size; the attribute keeps the mapping alive with it.
    window: Any = (ctypes.c_uint8 * array.nbytes).from_address(array.ctypes.data)
    window.owner = array
    alias: Array = np.frombuffer(window, dtype=array.dtype).reshape(array.shape)
    return alias
