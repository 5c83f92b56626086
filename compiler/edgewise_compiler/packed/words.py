"""Codes out of words of 32 bits, and tensors that lie with the outputs along their columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgewise_compiler.packed.base import Codes
from edgewise_compiler.weights.safetensors import SafetensorsReader

Words = NDArray[np.uint32]

WORD = 32
"""Bits."""

BLOCK = 4 << 20
"""Bytes of a tensor that are turned at a time."""


def in_order(bits: int) -> tuple[int, ...]:
    """Codes follow each other from the lowest bits up."""
    return tuple(range(WORD // bits))


def along_rows(words: Words, bits: int, places: tuple[int, ...]) -> Codes:
    """The codes of words ``[rows, n]``, ``[rows, n * 32 / bits]``.

    Args:
        places: for each code of a word where it lies, in codes from the lowest bits.
    """
    shifts = np.array(places, np.uint32) * np.uint32(bits)
    codes = words[:, :, None] >> shifts & np.uint32((1 << bits) - 1)
    return codes.astype(np.uint8).reshape(len(words), -1)


def along_columns(words: Words, bits: int, places: tuple[int, ...]) -> Codes:
    """The codes of words ``[n, columns]`` each of which holds a column's, ``[n * 32 / bits,
    columns]``."""
    shifts = np.array(places, np.uint32)[:, None] * np.uint32(bits)
    codes = words[:, None, :] >> shifts & np.uint32((1 << bits) - 1)
    return codes.astype(np.uint8).reshape(-1, words.shape[1])


def turned(reader: SafetensorsReader, name: str, dtype: str) -> NDArray[Any]:
    """A matrix of a file with rows and columns exchanged; in memory once, and a block of it.

    Args:
        dtype: NumPy's, of what lies there.
    """
    rows, columns = reader.shape(name)
    size = np.dtype(dtype).itemsize * columns
    out = np.empty((columns, rows), dtype)
    step = max(1, BLOCK // size)
    for start in range(0, rows, step):
        stop = min(start + step, rows)
        raw = reader.part(name, start * size, (stop - start) * size)
        out[:, start:stop] = raw.view(dtype).reshape(stop - start, columns).T
    return out
