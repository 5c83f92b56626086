"""Parameter files: safetensors shards that are laid out first, filled through memory maps after.

Everything about the files is known before any weight is read, so packing streams: a tensor's rows
go straight to their place, and memory stays bounded whatever the size of the model.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from edgewise_compiler.quantize import ArraySpec
from edgewise_runtime.errors import CompileError
from edgewise_runtime.files import storage_errors
from edgewise_runtime.format.bundle import TensorEntry

SHARD_BYTES = 32 << 20
ALIGN = 64  # bytes: the widest vector load, and TVM's assumption about every tensor

_SAFETENSORS = {"float32": "F32", "float16": "F16", "uint32": "U32", "int32": "I32", "uint8": "U8"}


@dataclass(frozen=True)
class Shards:
    """Parameter files being filled: a writable array and a place in a file for each tensor."""

    arrays: Mapping[str, NDArray[Any]]
    entries: Mapping[str, TensorEntry]


@contextmanager
def open_shards(folder: Path, prefix: str, specs: Mapping[str, ArraySpec]) -> Iterator[Shards]:
    """Lay out ``folder/00000.safetensors`` and on, at most 32 MiB each, and map them for writing.

    A tensor larger than a shard gets a file of its own: the CPU maps it in one piece. Space is
    reserved before anything is written, so a full disk is an error here and not a signal later.

    Args:
        prefix: path of ``folder`` inside the bundle, for the entries.
        specs: dtype and shape of every tensor, in the order of the files.

    Raises:
        StorageError: no space, or no right to write.
    """
    arrays: dict[str, NDArray[Any]] = {}
    entries: dict[str, TensorEntry] = {}
    maps: list[np.memmap[Any, Any]] = []
    with storage_errors("write parameters to", folder):
        folder.mkdir(parents=True, exist_ok=True)
        for index, names in enumerate(_shards(specs)):
            file_name = f"{index:05}.safetensors"
            path = folder / file_name
            header, starts, total = _header({name: specs[name] for name in names})
            with path.open("w+b") as file:
                file.write(header)
                file.flush()
                _reserve(file, len(header) + total)
            mapped = np.memmap(path, np.uint8, "r+", offset=0, shape=(len(header) + total,))
            maps.append(mapped)
            for name, start in zip(names, starts, strict=True):
                spec = specs[name]
                offset, size = len(header) + start, _bytes(spec)
                arrays[name] = mapped[offset : offset + size].view(spec.dtype).reshape(spec.shape)
                entries[name] = TensorEntry(
                    f"{prefix}/{file_name}", spec.dtype, spec.shape, offset, size
                )
        yield Shards(arrays, entries)
        for mapped in maps:
            mapped.flush()


def _bytes(spec: ArraySpec) -> int:
    return prod(spec.shape) * np.dtype(spec.dtype).itemsize


def _shards(specs: Mapping[str, ArraySpec]) -> list[list[str]]:
    shards: list[list[str]] = []
    room = 0
    for name, spec in specs.items():
        need = _bytes(spec)
        if need > room:
            shards.append([])
            room = SHARD_BYTES
        shards[-1].append(name)
        room -= need
    return shards


def _header(shard: Mapping[str, ArraySpec]) -> tuple[bytes, list[int], int]:
    """The file's first bytes, where each tensor starts after them, and the bytes of all tensors."""
    table: dict[str, object] = {}
    starts: list[int] = []
    position = 0
    for name, spec in shard.items():
        size = _bytes(spec)
        if size % ALIGN:
            raise CompileError(
                f"{name!r} has {size} bytes, no multiple of {ALIGN}; the next tensor would lie"
                " unaligned."
            )
        starts.append(position)
        table[name] = {
            "dtype": _SAFETENSORS[spec.dtype],
            "shape": list(spec.shape),
            "data_offsets": [position, position + size],
        }
        position += size
    text = json.dumps(table, separators=(",", ":")).encode()
    # The format lets a header end in spaces: data then starts aligned in the file, hence mapped.
    text += b" " * (-(len(text) + 8) % ALIGN)
    return len(text).to_bytes(8, "little") + text, starts, position


def _reserve(file: BinaryIO, size: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), 0, size)
        return
    # Without it (macOS), writing zeros is what claims the space.
    file.seek(0, os.SEEK_END)
    zeros = bytes(1 << 20)
    while (missing := size - file.tell()) > 0:
        file.write(zeros[:missing])
    file.flush()
