"""The interface of a weight scheme: how a block of rows becomes arrays, and back.

Layouts are made of panels: 16 output rows side by side, so that one vector register holds one input
column of a panel. Every array of a packed linear has panels as its first axis.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgewise_runtime.errors import CheckpointError

Floats = NDArray[np.float32]
Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class ArraySpec:
    """Dtype (NumPy's name) and shape of an array that is going to be made."""

    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Scheme:
    """How weights are stored.

    Attributes:
        name: ``f32``, ``f16``, ``q8`` or ``q4``.
        arithmetic: what programs over this scheme compute in.
        arrays: suffix to dtype and shape for ``(panels, k)``; the first suffix is ``weight``.
        pack: float32 ``[panels, 16, k]`` to those arrays; ``k`` is a multiple of 32. May overwrite
            its input. Raises CheckpointError for values that the scheme cannot hold.
        unpack: the arrays to the float32 ``[panels, 16, k]`` that kernels compute with, exactly.
    """

    name: str
    arithmetic: str
    arrays: Callable[[int, int], dict[str, ArraySpec]]
    pack: Callable[[Floats], Arrays]
    unpack: Callable[[Mapping[str, NDArray[Any]]], Floats]


def to_f16(values: Floats, what: str) -> NDArray[np.float16]:
    """Round to the nearest float16; CheckpointError says ``what`` overflowed."""
    with np.errstate(over="ignore"):
        rounded = values.astype(np.float16)
    if np.isinf(rounded).any():
        worst = float(np.abs(values).max())
        raise CheckpointError(
            f"A {what} of {worst:g} is beyond float16's 65504.",
            remedy="Compile with --quant f32.",
            code="checkpoint.range",
        )
    return rounded
