"""Attention without barriers against a float64 reference; decode gives the bits of prefill."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from edgewise_compiler.kernels.attention.gpu_serial import gpu_attention_serial
from tests.compiler.kernels.attention_cases import (
    BOUNDS,
    Part,
    reference,
    same_bits,
    story,
    whole,
    without_later_tokens,
)
from tests.compiler.kernels.paged import (
    Array,
    Heads,
    Rows,
    batch_of,
    poisoned_pool,
    shuffled_pages,
    write_tokens,
)
from tests.gpu import run

# As for the other kernels: errors of some 1e-6 in scores near 1, averaged over the values.
TOLERANCE = 1e-5
CONTEXT = BOUNDS.pages * 16
GROUPED = Heads(8, 2, 64)
SHAPES = [
    (GROUPED, "float32"),
    (GROUPED, "float16"),
    (Heads(3, 1, 80), "float32"),
    (Heads(7, 1, 128), "float32"),
    (Heads(9, 1, 256), "float32"),
]
HISTORIES = [0, 1, 15, 16, 63, 64, 65, CONTEXT - 1]


def attend(parts: Sequence[Part], *, seed: int = 0) -> list[Array]:
    """Attention of every part's rows; all memory that may not be read is NaN."""
    heads, kv_dtype = parts[0].story.heads, str(parts[0].story.keys.dtype)
    rows = [Rows(part.history, part.rows, part.stop) for part in parts]
    page_ids, pool = shuffled_pages(rows, np.random.default_rng(seed))
    batch = batch_of(rows, BOUNDS, page_ids)
    kv = poisoned_pool(pool, heads, kv_dtype)
    qkv = np.full((BOUNDS.rows, heads.query + 2 * heads.kv, heads.dim), np.nan, "float32")
    row_seq = np.zeros(BOUNDS.rows, np.int32)
    first = 0
    for i, (part, ids) in enumerate(zip(parts, page_ids, strict=True)):
        end, last = part.history + part.rows, first + part.rows
        write_tokens(kv, ids, part.story.keys[:end], part.story.values[:end])
        qkv[first:last, : heads.query] = part.story.queries[part.history : end]
        row_seq[first:last] = i
        first = last
    out = np.full((BOUNDS.rows, heads.query, heads.dim), np.nan, "float32")
    bounds = (BOUNDS.rows, BOUNDS.batch, BOUNDS.pages)
    shape = (heads.query, heads.kv, heads.dim, CONTEXT)
    kernel = gpu_attention_serial(*bounds, *shape, kv_dtype, float(heads.dim**-0.5))
    *_, out, _ = run(kernel, [qkv, kv, batch.table, row_seq, out, batch.step], n=first)
    *split, rest = np.split(out, np.cumsum([part.rows for part in parts]))
    assert np.isnan(rest).all(), "rows beyond the step were written"
    return split


@pytest.mark.parametrize(("heads", "kv_dtype"), SHAPES, ids=str)
def test_single_rows_and_chunks_match_the_reference(heads: Heads, kv_dtype: str) -> None:
    single = [Part(story(heads, h + 1, kv_dtype), h, 1) for h in HISTORIES]
    chunks = [
        Part(story(heads, h + n, kv_dtype), h, n) for h, n in ((0, 1), (50, 31), (128, 17), (15, 3))
    ]
    for parts in (single[:4], single[4:], chunks):
        for part, output in zip(parts, attend(parts), strict=True):
            np.testing.assert_allclose(output, reference(part), rtol=0, atol=TOLERANCE)


def test_a_row_has_the_same_bits_in_a_chunk_alone_and_in_any_company() -> None:
    sequence = story(GROUPED, 70, "float32")
    (expected,) = attend([whole(sequence)])
    for history in (0, 15, 16, 40, 69):
        other = Part(story(GROUPED, 33, "float32", seed=1), 32, 1)
        alone = Part(sequence, history, 1)
        same_bits(attend([other, alone], seed=history)[1][0], expected[history])
        same_bits(attend([without_later_tokens(alone, np.nan)])[0][0], expected[history])


def test_stopped_sequences_are_left_alone() -> None:
    going, stopped = (Part(story(GROUPED, 20, "float32"), 19, 1, stop) for stop in (0, 1))
    written, left = attend([going, stopped])
    assert np.isfinite(written).all()
    assert np.isnan(left).all()
