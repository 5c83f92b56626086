"""A plan before memory: kernel calls over named buffers, parameters and temporaries."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Literal

from tvm.tirx import PrimFunc

from edgewise_runtime.format.dtypes import DTYPES
from edgewise_runtime.format.expr import Expr

Role = Literal["param", "state", "input", "output", "scratch"]
Access = Literal["read", "write", "readwrite"]


@dataclass(frozen=True)
class Tensor:
    """One tensor a kernel sees; ``shape`` may name load symbols. ``scratch`` is a temporary."""

    name: str
    role: Role
    dtype: str
    shape: tuple[int | str, ...]

    @property
    def bytes(self) -> int:
        """Size of a temporary or a parameter, whose shape has no symbols."""
        return prod(int(extent) for extent in self.shape) * DTYPES[self.dtype]


@dataclass(frozen=True)
class Argument:
    """A tensor in the place a kernel expects it, and what the kernel does with it."""

    tensor: Tensor
    access: Access


@dataclass(frozen=True)
class Call:
    """One launch: a kernel, its arguments in order, what it costs and how many workgroups it has.

    ``bytes`` and ``flops`` are expressions over the step symbols ``n``, ``b``, ``r`` and ``kv``
    (tokens of history per sequence). ``grid`` is that of a GPU kernel, over the step symbols; a
    CPU kernel divides its work itself.
    """

    kernel: PrimFunc
    arguments: tuple[Argument, ...]
    label: str
    bytes: Expr
    flops: Expr
    grid: tuple[Expr, Expr] = (1, 1)


@dataclass(frozen=True)
class PlanCalls:
    """All calls of one plan, in order; one that ``repeats`` may run k times in one burst."""

    name: str
    calls: tuple[Call, ...]
    repeats: bool = False
