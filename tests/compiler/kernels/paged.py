"""Ragged batches over a pool of KV pages, and what rope and attention should make of them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from edgewise_compiler.kernels.attention.common import HEADER, PAGE
from tests.compiler.kernels.conftest import aligned, aligned_copy

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Heads:
    """Query heads, KV heads, head dimension."""

    query: int
    kv: int
    dim: int


@dataclass(frozen=True)
class Rows:
    """One sequence of a step: tokens in the pages before it, rows in it, whether it has stopped."""

    history: int
    rows: int
    stop: int = 0


@dataclass(frozen=True)
class Bounds:
    """What kernels are compiled for: rows, sequences, pages of a sequence."""

    rows: int
    batch: int
    pages: int


@dataclass(frozen=True)
class Batch:
    """The step buffers of a ragged batch; field names are those of the kernels' arguments."""

    table: Array
    positions: Array
    row_seq: Array
    step: Array


def batch_of(sequences: Sequence[Rows], bounds: Bounds, page_ids: Sequence[Sequence[int]]) -> Batch:
    """Step buffers for ``sequences``; unused rows, columns and fields hold implausible numbers."""
    table = np.full((bounds.batch, HEADER + bounds.pages), -(2**20), "int32")
    positions = np.full(bounds.rows, -(2**20), "int32")
    row_seq = np.full(bounds.rows, -(2**20), "int32")
    row = 0
    for i, (sequence, ids) in enumerate(zip(sequences, page_ids, strict=True)):
        table[i, :4] = sequence.history, row, sequence.rows, sequence.stop
        table[i, HEADER : HEADER + len(ids)] = ids
        positions[row : row + sequence.rows] = np.arange(sequence.rows) + sequence.history
        row_seq[row : row + sequence.rows] = i
        row += sequence.rows
    step = [row, len(sequences), len(sequences), 0, 0, 0, 0, 0]
    return Batch(
        *(aligned_copy(x) for x in (table, positions, row_seq, np.array(step, dtype="int32")))
    )


def shuffled_pages(
    sequences: Sequence[Rows], rng: np.random.Generator, *, spare: int = 3
) -> tuple[list[list[int]], int]:
    """Page ids for each sequence, in no order, and the size of the pool they are taken from."""
    needed = [-(-(s.history + s.rows) // PAGE) for s in sequences]
    pool = sum(needed) + spare
    ids = [int(i) for i in rng.permutation(pool)]
    return [[ids.pop() for _ in range(count)] for count in needed], pool


def poisoned_pool(pool: int, heads: Heads, dtype: str) -> Array:
    """Pages in which every number is NaN: memory that nothing may read before it is written.

    Only the first 1000: the rest of a huge pool stays zero, and so takes no memory.
    """
    pages = aligned((pool, 2, heads.kv, PAGE * heads.dim), dtype)
    pages[:1000] = np.nan
    return pages


def write_tokens(
    pages: Array, ids: Sequence[int], keys: Array, values: Array, *, first: int = 0
) -> None:
    """Puts keys and values [tokens, kv heads, dim] into pages, from position ``first`` on."""
    dim = keys.shape[2]
    for position, key, value in zip(itertools.count(first), keys, values, strict=False):
        page, slot = ids[position // PAGE], position % PAGE
        pages[page, 0].reshape(-1, dim, PAGE)[:, :, slot] = key
        pages[page, 1].reshape(-1, PAGE, dim)[:, slot] = value


def read_tokens(pages: Array, ids: Sequence[int], tokens: int, dim: int) -> tuple[Array, Array]:
    """Keys and values [tokens, kv heads, dim] out of pages."""
    chosen = pages[list(ids)]
    keys = chosen[:, 0].reshape(len(ids), -1, dim, PAGE).transpose(0, 3, 1, 2)
    values = chosen[:, 1].reshape(len(ids), -1, PAGE, dim).transpose(0, 2, 1, 3)
    shape = (-1, keys.shape[2], dim)
    return keys.reshape(shape)[:tokens], values.reshape(shape)[:tokens]
