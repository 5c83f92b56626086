"""How scales are kept: as float16, or as bytes under one float32 for a row.

A byte n stands for ``n * (|n| + 128)`` units. So steps grow with scales, and one that is a small
part of its row's largest is kept nearer than even steps would: a sixteenth within 4%, a hundredth
within 20%. Groups of small weights may meet large activations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgewise_runtime.errors import CheckpointError

Floats = NDArray[np.float32]

MOST = 127
"""The largest byte, of either sign."""

STEP = 128
"""How long steps between bytes are near zero, in units; the last are three times as long."""

_SIZES = np.array([n * (n + STEP) for n in range(MOST + 1)], np.float32)

ROOM = np.float32(1.25)
"""Times the largest scale of a row: what its bytes reach where weights still change while they are
quantized (`quantize.gptq`)."""


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


@dataclass(frozen=True)
class ScaleStore:
    """A way to keep scales, float32 ``[rows, groups]``.

    Attributes:
        names: of the arrays that it keeps them in, as `CodedRows.groups` has them.
        keep: scales to those arrays. The second argument, float32 ``[rows, 1]``, is what the scales
            of a row reach at most, of either sign, where that is not their own largest. Raises
            CheckpointError for scales beyond float16, which programs compute weights in.
        near: scales, likewise, to arrays that keep the nearest, or those on either side, for who
            can tell which is better; only ``scale`` differs among them.
        read: those arrays to the scales that they stand for, exactly what kernels compute.
    """

    names: tuple[str, ...]
    keep: Callable[[Floats, Floats | None], dict[str, NDArray[Any]]]
    near: Callable[[Floats, Floats | None], list[dict[str, NDArray[Any]]]]
    read: Callable[[Mapping[str, NDArray[Any]]], Floats]


def _as_halves(scale: Floats, _: Floats | None) -> dict[str, NDArray[Any]]:
    # A negative zero becomes the other: a zero has one spelling.
    return {"scale": to_f16(scale, "quantization scale") + np.float16(0)}


def _of_halves(groups: Mapping[str, NDArray[Any]]) -> Floats:
    return groups["scale"].astype(np.float32)


def _as_bytes(scale: Floats, most: Floats | None) -> dict[str, NDArray[Any]]:
    steps, unit = _in_units(scale, most)
    below, above = _around(steps)
    nearest = np.where(steps - _SIZES[below] <= _SIZES[above] - steps, below, above)
    return _signed(nearest, scale, unit)


def _bytes_around(scale: Floats, most: Floats | None) -> list[dict[str, NDArray[Any]]]:
    steps, unit = _in_units(scale, most)
    return [_signed(number, scale, unit) for number in _around(steps)]


def _in_units(scale: Floats, most: Floats | None) -> tuple[Any, Any]:
    """Scales without their signs in units of their rows, and those."""
    to_f16(scale, "quantization scale")
    if most is None:
        most = np.abs(scale).max(axis=1, keepdims=True)
    unit = most / _SIZES[-1]
    # GPUs may take what is smaller than the smallest normal float32 for zero.
    unit[unit < np.finfo(np.float32).tiny] = 0
    return np.abs(scale) / np.where(unit == 0, np.float32(np.inf), unit), unit


def _around(steps: Any) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The bytes whose sizes lie next to so many units, the smaller and the larger."""
    above = np.clip(np.searchsorted(_SIZES, steps), 1, MOST)
    return above - 1, above


def _signed(number: NDArray[np.intp], scale: Floats, unit: Floats) -> dict[str, NDArray[Any]]:
    return {"scale": np.where(scale < 0, -number, number).astype(np.int8), "unit": unit}


def _of_bytes(groups: Mapping[str, NDArray[Any]]) -> Floats:
    number = groups["scale"].astype(np.float32)
    scale: Floats = number * (np.abs(number) + np.float32(STEP)) * groups["unit"]
    return scale


HALVES = ScaleStore(("scale",), _as_halves, lambda *of: [_as_halves(*of)], _of_halves)
"""``scale``: float16 ``[rows, groups]``."""

BYTES = ScaleStore(("scale", "unit"), _as_bytes, _bytes_around, _of_bytes)
"""``scale``: int8 ``[rows, groups]``, -127 to 127; ``unit``: float32 ``[rows, 1]``."""


def scale_words(groups: int) -> int:
    """How many uint32 hold a row's unit and the bytes of its scales."""
    return 1 + -(-groups // 4)
