"""Tensors of heads that are narrower in a checkpoint than in programs, with zeros in the gaps.

Zeros in queries and keys add nothing to a score, and zeros in values are zeros of the attention's
output, which zeros in the columns after it read. A head's halves stay halves, because a rotation
turns each element of the first with one of the second: ``a b`` becomes ``a 0 b 0``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from edgewise_compiler.models.base import ParamSpec, VectorSpec
from edgewise_compiler.weights.base import WeightReader
from edgewise_compiler.weights.files import Bytes, Floats, check_rows
from edgewise_compiler.weights.params import param_sources


@dataclass(frozen=True)
class Padding:
    """Where the heads of one tensor lie.

    Attributes:
        shape: of the padded tensor.
        axis: heads follow each other along it.
        scale: multiplies what is stored.
    """

    shape: tuple[int, ...]
    axis: int
    scale: float


def find_paddings(stored: Iterable[ParamSpec], padded: Iterable[ParamSpec]) -> dict[str, Padding]:
    """The tensors whose shapes differ between the parameters of a checkpoint and of programs.

    A vector among them is the weight of a norm of heads. Zeros make the mean of squares smaller, in
    proportion to the width, and what is divided by its root larger: the weight makes up for it.
    """
    found: dict[str, Padding] = {}
    for before, after in zip(stored, padded, strict=True):
        shapes = param_sources(after)
        for name, old in param_sources(before).items():
            for axis, (count, more) in enumerate(zip(old, shapes[name], strict=True)):
                if count != more:
                    scale = (count / more) ** 0.5 if isinstance(after, VectorSpec) else 1.0
                    found[name] = Padding(shapes[name], axis, scale)
    return found


class PaddedReader:
    """A checkpoint's tensors with padded heads; implements :class:`~.base.WeightReader`."""

    def __init__(
        self, reader: WeightReader, paddings: Mapping[str, Padding], stored: int, width: int
    ) -> None:
        """Heads of ``stored`` elements, an even number, become ``width`` wide."""
        self._reader = reader
        self._paddings = paddings
        self._stored = stored
        self._width = width

    def names(self) -> tuple[str, ...]:
        return self._reader.names()

    def shape(self, name: str) -> tuple[int, ...]:
        padding = self._paddings.get(name)
        return self._reader.shape(name) if padding is None else padding.shape

    def dtype(self, name: str) -> str:
        return self._reader.dtype(name)

    def size(self, name: str) -> int:
        return self._reader.size(name)

    def read(self, name: str, start: int = 0, stop: int | None = None) -> Floats:
        padding = self._paddings.get(name)
        if padding is None:
            return self._reader.read(name, start, stop)
        stop = check_rows(name, start, stop, padding.shape[0])
        places = self._places(padding.shape[padding.axis])
        out = np.zeros((stop - start, *padding.shape[1:]), np.float32)
        if padding.axis:
            out[:, places] = self._reader.read(name, start, stop)
        else:
            first, last = (int(i) for i in np.searchsorted(places, (start, stop)))
            rows = self._reader.read(name, first, last) * np.float32(padding.scale)
            out[places[first:last] - start] = rows
        return out

    def stored(self, name: str) -> Iterator[Bytes]:
        yield from self._reader.stored(name)
        if name in self._paddings:
            how = f"heads of {self._stored} in {self._width}"
            yield np.frombuffer(how.encode(), np.uint8)

    def close(self) -> None:
        self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _places(self, count: int) -> NDArray[np.intp]:
        """Which of ``count`` padded elements those of the checkpoint are, in order."""
        heads = np.arange(0, count, self._width)[:, None, None]
        halves = np.array([0, self._width // 2])[:, None]
        places: NDArray[np.intp] = (heads + halves + np.arange(self._stored // 2)).reshape(-1)
        return places
