"""The tensors of a GGUF file, or of its parts, under the names they have there."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from math import prod
from pathlib import Path

import numpy as np

from edgewise_compiler.gguf.blocks import BY_NAME, Floats, Records
from edgewise_compiler.gguf.codes import Unpack
from edgewise_compiler.gguf.container import Container, Value, read_container
from edgewise_compiler.gguf.names import parts
from edgewise_compiler.quantize.codes import CodedRows
from edgewise_compiler.weights.files import check_fetched, check_finite, check_rows, damaged
from edgewise_compiler.weights.open_files import TensorFiles
from edgewise_runtime.errors import CheckpointError, UnsupportedError
from edgewise_runtime.files import storage_errors
from edgewise_runtime.format.bundle import TensorEntry
from edgewise_runtime.format.reading import shorten


class GgufReader(TensorFiles):
    """The tensors of a GGUF file; implements :class:`~..weights.base.WeightReader`.

    Attributes:
        path: the file, the first of a split model.
        metadata: values by key, of the first file.

    Raises:
        CheckpointError: a file that is malformed, or parts that do not fit together.
        UnsupportedError: a version, byte order or tensor type that is not read.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path.parent, path.name, "Download the whole model, or convert it again.")
        self.path = path
        self.metadata: Mapping[str, Value] = {}
        try:
            first = self._add(path)
            self.metadata = first.metadata
            self._add_parts(first)
        except BaseException:
            self.close()
            raise

    def read(self, name: str, start: int = 0, stop: int | None = None) -> Floats:
        entry = self._find(name)
        block = self._block_of(name, entry)
        rows = entry.shape[0]
        stop = check_rows(name, start, stop, rows)
        if start == stop:
            return np.empty((0, *entry.shape[1:]), np.float32)
        # Blocks lie within rows; those of a vector hold several elements, so it is read as one row.
        vector = len(entry.shape) == 1
        first, count, height = (0, 1, 1) if vector else (start, stop - start, rows)
        with np.errstate(over="ignore", invalid="ignore"):
            decoded = block(self._blocks(entry, first, count, entry.bytes // height))
        values = (
            decoded.reshape(-1)[start:stop] if vector else decoded.reshape(count, *entry.shape[1:])
        )
        check_finite(name, values, start)
        return values

    def rows(self, name: str, start: int, stop: int) -> Floats:
        """Rows ``start..stop`` of a tensor of matrices, which are counted through: those of the
        second come after those of the first.

        Raises:
            CheckpointError, UnsupportedError: as for `read`.
        """
        entry = self._find(name)
        decode, height = self._block_of(name, entry), prod(entry.shape[:-1])
        count = check_rows(name, start, stop, height) - start
        with np.errstate(over="ignore", invalid="ignore"):
            decoded = decode(self._blocks(entry, start, count, entry.bytes // height))
        values = decoded.reshape(count, entry.shape[-1])
        check_finite(name, values, start)
        return values

    def _block_of(self, name: str, entry: TensorEntry) -> Callable[[Records], Floats]:
        """How a tensor's blocks become floats."""
        block = BY_NAME[entry.dtype]
        if block.decode is None:
            known = ", ".join(kind.name for kind in BY_NAME.values() if kind.decode is not None)
            raise UnsupportedError(
                f"{shorten(name)} in {entry.file} is stored as {entry.dtype}.",
                remedy=f"Use a file whose tensors are {known}.",
                code="unsupported.dtype",
            )
        return block.decode

    def codes(self, unpack: Unpack, name: str, start: int, stop: int) -> CodedRows:
        """Rows ``start..stop`` of a matrix in a scheme, by one of those that hold its type; those
        of several matrices are counted as `rows` counts them.

        Raises:
            CheckpointError: no such tensor, rows out of range, a number of a group that is NaN or
                infinite, or one that is computed and beyond float16.
        """
        entry = self._find(name)
        height, k = prod(entry.shape[:-1]), entry.shape[-1]
        count = check_rows(name, start, stop, height) - start
        with np.errstate(over="ignore", invalid="ignore"):
            coded = unpack(self._blocks(entry, start, count, entry.bytes // height))
        blocks = k // BY_NAME[entry.dtype].elements
        groups = {
            what: own.reshape(count, blocks * own.shape[1]) for what, own in coded.groups.items()
        }
        for numbers in groups.values():
            if not np.isfinite(numbers).all():
                columns = numbers.astype(np.float32).repeat(k // numbers.shape[1], axis=1)
                check_finite(name, columns, start)
        return CodedRows(coded.codes.reshape(count, k), groups)

    def _blocks(self, entry: TensorEntry, first: int, count: int, row_bytes: int) -> Records:
        raw = self._bytes(entry, first * row_bytes, count * row_bytes)
        blocks: Records = raw.view(BY_NAME[entry.dtype].layout)
        return blocks

    def _add(self, path: Path) -> Container:
        with storage_errors("read", path):
            check_fetched(path)
            file = self._files[path.name] = path.open("rb")
            container = read_container(file, os.fstat(file.fileno()).st_size, path)
        twice = container.tensors.keys() & self._tensors.keys()
        if twice:
            raise damaged(path, f"{shorten(min(twice))} is in another part, too")
        self._tensors |= container.tensors
        return container

    def _add_parts(self, first: Container) -> None:
        count = _split(first, "split.count", 1)
        if count <= 1:
            return
        paths = parts(self.path)
        if len(paths) != count:
            raise damaged(self.path, f"it is one of {count} parts, which its name does not say")
        if self.path != paths[0]:
            raise CheckpointError(
                f"{self.path.name} is not the first of its {count} parts.",
                remedy=f"Name {paths[0].name}.",
                code="checkpoint.file",
            )
        for number, path in enumerate(paths):
            part = self._add(path) if number else first
            found = _split(part, "split.no", -1), _split(part, "split.count", 1)
            if found != (number, count):
                raise damaged(path, f"it calls itself part {found[0] + 1} of {found[1]}")
        total = _split(first, "split.tensors.count", len(self._tensors))
        if total != len(self._tensors):
            raise damaged(self.path, f"its parts have {len(self._tensors)} tensors of {total}")


def _split(container: Container, key: str, default: int) -> int:
    value = container.metadata.get(key, default)
    return value if isinstance(value, int) else -1
