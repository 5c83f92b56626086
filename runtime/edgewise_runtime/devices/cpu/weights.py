"""Copies of files of weights in memory, in pages of 2 MiB where the system has them.

Decoding reads every weight for every token. In pages of 4 KiB finding the addresses of so many
took a fifth of that time (docs/decisions/0019), and copying takes three times as long.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from io import FileIO
from pathlib import Path

from edgewise_runtime.cpuid import default_threads
from edgewise_runtime.devices.arrays import LARGE_PAGE, changed_size, large_zeros, zeros
from edgewise_runtime.devices.base import Array
from edgewise_runtime.files import storage_errors

LEAST = LARGE_PAGE
"""Bytes from which on they are asked for: fewer would fill none."""

MODE = Path("/sys/kernel/mm/transparent_hugepage/enabled")
"""Linux's setting: the words ``always``, ``madvise`` and ``never``, the chosen one in brackets."""


def read_files(files: Mapping[str, FileIO], mode: Path = MODE) -> dict[str, Array]:
    """What files hold by name, uint8 ``[size]`` each, page-aligned, not writeable.

    It is a copy, in large pages where the system has such: whatever becomes of the
    files, a program keeps the weights that were verified.

    Raises:
        StorageError: a file cannot be read.
        DeviceError: ``device.file`` where its size is another by now; ``device.memory`` where the
            system refuses as much.
    """
    sizes = {name: os.fstat(file.fileno()).st_size for name, file in files.items()}
    total = sum(map(_whole_pages, sizes.values()))
    large = total >= LEAST and _has_large_pages(mode)
    memory, found, start = large_zeros(total) if large else zeros(max(1, total)), {}, 0
    for name, size in sizes.items():
        found[name] = memory[start : start + size]
        start += _whole_pages(size)
    with ThreadPoolExecutor(default_threads()) as pool:
        list(pool.map(_read, files.values(), found.values()))
    for array in found.values():
        array.flags.writeable = False
    return found


def _read(file: FileIO, array: Array) -> None:
    """Fill an array with a file of its size."""
    path, part = Path(file.name), array.data
    with storage_errors("read", path):
        file.seek(0)
        while part and (count := file.readinto(part)):
            part = part[count:]
        size = os.fstat(file.fileno()).st_size
    if part or size != len(array):
        raise changed_size(path, size, len(array))


def _whole_pages(size: int) -> int:
    return -(-size // mmap.PAGESIZE) * mmap.PAGESIZE


def _has_large_pages(mode: Path) -> bool:
    try:
        words = mode.read_text().split()
    except OSError:  # Not Linux, or one built without them.
        return False
    return hasattr(mmap, "MADV_HUGEPAGE") and "[never]" not in words
