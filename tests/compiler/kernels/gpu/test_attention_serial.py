"""Attention without barriers against a float64 reference; decode gives the bits of prefill."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from edgewise_compiler.kernels.gpu.attention.serial import attention_serial
from tests.compiler.kernels.attention_cases import (
    BOUNDS,
    Part,
    reference,
    same_bits,
    sinks_of,
    spoils,
    story,
    whole,
    with_nan,
    without_later_tokens,
)
from tests.compiler.kernels.gpu.test_attention import (
    CONTEXT,
    GROUPED,
    HISTORIES,
    TOLERANCE,
    buffers_of,
    spec_of,
    split_rows,
    with_sinks,
)
from tests.compiler.kernels.paged import Array, Heads
from tests.gpu import run

pytestmark = pytest.mark.sampled(one_in=20, covering=False)

SHAPES = [
    (GROUPED, "float32"),
    (GROUPED, "float16"),
    (GROUPED, "float16x2"),
    (GROUPED, "int8"),
    (Heads(3, 1, 80), "int8"),
    (Heads(3, 1, 80), "float32"),
    (Heads(3, 1, 80), "float16x2"),
    (Heads(7, 1, 128), "float32"),
    (Heads(9, 1, 256), "float32"),
    (Heads(3, 1, 512), "float16x2"),
]


def attend(parts: Sequence[Part], *, seed: int = 0) -> list[Array]:
    """Attention of every part's rows; all memory that may not be read is NaN."""
    inputs, step, out = buffers_of(parts, seed, CONTEXT, None)
    row_seq = np.zeros(BOUNDS.rows, np.int32)
    owners = np.repeat(np.arange(len(parts), dtype=np.int32), [part.rows for part in parts])
    row_seq[: len(owners)] = owners
    kernel = attention_serial(spec_of(parts[0]))
    buffers = [*inputs, row_seq, *sinks_of(parts[0].story), out, step]
    *_, out, _ = run(kernel, buffers, n=len(owners))
    return split_rows(out, parts)


@pytest.mark.parametrize(("heads", "kv_dtype"), SHAPES, ids=str)
def test_single_rows_and_chunks_match_the_reference(heads: Heads, kv_dtype: str) -> None:
    single = [Part(story(heads, h + 1, kv_dtype), h, 1) for h in HISTORIES]
    chunks = [
        Part(story(heads, h + n, kv_dtype), h, n) for h, n in ((0, 1), (50, 31), (128, 17), (15, 3))
    ]
    for parts in (single[:4], single[4:], chunks):
        for part, output in zip(parts, attend(parts), strict=True):
            np.testing.assert_allclose(output, reference(part), rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("kv_dtype", ["float32", "float16x2", "int8"])
def test_a_row_has_the_same_bits_in_a_chunk_alone_and_in_any_company(kv_dtype: str) -> None:
    sequence = story(GROUPED, 70, kv_dtype)
    (expected,) = attend([whole(sequence)])
    for history in (0, 15, 16, 40, 69):
        other = Part(story(GROUPED, 33, kv_dtype, seed=1), 32, 1)
        alone = Part(sequence, history, 1)
        same_bits(attend([other, alone], seed=history)[1][0], expected[history])
        same_bits(attend([without_later_tokens(alone, np.nan)])[0][0], expected[history])


@pytest.mark.parametrize("kv_dtype", ["float32", "float16x2", "int8"])
@pytest.mark.parametrize("what", ["keys", "values"])
def test_what_is_not_finite_spoils_every_row_that_sees_it(what: str, kv_dtype: str) -> None:
    part = Part(with_nan(story(GROUPED, 70, kv_dtype), what, 40), 30, 40)
    spoils(part, what, attend([part])[0], 40)


@pytest.mark.parametrize(("kv_dtype", "window"), [("float32", None), ("int8", 20)])
def test_sinks_take_part_once_in_chunks_and_alone(kv_dtype: str, window: int | None) -> None:
    sequence = with_sinks(150, kv_dtype, window)
    (rows,) = attend([whole(sequence)])
    np.testing.assert_allclose(rows, reference(whole(sequence)), rtol=0, atol=TOLERANCE)
    for history in (0, 15, 16, 64, 149):
        same_bits(attend([Part(sequence, history, 1)])[0][0], rows[history])


def test_stopped_sequences_are_left_alone() -> None:
    going, stopped = (Part(story(GROUPED, 20, "float32"), 19, 1, stop) for stop in (0, 1))
    written, left = attend([going, stopped])
    assert np.isfinite(written).all()
    assert np.isnan(left).all()
