"""What tokens begin with, level by level: all beginnings of one byte, of two, …"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Indices = npt.NDArray[np.intp]

_NONE: Indices = np.zeros(0, np.intp)


@dataclass(frozen=True)
class Level:
    """Beginnings of a number of bytes, in the order of their bytes.

    Attributes:
        bytes: uint8 [nodes]: the last byte of each.
        parents: intp [nodes]: of each the one without that byte, in the level before.
        first, count: intp [nodes]: those with a byte more, one after the other in the next level.
        tokens, nodes: intp: tokens of so many bytes, and which of the level each is, in order.
    """

    bytes: npt.NDArray[np.uint8]
    parents: Indices
    first: Indices
    count: Indices
    tokens: Indices
    nodes: Indices


@dataclass(frozen=True, eq=False)
class Trie:
    """Tokens by what they begin with.

    Attributes:
        longest: no token has more bytes.
        levels: beginnings of one byte, of two, …
        size: how many beginnings there are.
    """

    longest: int
    levels: tuple[Level, ...]
    size: int


def trie_of(texts: Sequence[tuple[bytes, int]], longest: int) -> Trie:
    """The trie of sorted texts, of which each is a token."""
    levels = tuple(_levels(texts))
    return Trie(longest, levels, sum(len(level.bytes) for level in levels))


def below(level: Level, nodes: Indices) -> Indices:
    """The nodes of the next level that are below some of a level."""
    return _spread(level.first[nodes], level.count[nodes])


def rest_of(trie: Trie, tops: Mapping[int, Indices]) -> Trie:
    """The tokens that begin with some nodes only.

    Args:
        tops: the nodes, by the number of their level, in order.
    """
    within: list[Indices] = []  # of each level, those that are one of them or below one
    last = max(tops)
    for number in range(len(trie.levels)):
        found = below(trie.levels[number - 1], within[-1]) if within else _NONE
        if number in tops:
            found = np.union1d(found, tops[number])
        if number > last and not len(found):
            break
        within.append(found)
    kept = list(within)
    for number in reversed(range(1, len(kept))):
        above = np.unique(trie.levels[number].parents[kept[number]])
        kept[number - 1] = np.union1d(kept[number - 1], above)
    levels: list[Level] = []
    for number, nodes in enumerate(kept):
        level = trie.levels[number]
        starts = np.searchsorted(level.nodes, within[number], "left")
        ends = np.searchsorted(level.nodes, within[number], "right")
        tokens = _spread(starts, ends - starts)
        parents = level.parents[nodes]
        levels.append(
            _level(
                level.bytes[nodes],
                np.searchsorted(kept[number - 1], parents) if number else parents,
                trie.levels[number + 1].parents[kept[number + 1]]
                if number + 1 < len(kept)
                else _NONE,
                level.tokens[tokens],
                np.searchsorted(nodes, level.nodes[tokens]),
                nodes,
            )
        )
    return Trie(trie.longest, tuple(levels), sum(map(len, kept)))


def _levels(texts: Sequence[tuple[bytes, int]]) -> Iterator[Level]:
    data = np.frombuffer(b"".join(text for text, _ in texts), np.uint8)
    tokens = np.array([token for _, token in texts], np.intp)
    lengths = np.array([len(text) for text, _ in texts], np.intp)
    begins = np.cumsum(lengths) - lengths
    active = np.arange(len(texts))
    node_of = np.zeros(len(texts), np.intp)  # of each text, in the level that has been reached
    level = _different(data[begins], node_of) if texts else None
    depth = 0
    while level is not None:
        last, parents, node_of = level
        depth += 1
        ending = lengths[active] == depth
        done, done_nodes = tokens[active[ending]], node_of[ending]
        active, node_of = active[~ending], node_of[~ending]
        level = _different(data[begins[active] + depth], node_of) if len(active) else None
        yield _level(last, parents, level[1] if level else _NONE, done, done_nodes)


def _level(
    last: npt.NDArray[np.uint8],
    parents: Indices,
    next_parents: Indices,
    tokens: Indices,
    nodes: Indices,
    names: Indices | None = None,
) -> Level:
    """A level; `next_parents` are by `names`, the numbers of nodes where they are not in a row."""
    if names is not None:
        next_parents = np.searchsorted(names, next_parents)
    count = np.bincount(next_parents, minlength=len(last)).astype(np.intp)
    return Level(last, parents, np.cumsum(count) - count, count, tokens, nodes)


def _different(
    last: npt.NDArray[np.uint8], above: Indices
) -> tuple[npt.NDArray[np.uint8], Indices, Indices]:
    """Different pairs of a last byte and what is above it, one after the other: both, and which of
    them each text is."""
    new: npt.NDArray[Any] = np.ones(len(last), bool)
    new[1:] = (last[1:] != last[:-1]) | (above[1:] != above[:-1])
    return last[new], above[new], np.cumsum(new) - 1


def _spread(starts: Indices, counts: Indices) -> Indices:
    """So many numbers from each start on, one after the other."""
    first = starts - (np.cumsum(counts) - counts)
    return np.repeat(first, counts) + np.arange(counts.sum())
