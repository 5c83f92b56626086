"""Compiled pipelines on disk: what a driver made of kernels, kept for the next process.

A file is Vulkan's own data behind a SHA-256 of it. Drivers read such data without much doubt, so
what is damaged, or is another driver's, counts as not there: then kernels are compiled again.
"""

from __future__ import annotations

import hashlib
import struct
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from edgewise_runtime.errors import StorageError
from edgewise_runtime.files import cache_folder, read_bytes, write_bytes

if TYPE_CHECKING:
    from edgewise_runtime.devices.vulkan.adapter import Adapter

MOST = 256 << 20
"""Bytes of a file that are read and kept."""

_HEADER = struct.Struct("<IIII16s")
"""``VkPipelineCacheHeaderVersionOne``: its bytes, its version, vendor, device, and the driver's
id."""


def place(adapter: Adapter) -> Path:
    """Where an adapter's file is."""
    vendor, device, driver = adapter.cache
    return cache_folder() / "vulkan" / f"{vendor:08x}-{device:08x}-{driver.hex()}.bin"


def read(adapter: Adapter) -> bytes:
    """Vulkan's data for an adapter; empty where there is none that can be used."""
    try:
        whole = read_bytes(place(adapter), MOST)
    except StorageError:
        return b""
    digest, data = whole[:32], whole[32:]
    if hashlib.sha256(data).digest() != digest or not belongs(data, adapter):
        return b""
    return data


def belongs(data: bytes, adapter: Adapter) -> bool:
    """Whether data begin as those of an adapter's driver do."""
    if len(data) < _HEADER.size:
        return False
    size, version, vendor, device, driver = _HEADER.unpack_from(data)
    return size >= _HEADER.size and version == 1 and (vendor, device, driver) == adapter.cache


def write(adapter: Adapter, data: bytes) -> None:
    """Keep Vulkan's data for an adapter; where that cannot be, nothing is kept."""
    if len(data) > MOST or not belongs(data, adapter):
        return
    path = place(adapter)
    with suppress(StorageError, OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, hashlib.sha256(data).digest() + data)
