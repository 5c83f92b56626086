"""Codes of a row as the elements that lie in a bundle, in the order of the columns.

A uint32 holds four codes of 8 bits, column 4i+b in byte b, or eight of 4 bits: byte b has column
8i+b in its low half and column 8i+b+4 in its high half, so that one mask and one shift give two
words of 8-bit operands. Of 16 codes of 6 bits the low four bits are two such words, and a third has
the rest: byte b the two high bits of columns 16i+b, 16i+b+4, 16i+b+8 and 16i+b+12, lowest first.
Of 32 codes of 5 bits they are four words, and byte b of a fifth has the high bits of every fourth
column, from 32i+b on.
Values are elements by themselves. The numbers of a group lie beside each other in one tensor. Where
scales are bytes (`quantize.scales`) it has uint32: the bits of the row's unit, then scales by four,
the first lowest, with zeros after the last. Of two levels (`quantize.two_levels`) those of 256
columns are four uint32: four bits of each scale, the first lowest, four of each minimum, the two
high bits of scale and minimum by turns, and the float16 of scales below that of minima.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgewise_compiler.quantize.codes import CodedRows, Scheme
from edgewise_compiler.quantize.scales import scale_words
from edgewise_runtime.format.abi import GROUP


@dataclass(frozen=True)
class Element:
    """A stored element of a row: its dtype (NumPy's name), how many of them hold 32 columns, what
    makes elements ``[rows, k / 32 * count]`` of codes ``[rows, k]``, and codes of elements."""

    dtype: str
    count: int
    pack: Callable[[NDArray[Any]], NDArray[Any]]
    unpack: Callable[[NDArray[Any]], NDArray[Any]]


def _as_they_are(codes: NDArray[Any]) -> NDArray[Any]:
    return codes


def _bytes(codes: NDArray[Any]) -> NDArray[Any]:
    return codes.view(np.uint32)


def _from_bytes(words: NDArray[Any]) -> NDArray[Any]:
    return np.ascontiguousarray(words).view(np.uint8)


def _halves(codes: NDArray[Any]) -> NDArray[Any]:
    pairs = codes.view(np.uint32).reshape(len(codes), -1, 2)
    high = pairs[:, :, 1] << np.uint32(4)
    high |= pairs[:, :, 0]
    return high


def _from_halves(words: NDArray[Any]) -> NDArray[Any]:
    low = np.uint32(0x0F0F0F0F)
    pairs = np.stack([words & low, (words >> np.uint32(4)) & low], axis=2)
    return pairs.reshape(len(words), -1).view(np.uint8)


def _split(codes: NDArray[Any], high_bits: int) -> NDArray[Any]:
    rows, fours = len(codes), 8 // high_bits
    low = _halves(codes & np.uint8(15)).reshape(rows, -1, fours // 2)
    high = (codes >> np.uint8(4)).view(np.uint32).reshape(rows, -1, fours)
    high <<= np.arange(0, 8, high_bits, dtype=np.uint32)
    rest = np.bitwise_or.reduce(high, axis=2, keepdims=True)
    return np.concatenate([low, rest], axis=2).reshape(rows, -1)


def _from_split(words: NDArray[Any], high_bits: int) -> NDArray[Any]:
    rows = len(words)
    parts = words.reshape(rows, -1, 4 // high_bits + 1)
    low = _from_halves(parts[:, :, :-1].reshape(rows, -1))
    shifts = np.arange(0, 8, high_bits, dtype=np.uint32)
    high = (parts[:, :, -1:] >> shifts) & np.uint32(0x01010101 * ((1 << high_bits) - 1))
    codes: NDArray[Any] = low | (high.reshape(rows, -1).view(np.uint8) << np.uint8(4))
    return codes


ELEMENTS = {
    "float32": Element("float32", GROUP, _as_they_are, _as_they_are),
    "float16": Element("float16", GROUP, _as_they_are, _as_they_are),
    "uint8": Element("uint32", 8, _bytes, _from_bytes),
    "uint6": Element("uint32", 6, partial(_split, high_bits=2), partial(_from_split, high_bits=2)),
    "uint5": Element("uint32", 5, partial(_split, high_bits=1), partial(_from_split, high_bits=1)),
    "uint4": Element("uint32", 4, _halves, _from_halves),
}
"""By a scheme's type of code."""


def row_elements(scheme: Scheme, k: int) -> dict[str, tuple[str, int]]:
    """What a row of ``k`` columns consists of: suffix of a tensor to dtype and elements."""
    element, groups = ELEMENTS[scheme.code], k // GROUP
    weight = {"weight": (element.dtype, groups * element.count)}
    if not scheme.groups:
        return weight
    if scheme.bytes:
        return weight | {scheme.numbers: ("uint32", scale_words(groups))}
    if scheme.columns > GROUP:
        return weight | {scheme.numbers: ("uint32", k // scheme.columns * 4)}
    return weight | {scheme.numbers: ("float16", groups * len(scheme.groups))}


def packed_rows(scheme: Scheme, rows: CodedRows) -> dict[str, NDArray[Any]]:
    """The elements of rows, ``[rows, elements]`` of every entry of :func:`row_elements`."""
    weight = {"weight": ELEMENTS[scheme.code].pack(rows.codes)}
    if not scheme.groups:
        return weight
    if scheme.bytes:
        return weight | {scheme.numbers: _unit_and_bytes(rows)}
    if scheme.columns > GROUP:
        return weight | {scheme.numbers: _two_levels(rows, scheme.columns // GROUP)}
    numbers = np.stack([rows.groups[name] for name in scheme.groups], axis=2)
    return weight | {scheme.numbers: numbers.reshape(len(numbers), -1)}


def _unit_and_bytes(rows: CodedRows) -> NDArray[np.uint32]:
    count, groups = rows.groups["scale"].shape
    bytes_ = np.zeros((count, scale_words(groups) * 4), np.uint8)
    bytes_[:, :4] = np.ascontiguousarray(rows.groups["unit"]).view(np.uint8)
    bytes_[:, 4 : 4 + groups] = rows.groups["scale"].view(np.uint8)
    return bytes_.view(np.uint32)


def _two_levels(rows: CodedRows, each: int) -> NDArray[np.uint32]:
    count = len(rows.codes)
    shifts = np.arange(each, dtype=np.uint32) * np.uint32(4)

    def word(fours: NDArray[np.uint8]) -> NDArray[np.uint32]:
        placed = fours.reshape(count, -1, each).astype(np.uint32) << shifts
        words: NDArray[np.uint32] = np.bitwise_or.reduce(placed, axis=2)
        return words

    scale, minimum = rows.groups["scale"], rows.groups["min"]
    d, dmin = (rows.groups[name].view(np.uint16).astype(np.uint32) for name in ("d", "dmin"))
    high = (scale >> np.uint8(4)) | ((minimum >> np.uint8(4)) << np.uint8(2))
    low = word(scale & np.uint8(15)), word(minimum & np.uint8(15))
    found = np.stack([*low, word(high), d | (dmin << np.uint32(16))], axis=2)
    return found.reshape(count, -1)


def unpacked_rows(scheme: Scheme, elements: Mapping[str, NDArray[Any]]) -> CodedRows:
    """The rows that :func:`packed_rows` made these elements of."""
    codes = ELEMENTS[scheme.code].unpack(elements["weight"])
    if not scheme.groups:
        return CodedRows(codes, {})
    numbers = elements[scheme.numbers]
    if scheme.bytes:
        scale = np.ascontiguousarray(numbers[:, 1:]).view(np.int8)[:, : codes.shape[1] // GROUP]
        return CodedRows(codes, {"scale": scale, "unit": numbers[:, :1].view(np.float32)})
    if scheme.columns > GROUP:
        return CodedRows(codes, _from_two_levels(numbers, scheme.columns // GROUP))
    each = numbers.reshape(len(numbers), -1, len(scheme.groups))
    return CodedRows(codes, {name: each[:, :, i] for i, name in enumerate(scheme.groups)})


def _from_two_levels(words: NDArray[np.uint32], each: int) -> dict[str, NDArray[Any]]:
    count = len(words)
    shifts = np.arange(each, dtype=np.uint32) * np.uint32(4)
    low, minimum, high, floats = np.split(words.reshape(count, -1, 4), 4, axis=2)

    def fours(word: NDArray[np.uint32]) -> NDArray[np.uint8]:
        codes = ((word >> shifts) & np.uint32(15)).astype(np.uint8)
        return codes.reshape(count, -1)

    def half(shift: int) -> NDArray[np.float16]:
        bits: NDArray[np.uint16] = (floats[:, :, 0] >> np.uint32(shift)).astype(np.uint16)
        return bits.view(np.float16)

    rest = fours(high)
    return {
        "scale": fours(low) | ((rest & np.uint8(3)) << np.uint8(4)),
        "min": fours(minimum) | ((rest >> np.uint8(2)) << np.uint8(4)),
        "d": half(0),
        "dmin": half(16),
    }
