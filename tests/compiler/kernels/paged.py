"""Ragged batches over a pool of KV pages, and what rope and attention should make of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from edgewise_runtime.engine.step_buffers import step_array
from edgewise_runtime.format.abi import PAGE_TOKENS, TABLE_HEADER
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
    table = np.full((bounds.batch, TABLE_HEADER + bounds.pages), -(2**20), "int32")
    positions = np.full(bounds.rows, -(2**20), "int32")
    row_seq = np.full(bounds.rows, -(2**20), "int32")
    row = 0
    for i, (sequence, ids) in enumerate(zip(sequences, page_ids, strict=True)):
        table[i, :4] = sequence.history, row, sequence.rows, sequence.stop
        table[i, TABLE_HEADER : TABLE_HEADER + len(ids)] = ids
        positions[row : row + sequence.rows] = np.arange(sequence.rows) + sequence.history
        row_seq[row : row + sequence.rows] = i
        row += sequence.rows
    step = step_array(row, len(sequences), len(sequences), 0)
    return Batch(*(aligned_copy(x) for x in (table, positions, row_seq, step)))


def shuffled_pages(
    sequences: Sequence[Rows], rng: np.random.Generator, *, spare: int = 3
) -> tuple[list[list[int]], int]:
    """Page ids for each sequence, in no order, and the size of the pool they are taken from."""
    needed = [-(-(s.history + s.rows) // PAGE_TOKENS) for s in sequences]
    pool = sum(needed) + spare
    ids = [int(i) for i in rng.permutation(pool)]
    return [[ids.pop() for _ in range(count)] for count in needed], pool


def poisoned_pool(pool: int, heads: Heads, dtype: str) -> list[Array]:
    """Pages in which every number is NaN: memory that nothing may read before it is written.

    Only the first 1000: the rest of a huge pool stays zero, and so takes no memory.

    Returns:
        A layer's buffers: the pages, of float16x2 in words (uint32), and for int8 the scales of
        its codes (uint32).
    """
    if dtype == "float16x2":
        words = aligned((pool, 2, heads.kv, PAGE_TOKENS * heads.dim // 2), "uint32")
        words[:1000] = 0x7E007E00
        return [words]
    pages = aligned((pool, 2, heads.kv, PAGE_TOKENS * heads.dim), dtype)
    if dtype != "int8":
        pages[:1000] = np.nan
        return [pages]
    pages[:1000] = -128  # which no code is
    scales = aligned((pool, heads.kv, PAGE_TOKENS), "uint32")
    scales[:1000] = 0x7E007E00
    return [pages, scales]


def quantized(x: Array) -> tuple[Array, Array]:
    """Numbers [..., dim] as int8 codes, and their scales [...] in float16."""
    with np.errstate(invalid="ignore"):
        scales = (np.abs(x).max(-1) * np.float32(1 / 127)).astype("float16")
        wide = scales.astype("float32")
        inverse = np.divide(np.float32(1), wide, where=wide > 0, out=np.zeros_like(wide))
        codes = np.rint(x.astype("float64") * inverse[..., None].astype("float64"))
    return np.clip(np.nan_to_num(codes), -127, 127).astype("int8"), scales


def write_tokens(
    pool: Sequence[Array], ids: Sequence[int], keys: Array, values: Array, *, first: int = 0
) -> None:
    """Puts keys and values [tokens, kv heads, dim] into pages, from position ``first`` on."""
    pages, dim = _numbers(pool[0]), keys.shape[2]
    places = [(ids[p // PAGE_TOKENS], p % PAGE_TOKENS) for p in range(first, first + len(keys))]
    if len(pool) == 2:
        (keys, key_scales), (values, value_scales) = quantized(keys), quantized(values)
        words = key_scales.view("uint16") | value_scales.view("uint16").astype("uint32") << 16
        for (page, slot), word in zip(places, words, strict=True):
            pool[1][page, :, slot] = word
    packed = _packed(pool[0])
    for (page, slot), key, value in zip(places, keys, values, strict=True):
        _keys(pages[page], dim, packed)[:, slot] = key.reshape(len(key), -1, packed)
        pages[page, 1].reshape(-1, PAGE_TOKENS, dim)[:, slot] = value


def read_tokens(
    pool: Sequence[Array], ids: Sequence[int], tokens: int, dim: int
) -> tuple[Array, Array]:
    """Keys and values [tokens, kv heads, dim] out of pages, multiplied with their scales if any."""
    chosen = _numbers(pool[0][list(ids)])
    packed = _packed(pool[0])
    keys = np.stack([_keys(page, dim, packed).reshape(-1, PAGE_TOKENS, dim) for page in chosen])
    values = chosen[:, 1].reshape(len(ids), -1, PAGE_TOKENS, dim)
    found = []
    for half, numbers in enumerate((keys, values)):
        if len(pool) == 2:
            scales = pool[1][list(ids)].view("float16")[..., half::2].astype("float32")
            numbers = numbers * scales[..., None]
        numbers = numbers.transpose(0, 2, 1, 3)
        found.append(numbers.reshape(-1, numbers.shape[2], dim)[:tokens])
    return found[0], found[1]


def _numbers(pages: Array) -> Array:
    """A view of pages as numbers: words hold two float16."""
    return pages.view("float16") if pages.dtype == "uint32" else pages


def _packed(pages: Array) -> int:
    """How many numbers of a key lie beside each other."""
    return {"uint32": 2, "int8": 4}.get(str(pages.dtype), 1)


def _keys(page: Array, dim: int, packed: int) -> Array:
    """A view of a page's keys [kv heads, token, dim/packed, packed]."""
    return page[0].reshape(-1, dim // packed, PAGE_TOKENS, packed).transpose(0, 2, 1, 3)
