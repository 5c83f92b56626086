"""The table by which SentencePiece replaces characters, checked before anything walks it.

A `Precompiled` normalizer carries it as base64: the size of a double-array trie, the trie's units
(uint32, little-endian), and the replacements, each ended by a zero byte. A unit has a label in its
low 8 bits, whether a key ends there in bit 8, and where its children lie from bit 9 on; the value
of a key, in a unit of its own, is where its replacement begins. The tokenizers package reserves
what the size asks for, and reads wherever units point to.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_MOST = 8 << 20
_LONGEST_KEY = 255
_NODES = 1 << 12
"""Nodes whose 255 possible children are looked at together."""

_Units = NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class Charsmap:
    """What a table does to a text's length.

    Attributes:
        growth: bytes that a byte becomes at most.
        longest_key: bytes that a replacement takes the place of at most.
        removes: some key is replaced by nothing.
    """

    growth: int
    longest_key: int
    removes: bool


def read_charsmap(encoded: str) -> Charsmap:
    """Check a table. Raises ValueError, in words, for one that is damaged."""
    if len(encoded) > _MOST:
        raise ValueError(f"its charsmap has {len(encoded)} characters; at most {_MOST} are read")
    raw = base64.b64decode(encoded, validate=True)
    size = int.from_bytes(raw[:4], "little")
    if size % 4 or not 0 < size <= len(raw) - 4:
        raise ValueError(f"its charsmap of {len(raw)} bytes states a trie of {size}")
    units = np.frombuffer(raw, "<u4", size // 4, 4)
    texts = raw[4 + size :]
    texts.decode("utf-8")
    growth, removes = 1, False
    levels = _levels(units)
    for depth, (nodes, bases) in enumerate(levels, 1):
        ends = bases[(units[nodes] >> 8) & 1 == 1]
        if len(ends):
            longest, shortest = _lengths(texts, units[ends] & 0x7FFFFFFF)
            growth, removes = max(growth, -(-longest // depth)), removes or shortest == 0
    return Charsmap(growth, max(len(levels), 1), removes)


def _levels(units: _Units) -> list[tuple[_Units, _Units]]:
    """The nodes of each depth from 1 on, and where their children begin."""
    levels: list[tuple[_Units, _Units]] = []
    left = len(units)
    bases = _bases(units, np.zeros(1, np.uint32))
    while len(bases):
        parts = [_children(units, bases[i : i + _NODES]) for i in range(0, len(bases), _NODES)]
        nodes = np.concatenate(parts)
        left -= len(nodes)
        if left < 0 or len(levels) > _LONGEST_KEY:
            raise ValueError("its charsmap's trie is no tree")
        bases = _bases(units, nodes)
        if len(nodes):
            levels.append((nodes, bases))
    return levels


def _bases(units: _Units, nodes: _Units) -> _Units:
    values = units[nodes]
    bases = nodes ^ ((values >> 10) << ((values & 512) >> 6))
    if len(bases) and int(bases.max()) | 255 >= len(units):
        raise ValueError("its charsmap's trie points beyond its end")
    return bases.astype(np.uint32)


def _children(units: _Units, bases: _Units) -> _Units:
    labels = np.arange(1, 256, dtype=np.uint32)
    places = bases[:, None] ^ labels
    found: _Units = places[(units[places] & np.uint32(0x800000FF)) == labels]
    return found


def _lengths(texts: bytes, starts: _Units) -> tuple[int, int]:
    """Bytes of the longest and the shortest replacement that begin at these places."""
    data = np.frombuffer(texts, np.uint8)
    if int(starts.max()) >= len(data) or np.any(data[starts] & 0xC0 == 0x80):
        raise ValueError("its charsmap's replacements begin where there are none")
    ends = np.append(np.flatnonzero(data == 0), len(data))
    lengths = ends[np.searchsorted(ends, starts)] - starts
    return int(lengths.max()), int(lengths.min())
