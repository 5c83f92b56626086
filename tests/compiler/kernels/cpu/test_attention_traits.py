"""Windows and softcaps: the numbers of float64, and decode's bits wherever a chunk was cut."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.compiler.kernels.attention_cases import (
    Part,
    Story,
    chunks,
    decode_rows,
    reference,
    same_bits,
    story,
    whole,
)
from tests.compiler.kernels.paged import Heads

HEADS = Heads(query=4, kv=2, dim=32)
TOKENS = 150
TRAITS = [(1, None), (20, None), (64, None), (100, 8.0), (None, 5.0)]
IDS = ["one token", "within a segment", "a segment", "capped, too", "capped"]


def traits(window: int | None, softcap: float | None, kv_dtype: str = "float32") -> Story:
    return replace(story(HEADS, TOKENS, kv_dtype), window=window, softcap=softcap)


@pytest.mark.parametrize(("window", "softcap"), TRAITS, ids=IDS)
def test_rows_are_those_of_float64(window: int | None, softcap: float | None) -> None:
    sequence = traits(window, softcap)
    (rows,) = chunks([whole(sequence)], "avx2")
    np.testing.assert_allclose(rows, reference(whole(sequence)), rtol=0, atol=2e-6)


@pytest.mark.parametrize("kv_dtype", ["float32", "int8"])
@pytest.mark.parametrize(("window", "softcap"), TRAITS, ids=IDS)
def test_decode_and_chunks_give_the_same_bits(
    window: int | None, softcap: float | None, kv_dtype: str
) -> None:
    sequence = traits(window, softcap, kv_dtype)
    (rows,) = chunks([whole(sequence)], "avx2")
    positions = [0, 15, 16, 19, 20, 36, 63, 64, 65, 83, 84, 127, 128, 149]
    same_bits(decode_rows(sequence, positions, "avx2"), rows[positions])
    (later,) = chunks([Part(sequence, 37, TOKENS - 37)], "avx2")
    same_bits(later, rows[37:])


@pytest.mark.parametrize("kv_dtype", ["float32", "int8"])
def test_pages_behind_a_window_may_hold_anything(kv_dtype: str) -> None:
    """They were given back, and another sequence has written there."""
    sequence = traits(20, None, kv_dtype)
    behind = replace(sequence, keys=sequence.keys.copy(), values=sequence.values.copy())
    behind.keys[:112] = behind.values[:112] = np.nan
    (rows,) = chunks([Part(sequence, 140, 10)], "avx2")
    (hidden,) = chunks([Part(behind, 140, 10)], "avx2")
    same_bits(hidden, rows)
    same_bits(decode_rows(behind, [140, 149], "avx2"), decode_rows(sequence, [140, 149], "avx2"))
