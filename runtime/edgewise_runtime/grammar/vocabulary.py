"""The bytes of a model's tokens, as tries that masks are made by."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from edgewise_runtime.errors import InputError

Indices = npt.NDArray[np.intp]

_MAX_NODES = 1 << 24
"""Nodes of all tries at most; 150,000 tokens have about 700,000."""
_LONGEST = (8, 32)
"""Bytes of the longest tokens of a trie, but for that of all longer ones."""


@dataclass(frozen=True)
class Level:
    """Beginnings of a number of bytes, in the order of their bytes.

    Attributes:
        bytes: uint8 [nodes]: the last byte of each.
        parents: intp [nodes]: of each the one without that byte, in the level before.
        first, count: intp [nodes]: those with a byte more, one after the other in the next level.
        tokens, nodes: intp: tokens of so many bytes, and which of the level each is.
    """

    bytes: npt.NDArray[np.uint8]
    parents: Indices
    first: Indices
    count: Indices
    tokens: Indices
    nodes: Indices


@dataclass(frozen=True)
class Trie:
    """Tokens by what they begin with.

    Attributes:
        longest: no token has more bytes.
        levels: beginnings of one byte, of two, …
    """

    longest: int
    levels: tuple[Level, ...]


class Vocabulary:
    """The tokens of a model by the bytes that they stand for, made once per tokenizer.

    A token is None that no text is made of: one that controls, or an id that pads. So is what has
    no bytes: a grammar never allows either.

    Attributes:
        size: how many tokens there are.
        tries: of short tokens, of longer ones, …: the masks of short tokens are the same in more
            places, since no limit that is further away than a token is long matters.
        silent: bool [size]: tokens without bytes.
    """

    def __init__(self, tokens: Sequence[bytes | None]) -> None:
        """Raises InputError ``constraint.too_large`` for more bytes than any vocabulary has."""
        self._tokens = tuple(tokens)
        self.size = len(self._tokens)
        self.silent = np.array([not data for data in self._tokens], bool)
        self.silent.flags.writeable = False
        texts = [(data, token) for token, data in enumerate(self._tokens) if data]
        texts.sort()
        longest = max((len(data) for data, _ in texts), default=0)
        tries: list[Trie] = []
        nodes = above = 0
        for most in (*(length for length in _LONGEST if length < longest), longest):
            found: list[Level] = []
            for level in _levels([pair for pair in texts if above < len(pair[0]) <= most]):
                found.append(level)
                nodes += len(level.bytes)
                if nodes > _MAX_NODES:
                    raise InputError(
                        "The tokens of a vocabulary have more than "
                        f"{_MAX_NODES:,} different beginnings.",
                        code="constraint.too_large",
                    )
            tries.append(Trie(most, tuple(found)))
            above = most
        self.tries = tuple(tries)

    def bytes_of(self, token: int) -> bytes | None:
        """The bytes of a token; None where it has none, or is none of the vocabulary."""
        return self._tokens[token] if 0 <= token < self.size else None


def _levels(texts: Sequence[tuple[bytes, int]]) -> Iterator[Level]:
    """The trie of sorted texts, of which each is a token."""
    data = np.frombuffer(b"".join(text for text, _ in texts), np.uint8)
    tokens = np.array([token for _, token in texts], np.intp)
    lengths = np.array([len(text) for text, _ in texts], np.intp)
    begins = np.cumsum(lengths) - lengths
    active = np.arange(len(texts))
    node_of = np.zeros(len(texts), np.intp)  # of each text, in the level that has been reached
    level = _level_of(data[begins], node_of) if texts else None
    depth = 0
    while level is not None:
        last, parents, node_of = level
        depth += 1
        ending = lengths[active] == depth
        done, done_nodes = tokens[active[ending]], node_of[ending]
        active, node_of = active[~ending], node_of[~ending]
        level = _level_of(data[begins[active] + depth], node_of) if len(active) else None
        count = np.bincount(level[1] if level else [], minlength=len(last)).astype(np.intp)
        yield Level(last, parents, np.cumsum(count) - count, count, done, done_nodes)


def _level_of(
    last: npt.NDArray[np.uint8], above: Indices
) -> tuple[npt.NDArray[np.uint8], Indices, Indices]:
    """Different pairs of a last byte and what is above it, one after the other: both, and which of
    them each text is."""
    new: npt.NDArray[Any] = np.ones(len(last), bool)
    new[1:] = (last[1:] != last[:-1]) | (above[1:] != above[:-1])
    return last[new], above[new], np.cumsum(new) - 1
