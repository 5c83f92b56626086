"""Tensors of which rows or columns are multiplied with powers of two as they are read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from edgewise_compiler.weights.base import WeightReader
from edgewise_compiler.weights.files import Bytes, Floats, check_finite

Exponents = NDArray[np.int32]


@dataclass(frozen=True)
class Scaling:
    """Exponents of two of a tensor's rows (the elements of a vector) and of its columns."""

    rows: Exponents | None = None
    columns: Exponents | None = None


class ScaledReader:
    """A checkpoint's tensors, some of them scaled; implements :class:`~.base.WeightReader`.

    Powers of two change no digit of a weight, so in float32 nothing is lost.
    """

    def __init__(self, reader: WeightReader, scalings: Mapping[str, Scaling]) -> None:
        self._reader = reader
        self._scalings = scalings

    def names(self) -> tuple[str, ...]:
        return self._reader.names()

    def shape(self, name: str) -> tuple[int, ...]:
        return self._reader.shape(name)

    def dtype(self, name: str) -> str:
        return self._reader.dtype(name)

    def size(self, name: str) -> int:
        return self._reader.size(name)

    def read(self, name: str, start: int = 0, stop: int | None = None) -> Floats:
        values = self._reader.read(name, start, stop)
        scaling = self._scalings.get(name)
        if scaling is None:
            return values
        with np.errstate(over="ignore"):
            if scaling.rows is not None:
                exponents = scaling.rows[start : start + len(values)]
                np.ldexp(values, exponents.reshape(-1, *[1] * (values.ndim - 1)), out=values)
            if scaling.columns is not None:
                np.ldexp(values, scaling.columns, out=values)
        check_finite(name, values, start)
        return values

    def stored(self, name: str) -> Iterator[Bytes]:
        yield from self._reader.stored(name)
        scaling = self._scalings.get(name, Scaling())
        for what, exponents in (("rows", scaling.rows), ("columns", scaling.columns)):
            if exponents is not None:
                yield np.frombuffer(what.encode() + exponents.tobytes(), np.uint8)

    def close(self) -> None:
        self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
