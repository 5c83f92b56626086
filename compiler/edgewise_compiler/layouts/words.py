"""Codes of a row as the elements that lie in a bundle, in the order of the columns.

A uint32 holds four codes of 8 bits, column 4i+b in byte b, or eight of 4 bits: byte b has column
8i+b in its low half and column 8i+b+4 in its high half, so that one mask and one shift give two
words of 8-bit operands. Values are elements by themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgewise_compiler.quantize.codes import CodedRows, Scheme
from edgewise_runtime.format.abi import GROUP


@dataclass(frozen=True)
class Element:
    """A stored element of a row: its dtype (NumPy's name), how many columns it holds, and what
    makes elements ``[rows, k / columns]`` of codes ``[rows, k]``."""

    dtype: str
    columns: int
    pack: Callable[[NDArray[Any]], NDArray[Any]]


def _as_they_are(codes: NDArray[Any]) -> NDArray[Any]:
    return codes


def _bytes(codes: NDArray[Any]) -> NDArray[Any]:
    return codes.view(np.uint32)


def _halves(codes: NDArray[Any]) -> NDArray[Any]:
    pairs = codes.view(np.uint32).reshape(len(codes), -1, 2)
    high = pairs[:, :, 1] << np.uint32(4)
    high |= pairs[:, :, 0]
    return high


ELEMENTS = {
    "float32": Element("float32", 1, _as_they_are),
    "float16": Element("float16", 1, _as_they_are),
    "uint8": Element("uint32", 4, _bytes),
    "uint4": Element("uint32", 8, _halves),
}
"""By a scheme's type of code."""


def row_elements(scheme: Scheme, k: int) -> dict[str, tuple[str, int]]:
    """What a row of ``k`` columns consists of: suffix of a tensor to dtype and elements."""
    element = ELEMENTS[scheme.code]
    weight = {"weight": (element.dtype, k // element.columns)}
    return weight | dict.fromkeys(scheme.groups, ("float16", k // GROUP))


def packed_rows(scheme: Scheme, rows: CodedRows) -> dict[str, NDArray[Any]]:
    """The elements of rows, ``[rows, elements]`` of every entry of :func:`row_elements`."""
    weight = ELEMENTS[scheme.code].pack(rows.codes)
    return {"weight": weight, **{name: rows.groups[name] for name in scheme.groups}}
