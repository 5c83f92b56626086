"""GPU attention against a float64 reference, and a row's bits in whatever company it is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from edgewise_compiler.kernels.attention.gpu_decode import (
    gpu_attention_decode,
    gpu_attention_merge,
    part_elements,
)
from edgewise_compiler.kernels.attention.gpu_prefill import gpu_attention_prefill
from tests.compiler.kernels.attention_cases import BOUNDS, Part, reference, same_bits, story, whole
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

# Scores are sums of up to 256 float32 products of numbers near 1: errors of some 1e-6, which exp
# passes on to the weights; the weighted values, near 1 and at most about 5, average them. Keys and
# values are exact in either dtype of the pages, so both have the same bound.
TOLERANCE = 1e-5

CONTEXT = BOUNDS.pages * 16
GROUPED = Heads(8, 2, 64)
SHAPES = [
    GROUPED,
    Heads(2, 2, 32),
    Heads(3, 1, 80),
    Heads(7, 1, 128),
    Heads(17, 1, 16),
    Heads(4, 2, 96),
    Heads(9, 1, 256),
]
LENGTHS = [1, 2, 15, 16, 17, 63, 64, 65, 127, 128, 129, CONTEXT]


def _shape(part: Part) -> tuple[object, ...]:
    heads = part.story.heads
    return (
        *(BOUNDS.rows, BOUNDS.batch, BOUNDS.pages),
        *(heads.query, heads.kv, heads.dim, CONTEXT),
        *(str(part.story.keys.dtype), float(heads.dim**-0.5)),
    )


def _buffers(parts: Sequence[Part], seed: int, reach: int) -> tuple[list[Array], Array, Array]:
    """[qkv, pages, table], step and out, all NaN where nothing is written or none may read."""
    heads = parts[0].story.heads
    rows = [Rows(part.history, part.rows, part.stop) for part in parts]
    page_ids, pool = shuffled_pages(rows, np.random.default_rng(seed))
    batch = batch_of(rows, BOUNDS, page_ids)
    batch.step[3] = reach
    kv = poisoned_pool(pool, heads, str(parts[0].story.keys.dtype))
    qkv = np.full((BOUNDS.rows, heads.query + 2 * heads.kv, heads.dim), np.nan, "float32")
    first = 0
    for part, ids in zip(parts, page_ids, strict=True):
        end = part.history + part.rows
        write_tokens(kv, ids, part.story.keys[:end], part.story.values[:end])
        qkv[first : first + part.rows, : heads.query] = part.story.queries[part.history : end]
        first += part.rows
    out = np.full((BOUNDS.rows, heads.query, heads.dim), np.nan, "float32")
    return [qkv, kv, batch.table], batch.step, out


def _split(out: Array, parts: Sequence[Part]) -> list[Array]:
    """Rows [rows, query heads, dim] of each part."""
    *rows, rest = np.split(out, np.cumsum([part.rows for part in parts]))
    assert np.isnan(rest).all(), "rows beyond the step were written"
    return rows


def decode(parts: Sequence[Part], *, seed: int = 0, reach: int | None = None) -> list[Array]:
    """Attention of the only row of every part, out of a grid for sequences of ``reach`` tokens."""
    reach = max(part.history + 1 for part in parts) if reach is None else reach
    inputs, step, out = _buffers(parts, seed, reach)
    heads, shape = parts[0].story.heads, _shape(parts[0])
    elements = part_elements(BOUNDS.batch, heads.query, CONTEXT, heads.dim)
    partial = np.full(elements, np.nan, "float32")
    symbols = {"n": len(parts), "b": len(parts), "r": len(parts), "t": reach}
    launch = gpu_attention_decode(*shape, subgroups=False)
    *_, partial, _ = run(launch, [*inputs, partial, step], **symbols)
    launch = gpu_attention_merge(*shape, subgroups=False)
    _, _, out, _ = run(launch, [partial, inputs[2], out, step], **symbols)
    return _split(out, parts)


def prefill(parts: Sequence[Part], *, seed: int = 0) -> list[Array]:
    """Attention of all rows of every part."""
    inputs, step, out = _buffers(parts, seed, CONTEXT)
    launch = gpu_attention_prefill(*_shape(parts[0]), subgroups=False)
    rows = sum(part.rows for part in parts)
    *_, out, _ = run(launch, [*inputs, out, step], n=rows, b=len(parts), r=1, t=CONTEXT)
    return _split(out, parts)


def near(parts: Sequence[Part], outputs: Sequence[Array]) -> None:
    for part, output in zip(parts, outputs, strict=True):
        np.testing.assert_allclose(output, reference(part), rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("kv_dtype", ["float16", "float32"])
@pytest.mark.parametrize("heads", SHAPES, ids=str)
def test_decode_matches_the_reference(heads: Heads, kv_dtype: str) -> None:
    for lengths in (LENGTHS[:4], LENGTHS[4:8], LENGTHS[8:]):
        parts = [Part(story(heads, n, kv_dtype), n - 1, 1) for n in lengths]
        near(parts, decode(parts))


def test_decode_in_a_batch_equals_alone_whatever_the_grid() -> None:
    parts = [Part(story(GROUPED, h + 1), h, 1) for h in (335, 63, 0, 300)]
    together = decode(parts, seed=1)
    for part, rows in zip(parts, together, strict=True):
        same_bits(rows, decode([part], seed=2)[0])
        same_bits(rows, decode([part], seed=3, reach=CONTEXT)[0])


@pytest.mark.parametrize("kv_dtype", ["float16", "float32"])
@pytest.mark.parametrize("heads", SHAPES, ids=str)
def test_prefill_of_history_and_chunk_matches_the_reference(heads: Heads, kv_dtype: str) -> None:
    shapes = [(0, 1), (50, 31), (128, 17), (15, 3)]
    parts = [Part(story(heads, h + n, kv_dtype), h, n) for h, n in shapes]
    near(parts, prefill(parts))


@pytest.mark.parametrize("rows", [1, 31, 32, 33, 63, 64, 65, BOUNDS.rows])
def test_prefill_of_any_length_matches_the_reference(rows: int) -> None:
    part = whole(story(GROUPED, rows))
    near([part], prefill([part]))
