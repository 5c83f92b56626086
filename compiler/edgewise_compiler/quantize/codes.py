"""Quantized rows between reading and packing: a code for each weight, and the numbers of its group.

They are row-major and unpacked, whatever the scheme: a scheme makes them from floats, a file format
may bring them ready-made, and a layout only reorders them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgewise_compiler.quantize.scales import HALVES, ScaleStore
from edgewise_runtime.format.abi import GROUP

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class CodedRows:
    """Some rows of a matrix in a scheme.

    Attributes:
        codes: ``[rows, k]``, uint8 however few bits a code has; float32 or float16 values in the
            schemes that store values. ``k`` is a multiple of 32.
        groups: what 32 columns of a row share, such as ``scale``: float16 ``[rows, k / 32]`` each,
            or as what keeps them (`quantize.scales`, `quantize.two_levels`) says.
    """

    codes: NDArray[Any]
    groups: Mapping[str, NDArray[Any]]

    def __getitem__(self, rows: slice | NDArray[np.intp]) -> CodedRows:
        """Some of the rows: a slice is not copied."""
        return CodedRows(self.codes[rows], {name: own[rows] for name, own in self.groups.items()})

    def part(self, start: int, stop: int) -> CodedRows:
        """Rows ``start..stop``, not copied."""
        return self[start:stop]


@dataclass(frozen=True)
class Levels:
    """Integers that a scale of any sign multiplies, and the numbers that name them.

    Numbers ``low..high`` are stored less ``low``; a scale's sign says which way the longer side is.

    Attributes:
        bend: numbers up to this one of either sign are the integers themselves; beyond it integers
            lie two apart: ``2 number - clip(number, -bend, bend)``. None: all are themselves.
        store: how the scales are kept.
    """

    low: int
    high: int
    bend: int | None = None
    store: ScaleStore = HALVES

    @property
    def ends(self) -> tuple[int, int]:
        """The lowest and the highest integer."""
        low, high = self.integers(np.array([self.low, self.high], np.float32)).astype(int).tolist()
        return low, high

    def integers(self, numbers: Floats) -> Floats:
        """What numbers stand for; themselves, not copied, where there is no bend."""
        if self.bend is None:
            return numbers
        found = np.clip(numbers, -self.bend, self.bend)
        np.subtract(numbers, found, out=found)
        return np.add(numbers, found, out=found)

    def nearest(self, x: Floats) -> Floats:
        """The numbers of the integers nearest to ``x``, which is overwritten and returned."""
        if self.bend is not None:
            x += np.clip(x, -self.bend, self.bend)
            x *= np.float32(0.5)
        np.rint(x, out=x)
        return np.clip(x, self.low, self.high, out=x)


SIXTEEN = Levels(-8, 7)
"""All of four bits. Which side has one more is the sign of the scale."""


@dataclass(frozen=True)
class Scheme:
    """How weights are stored.

    Attributes:
        name: what recipes call it, see `quantize.schemes`.
        arithmetic: what programs over this scheme compute in.
        code: type of a code: ``float32``, ``float16``, or by bits ``uint8`` to ``uint4``.
        groups: names of the numbers that a group has.
        quantize: float32 ``[rows, k]`` to codes; ``k`` is a multiple of 32. May overwrite its
            input. Raises CheckpointError for values that the scheme cannot hold.
        dequantize: codes to the float32 ``[rows, k]`` that kernels compute with, exactly.
        levels: what a search for better scales (`quantize.search`) chooses from; None where
            rounding to the nearest is as good.
        numbers: what a linear's tensor of those numbers is called. Where bytes a number tell a
            scheme from the others, ``scale``; else a name of its own, by which it is known.
        columns: how many share numbers: the columns of a matrix must be a multiple.
    """

    name: str
    arithmetic: str
    code: str
    groups: tuple[str, ...]
    quantize: Callable[[Floats], CodedRows]
    dequantize: Callable[[CodedRows], Floats]
    levels: Levels | None = None
    numbers: str = "scale"
    columns: int = GROUP

    @property
    def integer(self) -> bool:
        """Whether its codes are integers, which kernels multiply with int8 activations."""
        return self.code.startswith("uint")

    @property
    def bytes(self) -> bool:
        """Whether a scale is a byte, under a unit of its row (`quantize.scales`)."""
        return "unit" in self.groups

    @property
    def bend(self) -> int | None:
        """Where its integers begin to lie two apart (`Levels`); None where they never do."""
        return None if self.levels is None else self.levels.bend


CodeSource = Callable[[str, int, int], CodedRows]
"""Rows ``start..stop`` of a checkpoint's tensor, columns padded to a multiple of 32: quantized on
the way (`layouts.packing.quantized`), or as a file that is quantized already has them."""

RowSource = Callable[[int, int], CodedRows]
"""Rows ``start..stop`` of one tensor that has codes already, columns padded likewise."""

Holders = Mapping[str, RowSource | None]
"""The schemes that hold a tensor of a quantized file with little or no loss, narrowest first: the
codes it has there, or None where they have to be made from its floats."""


def whole_groups(rows: Floats) -> Floats:
    """``rows`` with zeros after its columns, so that they make groups of 32; itself if they do."""
    more = -rows.shape[1] % GROUP
    return np.pad(rows, ((0, 0), (0, more))) if more else rows
