"""Matrices of AWQ and GPTQ, which lie with the outputs along the columns.

Rows of ours are columns there, so a matrix is read whole, as it is packed, and turned; two are kept
at a time, since gate and up are asked for in turns.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from edgewise_compiler.packed.base import Codes, Integers, Matrix, Zeros
from edgewise_compiler.packed.words import Words, along_rows, turned
from edgewise_compiler.quantize.codes import Floats
from edgewise_compiler.weights.safetensors import FLOATS, SafetensorsReader

KEPT = 2
"""Matrices in memory at a time."""

SCALES = tuple(FLOATS)
"""Dtypes that scales may have."""

ENDS = ("qweight", "qzeros", "scales", "g_idx")
"""How names of a module's tensors end."""


@dataclass(frozen=True)
class Turned:
    """A matrix in memory: its words as the format packs them, turned, and what its groups have."""

    words: Words
    zeros: Zeros
    scales: Floats


class Kept:
    """Turned matrices, those that were wanted last."""

    def __init__(self) -> None:
        self._found: OrderedDict[str, Turned] = OrderedDict()

    def get(self, name: str, load: Callable[[], Turned]) -> Turned:
        """The matrix ``name``, which ``load`` reads where it is not in memory."""
        if name not in self._found:
            while len(self._found) >= KEPT:
                self._found.popitem(last=False)
            self._found[name] = load()
        self._found.move_to_end(name)
        return self._found[name]


def modules_of(reader: SafetensorsReader) -> Iterator[str]:
    """The modules of a checkpoint that are quantized."""
    end = f".{ENDS[0]}"
    return (name.removesuffix(end) for name in reader.names() if name.endswith(end))


def read_scales(reader: SafetensorsReader, name: str) -> Floats:
    """Scales, turned: ``[n, groups]``."""
    return np.ascontiguousarray(reader.read(name).T)


def read_zeros(
    reader: SafetensorsReader,
    name: str,
    bits: int,
    places: tuple[int, ...],
    n: int,
    more: int = 0,
) -> Zeros:
    """Zeros, turned: ``[n, groups]``; ``more`` is added to each word that is stored."""
    words = np.ascontiguousarray(turned(reader, name, "<u4").T)
    zeros = along_rows(words + np.uint32(more), bits, places)[:, :n]
    return np.ascontiguousarray(zeros.T).astype(np.int16)


def matrix(
    *,
    module: str,
    shape: tuple[int, int],
    bits: int,
    kind: str,
    parts: tuple[str, ...],
    kept: Kept,
    load: Callable[[], Turned],
    zeros: Callable[[], Zeros],
    unpack: Callable[[Words, int, int], Codes],
) -> Matrix:
    """A matrix that is kept while it is in use.

    Args:
        zeros: reads them alone.
        unpack: codes of rows ``start..stop`` out of a matrix's words.
    """
    rows = partial(_rows, kept, module, load, unpack)
    middle = 1 << (bits - 1)
    return Matrix(shape, bits, kind, parts, lambda: bool((zeros() == middle).all()), rows)


def _rows(
    kept: Kept,
    module: str,
    load: Callable[[], Turned],
    unpack: Callable[[Words, int, int], Codes],
    start: int,
    stop: int,
) -> Integers:
    own = kept.get(module, load)
    return Integers(unpack(own.words, start, stop), own.zeros[start:stop], own.scales[start:stop])
