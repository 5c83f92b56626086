"""Files of weights in memory, in pages of 2 MiB where the system has them.

Decoding reads every weight for every token. Mapped files have pages of 4 KiB, and finding the
addresses of so many took a fifth of that time (docs/decisions/0019).
"""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from edgewise_runtime.cpuid import default_threads
from edgewise_runtime.devices.arrays import changed_size, large_zeros, map_file
from edgewise_runtime.devices.base import Array
from edgewise_runtime.files import storage_errors

LEAST = 32 << 20
"""Bytes from which on it matters: fewer stay in the processor's caches."""

PART = 16 << 20
"""Bytes that a thread reads at a time."""

MODE = Path("/sys/kernel/mm/transparent_hugepage/enabled")
"""Linux's setting: the words ``always``, ``madvise`` and ``never``, the chosen one in brackets."""


def open_files(files: Mapping[str, tuple[Path, int]], mode: Path = MODE) -> dict[str, Array]:
    """Files by name, uint8 ``[size]`` each, page-aligned, not writeable.

    They are read into large pages where the system has such, and else mapped. Mapped files are
    read when they are used, and several processes share them.

    Args:
        files: path and size in bytes by name.

    Raises:
        StorageError: a file cannot be read.
        DeviceError: ``device.file`` where its size is another by now; ``device.memory`` where the
            system refuses as much.
    """
    total = sum(_whole_pages(size) for _, size in files.values())
    if total < LEAST or not _has_large_pages(mode):
        return {name: map_file(path, size) for name, (path, size) in files.items()}
    memory, found, parts, start = large_zeros(total), {}, [], 0
    for name, (path, size) in files.items():
        array = found[name] = memory[start : start + size]
        parts += [(path, array, first) for first in range(0, size, PART)]
        start += _whole_pages(size)
    with ThreadPoolExecutor(default_threads()) as pool:
        list(pool.map(_read, *zip(*parts, strict=True)))
    for array in found.values():
        array.flags.writeable = False
    return found


def _read(path: Path, array: Array, first: int) -> None:
    """Fill a part of ``array``, which is for a whole file."""
    with storage_errors("read", path), path.open("rb", buffering=0) as file:
        size = file.seek(0, 2)
        if size != len(array):
            raise changed_size(path, size, len(array))
        file.seek(first)
        part = array[first : first + PART].data
        while part and (count := file.readinto(part)):
            part = part[count:]
    if part:
        raise changed_size(path, size - len(part), size)


def _whole_pages(size: int) -> int:
    return -(-size // mmap.PAGESIZE) * mmap.PAGESIZE


def _has_large_pages(mode: Path) -> bool:
    try:
        words = mode.read_text().split()
    except OSError:  # Not Linux, or one built without them.
        return False
    return hasattr(mmap, "MADV_HUGEPAGE") and "[never]" not in words
