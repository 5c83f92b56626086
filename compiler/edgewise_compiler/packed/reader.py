"""A checkpoint folder with packed matrices under the names, and in the shapes, of float ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Self

import numpy as np

from edgewise_compiler.packed.base import Matrices
from edgewise_compiler.packed.held import holders
from edgewise_compiler.quantize.codes import Floats, Holders
from edgewise_compiler.weights.files import Bytes, check_finite, check_rows
from edgewise_compiler.weights.safetensors import SafetensorsReader
from edgewise_runtime.errors import CheckpointError
from edgewise_runtime.format.reading import shorten

PIECE = 4 << 20
"""Bytes of a part that are read at a time, where it is one of many."""


class PackedReader:
    """The tensors of a folder; implements :class:`~..weights.base.WeightReader`.

    Which matrices are packed is seen from the tensors that are there: what a tool was told to leave
    alone (``ignore``, ``modules_to_not_convert``) lies there as floats. Patterns of a stranger's
    are never run.

    Raises:
        CheckpointError: a matrix that is there as floats, too.
    """

    def __init__(self, reader: SafetensorsReader, matrices: Matrices) -> None:
        self._reader = reader
        self._matrices = matrices
        parts = {part for matrix in matrices.values() for part in matrix.parts}
        plain = [name for name in reader.names() if name not in parts]
        twice = matrices.keys() & set(plain)
        if twice:
            raise CheckpointError(
                f"{shorten(min(twice))} is there twice: quantized, and as it was before.",
                remedy="Use weights of one checkpoint only.",
                code="checkpoint.weights",
            )
        self._names = (*plain, *matrices)

    def names(self) -> tuple[str, ...]:
        return self._names

    def shape(self, name: str) -> tuple[int, ...]:
        matrix = self._matrices.get(name)
        return self._reader.shape(name) if matrix is None else matrix.shape

    def dtype(self, name: str) -> str:
        matrix = self._matrices.get(name)
        return self._reader.dtype(name) if matrix is None else matrix.kind

    def size(self, name: str) -> int:
        matrix = self._matrices.get(name)
        if matrix is not None and matrix.ranges is not None:
            return sum(count for _, count in matrix.ranges)
        return sum(
            self._reader.size(part) for part in ((name,) if matrix is None else matrix.parts)
        )

    def read(self, name: str, start: int = 0, stop: int | None = None) -> Floats:
        matrix = self._matrices.get(name)
        if matrix is None:
            return self._reader.read(name, start, stop)
        stop = check_rows(name, start, stop, matrix.shape[0])
        if start == stop:
            return np.empty((0, matrix.shape[1]), np.float32)
        values = matrix.rows(start, stop).floats()
        check_finite(name, values, start)
        return values

    def stored(self, name: str) -> Iterator[Bytes]:
        matrix = self._matrices.get(name)
        if matrix is not None and matrix.ranges is not None:
            for part, (first, count) in zip(matrix.parts, matrix.ranges, strict=True):
                for at in range(first, first + count, PIECE):
                    yield self._reader.part(part, at, min(PIECE, first + count - at))
            return
        for part in (name,) if matrix is None else matrix.parts:
            yield from self._reader.stored(part)

    def held(self) -> Mapping[str, Holders]:
        """The schemes that hold each packed matrix, by name."""
        return {name: holders(name, matrix) for name, matrix in self._matrices.items()}

    def close(self) -> None:
        self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
