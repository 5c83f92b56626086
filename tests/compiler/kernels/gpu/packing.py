"""Float matrices packed for the GPU, and what linears over them must give."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgewise_compiler.layouts.order import round_up
from edgewise_compiler.layouts.words import packed_rows
from edgewise_compiler.quantize import SCHEMES, find_scheme

Floats = NDArray[np.float32]

KINDS = tuple(name for name in SCHEMES if name != "mxfp4")
"""A scheme for each way in which kernels read weights: of those with tables, one."""


def columns(scheme: str, k: int) -> int:
    """``k`` columns, or as many more as the scheme's groups ask for."""
    return round_up(k, SCHEMES[scheme].columns)


def pack(scheme: str, w: Floats) -> tuple[list[NDArray[Any]], Floats]:
    """Pack ``w`` [rows, k], both multiples of 32.

    Returns:
        The buffers of `GpuWeights.arguments` in order, and the exact values they stand for.
    """
    found = find_scheme(scheme)
    coded = found.quantize(w.copy())
    elements = packed_rows(found, coded).values()
    word = np.float32 if scheme == "f32" else np.uint32
    arrays = [np.ascontiguousarray(each).reshape(-1).view(word) for each in elements]
    return arrays, found.dequantize(coded)


def linear(
    x: NDArray[np.float64], w: Floats, bias: Floats | None, epilogue: str, out: Floats, live: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The outputs of a linear in float64, and the size of what was added up for each.

    Args:
        x: a row for every row of ``out``, of which the first ``live`` count.
        w: exact weights [rows, k]; for ``swiglu`` with gate and up rows by panels of 16.
        out: what was there before; other rows stay.
    """
    y, size = x @ w.T.astype(np.float64), np.abs(x) @ np.abs(w.T) + 1
    y = y if bias is None else y + bias
    if epilogue == "swiglu":
        gate, up = (y.reshape(len(y), -1, 2, 16)[:, :, i].reshape(len(y), -1) for i in (0, 1))
        sizes = size.reshape(len(y), -1, 2, 16).sum(2).reshape(len(y), -1)
        size = sizes * (1 + np.abs(up) + np.abs(gate))
        y = gate * np.exp(-np.logaddexp(0, -gate)) * up
    y = y + out[: len(y)] if epilogue == "add" else y
    expected = out.astype(np.float64)
    expected[:live] = y[:live]
    return expected, size
