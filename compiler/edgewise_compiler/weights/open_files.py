"""Open files and the tensors in them: what the readers of all formats have in common."""

from __future__ import annotations

from collections.abc import Iterator
from io import BufferedReader, FileIO
from pathlib import Path
from typing import Self

from edgewise_compiler.weights.files import Bytes, read_exactly
from edgewise_runtime.errors import CheckpointError
from edgewise_runtime.files import storage_errors
from edgewise_runtime.format.bundle import TensorEntry
from edgewise_runtime.format.reading import shorten

BLOCK = 16 << 20
"""Bytes of a tensor that are read at a time where all of it is wanted."""


class TensorFiles:
    """Tensors by name, in files of one folder; all of :class:`~.base.WeightReader` but ``read``.

    Rows are read with plain file reads: unlike a mapping, a file that is truncated meanwhile is an
    error and not a signal, and the memory in use is the block that was asked for.

    Args:
        folder: where the files are.
        owner: what has no tensor of an unknown name, for messages.
        remedy: what to do then.
    """

    def __init__(self, folder: Path, owner: str, remedy: str) -> None:
        self._folder = folder
        self._owner = owner
        self._remedy = remedy
        self._files: dict[str, BufferedReader | FileIO] = {}
        self._tensors: dict[str, TensorEntry] = {}

    def names(self) -> tuple[str, ...]:
        return tuple(self._tensors)

    def shape(self, name: str) -> tuple[int, ...]:
        return self._find(name).shape

    def dtype(self, name: str) -> str:
        return self._find(name).dtype

    def size(self, name: str) -> int:
        return self._find(name).bytes

    def stored(self, name: str) -> Iterator[Bytes]:
        entry = self._find(name)
        for start in range(0, entry.bytes, BLOCK):
            yield self._bytes(entry, start, min(BLOCK, entry.bytes - start))

    def part(self, name: str, start: int, count: int) -> Bytes:
        """``count`` bytes of a tensor as it is stored, from its ``start``-th on."""
        return self._bytes(self._find(name), start, count)

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        self._files.clear()
        self._tensors.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _find(self, name: str) -> TensorEntry:
        if name not in self._tensors:
            raise CheckpointError(
                f"{self._owner} has no tensor {shorten(name)}.",
                remedy=self._remedy,
                code="checkpoint.weights",
            )
        return self._tensors[name]

    def _bytes(self, entry: TensorEntry, start: int, count: int) -> Bytes:
        """``count`` bytes of a tensor, from its ``start``-th on."""
        path, file = self._folder / entry.file, self._files[entry.file]
        with storage_errors("read", path):
            file.seek(entry.offset + start)
            return read_exactly(file, count, path)
