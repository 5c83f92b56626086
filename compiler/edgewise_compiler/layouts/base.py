"""The interface of a weight layout: the tensors a parameter becomes, and putting its rows there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from numpy.typing import NDArray

from edgewise_compiler.layouts.order import padded_k
from edgewise_compiler.layouts.words import packed_rows, row_elements
from edgewise_compiler.models.base import LinearSpec, VectorSpec
from edgewise_compiler.quantize.codes import CodedRows, Floats, Scheme
from edgewise_compiler.quantize.split import AnyScheme, Band
from edgewise_runtime.format.dtypes import DTYPES

Arrays = Mapping[str, NDArray[Any]]
"""Arrays to be filled, by tensor name; each of the dtype and shape of its :class:`TensorSpec`."""


@dataclass(frozen=True)
class TensorSpec:
    """Dtype (NumPy's name) and shape of a packed tensor that is going to be made."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        """Bytes that its elements take."""
        return prod(self.shape) * DTYPES[self.dtype]


Tensors = Mapping[str, TensorSpec]
"""What a layout consists of, by tensor name."""


@dataclass(frozen=True)
class Part:
    """Some rows of a packed linear, whose tensors have a name of their own, in one scheme."""

    name: str
    first: int
    rows: int
    scheme: Scheme


@dataclass(frozen=True)
class VectorPlace:
    """Where a vector goes: tensor ``name``, at ``index`` of it, or all of it."""

    name: str
    spec: TensorSpec
    index: int | None = None


@dataclass(frozen=True)
class Layout:
    """An order in which packed weights lie, for targets whose kernels read it.

    Attributes:
        name: its folder in a bundle's ``params``.
        parts: those of a linear, in the order of its rows.
        spec: of the tensor that a part's elements of a kind become: their suffix, dtype, and how
            many a row has (`layouts.words`).
        put: writes elements of some rows of a part, whole panels in packed order, into such a
            tensor.
        place: where a vector goes.
    """

    name: str
    parts: Callable[[AnyScheme, LinearSpec], tuple[Part, ...]]
    spec: Callable[[Part, str, str, int], TensorSpec]
    put: Callable[[Part, slice, NDArray[Any], NDArray[Any]], None]
    place: Callable[[VectorSpec], VectorPlace]

    def tensors(self, scheme: AnyScheme, spec: LinearSpec) -> dict[str, TensorSpec]:
        """What a linear becomes: of each part ``<name>.weight``, a tensor of its groups' numbers as
        the scheme calls it, ``<name>.bias``."""
        made: dict[str, TensorSpec] = {}
        for part in self.parts(scheme, spec):
            for suffix, (dtype, elements) in row_elements(part.scheme, padded_k(spec)).items():
                made[f"{part.name}.{suffix}"] = self.spec(part, suffix, dtype, elements)
            if spec.biases is not None:
                made[f"{part.name}.bias"] = TensorSpec("float32", (part.rows,))
        return made

    def put_rows(
        self, scheme: AnyScheme, spec: LinearSpec, first: int, rows: CodedRows, out: Arrays
    ) -> None:
        """Write rows ``first`` and on of a linear, whole panels in packed order, in one scheme."""
        for part, inside, taken in overlaps(self.parts(scheme, spec), first, len(rows.codes)):
            for suffix, elements in packed_rows(part.scheme, rows[taken]).items():
                self.put(part, inside, elements, out[f"{part.name}.{suffix}"])

    def put_bias(self, scheme: AnyScheme, spec: LinearSpec, bias: Floats, out: Arrays) -> None:
        """Write a linear's biases, float32 ``[NP]`` in packed order."""
        for part in self.parts(scheme, spec):
            out[f"{part.name}.bias"][:] = bias[part.first : part.first + part.rows]


def named_parts(spec: LinearSpec, pieces: Sequence[Band]) -> tuple[Part, ...]:
    """The parts that bands of a linear's rows become: one has the linear's name."""
    names = [spec.name] if len(pieces) == 1 else [f"{spec.name}.{i}" for i in range(len(pieces))]
    return tuple(
        Part(name, start, stop - start, scheme)
        for name, (scheme, start, stop) in zip(names, pieces, strict=True)
    )


def overlaps(parts: Sequence[Part], start: int, count: int) -> Iterator[tuple[Part, slice, slice]]:
    """Which rows of which parts the rows ``start`` to ``start + count`` fall on."""
    for part in parts:
        low, high = max(start, part.first), min(start + count, part.first + part.rows)
        if low < high:
            yield part, slice(low - part.first, high - part.first), slice(low - start, high - start)
