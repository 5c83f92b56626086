"""The interface of a weight layout: the tensors a parameter becomes, and putting its rows there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from numpy.typing import NDArray

from edgewise_compiler.models.base import LinearSpec, VectorSpec
from edgewise_compiler.quantize.codes import CodedRows, Floats, Scheme
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
        tensors: what a linear becomes: ``<name>.weight``, a tensor of its groups' numbers as the
            scheme calls it, ``<name>.bias``; the name may be that of a part.
        put_rows: writes rows ``first`` and on of a linear, whole panels in packed order.
        put_bias: writes a linear's biases, float32 ``[NP]`` in packed order.
        place: where a vector goes.
    """

    name: str
    tensors: Callable[[Scheme, LinearSpec], dict[str, TensorSpec]]
    put_rows: Callable[[Scheme, LinearSpec, int, CodedRows, Arrays], None]
    put_bias: Callable[[Scheme, LinearSpec, Floats, Arrays], None]
    place: Callable[[VectorSpec], VectorPlace]
