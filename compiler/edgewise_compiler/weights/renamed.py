"""Some of a checkpoint's tensors under other names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Self

from edgewise_compiler.weights.base import WeightReader
from edgewise_compiler.weights.files import Bytes, Floats


class RenamedReader:
    """The tensors of ``names``, by their new names; others are hidden.

    Implements :class:`~.base.WeightReader`.
    """

    def __init__(self, reader: WeightReader, names: Mapping[str, str]) -> None:
        self._reader = reader
        self._names_of = dict(names)

    def names(self) -> tuple[str, ...]:
        return tuple(self._names_of)

    def shape(self, name: str) -> tuple[int, ...]:
        return self._reader.shape(self._names_of.get(name, name))

    def dtype(self, name: str) -> str:
        return self._reader.dtype(self._names_of.get(name, name))

    def size(self, name: str) -> int:
        return self._reader.size(self._names_of.get(name, name))

    def read(self, name: str, start: int = 0, stop: int | None = None) -> Floats:
        return self._reader.read(self._names_of.get(name, name), start, stop)

    def stored(self, name: str) -> Iterator[Bytes]:
        yield from self._reader.stored(self._names_of.get(name, name))

    def close(self) -> None:
        self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
