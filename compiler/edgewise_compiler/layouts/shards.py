"""Parameter files: safetensors shards that are laid out first, filled through memory maps after.

Everything about the files is known before any weight is read, so packing streams: a tensor's rows
go straight to their place, and memory stays bounded whatever the size of the model.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from edgewise_compiler.layouts.base import Tensors
from edgewise_runtime.errors import CompileError
from edgewise_runtime.files import storage_errors
from edgewise_runtime.format.bundle import TensorEntry

SHARD_BYTES = 32 << 20
ALIGN = 64  # bytes: the widest vector load, and TVM's assumption about every tensor

_SAFETENSORS = {"float32": "F32", "float16": "F16", "uint32": "U32", "int32": "I32", "uint8": "U8"}


@dataclass(frozen=True)
class Shards:
    """Parameter files of the bundle ``folder``, and where in them each tensor lies."""

    folder: Path
    entries: Mapping[str, TensorEntry]

    @contextmanager
    def mapped(self, names: Iterable[str]) -> Iterator[dict[str, NDArray[Any]]]:
        """Some tensors for writing, as long as the block lasts.

        Their pages leave this process with it; the kernel writes them to the disk when it likes,
        and whoever finishes the bundle waits for that (`edgewise_runtime.folders.new_folder`).

        Raises:
            StorageError: a file cannot be mapped.
        """
        with storage_errors("write parameters to", self.folder):
            arrays: dict[str, NDArray[Any]] = {n: self._map(self.entries[n]) for n in names}
        try:
            yield arrays
        finally:
            # A map lasts as long as its array; this holds even if someone keeps the dictionary.
            arrays.clear()

    def map_anew(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Let go of what was written to arrays of :meth:`mapped`: it counts as memory of this
        process for as long as it is mapped.

        Raises:
            StorageError: a file cannot be mapped.
        """
        with storage_errors("write parameters to", self.folder):
            names = [*arrays]
            arrays.clear()
            arrays.update({name: self._map(self.entries[name]) for name in names})

    def _map(self, entry: TensorEntry) -> np.memmap[tuple[int, ...], np.dtype[np.generic]]:
        path = self.folder / entry.file
        return np.memmap(path, entry.dtype, "r+", offset=entry.offset, shape=entry.shape)


def make_shards(folder: Path, layout: str, specs: Tensors) -> Shards:
    """Lay out ``folder/params/<layout>/00000.safetensors`` and on, at most 32 MiB each.

    A tensor larger than a shard gets a file of its own: the CPU maps it in one piece. Space is
    reserved before anything is written, so a full disk is an error here and not a signal later.

    Args:
        folder: the bundle.
        specs: dtype and shape of every tensor, in the order of the files.

    Raises:
        StorageError: no space, or no right to write.
    """
    entries: dict[str, TensorEntry] = {}
    home = folder / "params" / layout
    with storage_errors("write parameters to", home):
        home.mkdir(parents=True, exist_ok=True)
        for index, names in enumerate(_shards(specs)):
            path = home / f"{index:05}.safetensors"
            header, starts, total = _header({name: specs[name] for name in names})
            with path.open("w+b") as file:
                file.write(header)
                file.flush()
                _reserve(file, len(header) + total)
            relative = path.relative_to(folder).as_posix()
            for name, start in zip(names, starts, strict=True):
                spec, offset = specs[name], len(header) + start
                entries[name] = TensorEntry(relative, spec.dtype, spec.shape, offset, spec.bytes)
    return Shards(folder, entries)


def _shards(specs: Tensors) -> list[list[str]]:
    shards: list[list[str]] = []
    room = 0
    for name, spec in specs.items():
        need = spec.bytes
        if need > room:
            shards.append([])
            room = SHARD_BYTES
        shards[-1].append(name)
        room -= need
    return shards


def _header(shard: Tensors) -> tuple[bytes, list[int], int]:
    """The file's first bytes, where each tensor starts after them, and the bytes of all tensors."""
    table: dict[str, object] = {}
    starts: list[int] = []
    position = 0
    for name, spec in shard.items():
        size = spec.bytes
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
