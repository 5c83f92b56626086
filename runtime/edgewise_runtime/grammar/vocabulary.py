"""The bytes of a model's tokens, as a trie that masks are made by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from edgewise_runtime.errors import InputError

Integers = npt.NDArray[np.int32]

_MAX_NODES = 1 << 24
"""Nodes of a trie at most; 150,000 tokens have about 400,000."""


@dataclass(frozen=True)
class Trie:
    """Beginnings of tokens, without the empty one: first all of one byte, then those of two, …

    Attributes:
        top: how many have one byte.
        bytes: uint8 [nodes]: the last byte of each.
        first, count: int32 [nodes]: those with a byte more, one after the other.
    """

    top: int
    bytes: npt.NDArray[np.uint8]
    first: Integers
    count: Integers


class Vocabulary:
    """The tokens of a model by the bytes that they stand for, made once per tokenizer.

    A token is None that no text is made of: one that controls, or an id that pads. So is what has
    no bytes: a constraint never allows either.

    Attributes:
        size: how many tokens there are.
        longest: bytes of the longest one.
        trie: what they begin with.
        tokens, nodes: int32: those that have bytes, and the node of the trie that each is.
    """

    def __init__(self, tokens: Sequence[bytes | None]) -> None:
        """Raises InputError ``constraint.too_large`` for more bytes than any vocabulary has."""
        self._tokens = tuple(tokens)
        self.size = len(self._tokens)
        order = [token for token, text in enumerate(self._tokens) if text]
        order.sort(key=lambda token: self._tokens[token] or b"")
        self.tokens: Integers = np.array(order, np.int32)
        texts = [self._tokens[token] or b"" for token in order]
        self.longest = max(map(len, texts), default=0)
        self.trie, self.nodes = _trie_of(texts, self.longest)

    def bytes_of(self, token: int) -> bytes | None:
        """The bytes of a token; None where it has none, or is none of the vocabulary."""
        return self._tokens[token] if 0 <= token < self.size else None


def _trie_of(texts: Sequence[bytes], longest: int) -> tuple[Trie, Integers]:
    """The trie of sorted texts, level by level, and the node of each of them."""
    data = np.frombuffer(b"".join(texts), np.uint8)
    lengths = np.array([len(text) for text in texts], np.int64)
    begins = np.cumsum(lengths) - lengths
    node_of = np.full(len(texts), -1, np.int64)  # of each text, so far as the levels have come
    active = np.arange(len(texts))
    levels: list[npt.NDArray[np.uint8]] = []
    parents: list[npt.NDArray[Any]] = []
    nodes = 0
    for depth in range(longest):
        active = active[lengths[active] > depth]
        last, above = data[begins[active] + depth], node_of[active]
        new = np.ones(len(active), bool)
        new[1:] = (last[1:] != last[:-1]) | (above[1:] != above[:-1])
        levels.append(last[new])
        parents.append(above[new])
        node_of[active] = nodes - 1 + np.cumsum(new)
        nodes += int(new.sum())
        if nodes > _MAX_NODES:
            raise InputError(
                f"The tokens of a vocabulary have more than {_MAX_NODES:,} different beginnings.",
                code="constraint.too_large",
            )
    whole = np.concatenate(levels) if levels else np.zeros(0, np.uint8)
    below = np.concatenate(parents[1:]) if levels[1:] else np.zeros(0, np.int64)
    top = len(levels[0]) if levels else 0
    count = np.bincount(below, minlength=nodes)
    first = top + np.cumsum(count) - count
    trie = Trie(top, whole, first.astype(np.int32), count.astype(np.int32))
    return trie, node_of.astype(np.int32)
