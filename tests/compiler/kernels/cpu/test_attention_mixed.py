"""Rows that decode beside chunks of prompts: whose they are, and that nothing shows it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from edgewise_runtime.format.manifest_reader import STATE_DTYPES
from tests.compiler.kernels.attention_cases import (
    Part,
    chunks,
    decode,
    prefill,
    same_bits,
    story,
)
from tests.compiler.kernels.paged import Array, Heads

pytestmark = pytest.mark.sampled(one_in=3)

HEADS = Heads(8, 2, 64)
SHAPES = [(0, 1), (61, 40), (199, 1), (63, 1)]
"""History and rows: three that decode, the first of them at its first token, around a chunk."""


def parts_of(kv_dtype: str) -> list[Part]:
    return [Part(story(HEADS, h + n, kv_dtype), h, n) for h, n in SHAPES]


@pytest.mark.parametrize("kernel", [decode, chunks])
def test_either_kernel_writes_the_rows_that_are_its_own(
    kernel: Callable[..., list[Array]], isa: str
) -> None:
    parts = [*parts_of("float16")[1:], Part(story(HEADS, 30), 29, 1, stop=1)]
    found = kernel(parts, isa)
    written = [not np.isnan(rows).any() for rows in found]
    untouched = [bool(np.isnan(rows).all()) for rows in found]
    single = [part.rows == 1 and not part.stop for part in parts]
    several = [part.rows > 1 for part in parts]
    assert written == (single if kernel is decode else several)
    assert untouched == [not done for done in written]


@pytest.mark.parametrize("kv_dtype", STATE_DTYPES)
def test_a_row_beside_a_chunk_is_that_of_a_decode_step(kv_dtype: str, isa: str) -> None:
    parts = parts_of(kv_dtype)
    first, chunk, *others = prefill(parts, isa, seed=1)
    same_bits(chunk, chunks([parts[1]], isa)[0])
    for row, expected in zip([first, *others], decode([parts[0], *parts[2:]], isa), strict=True):
        same_bits(row, expected)
