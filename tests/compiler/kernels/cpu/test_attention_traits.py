"""Windows, softcaps and sinks: float64's numbers, and decode's bits wherever chunks are cut."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

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
SINKS = np.array([-2.0, 0.0, 1.5, 30.0], "float32")
"""Less than most scores, about as large, and more than all of them."""
TRAITS: dict[str, dict[str, Any]] = {
    "one token": {"window": 1},
    "within a segment": {"window": 20},
    "a segment": {"window": 64},
    "capped, too": {"window": 100, "softcap": 8.0},
    "capped": {"softcap": 5.0},
    "sinks": {"sinks": SINKS},
    "sinks and a window": {"sinks": SINKS, "window": 20},
}


def traits(which: str, kv_dtype: str = "float32") -> Story:
    return replace(story(HEADS, TOKENS, kv_dtype), **TRAITS[which])


@pytest.mark.quick(cases=3)
@pytest.mark.parametrize("which", TRAITS)
def test_rows_are_those_of_float64(which: str) -> None:
    sequence = traits(which)
    (rows,) = chunks([whole(sequence)], "avx2")
    np.testing.assert_allclose(rows, reference(whole(sequence)), rtol=0, atol=2e-6)


@pytest.mark.quick(cases=3)
@pytest.mark.parametrize("kv_dtype", ["float32", "int8"])
@pytest.mark.parametrize("which", TRAITS)
def test_decode_and_chunks_give_the_same_bits(which: str, kv_dtype: str) -> None:
    sequence = traits(which, kv_dtype)
    (rows,) = chunks([whole(sequence)], "avx2")
    positions = [0, 15, 16, 19, 20, 36, 63, 64, 65, 83, 84, 127, 128, 149]
    same_bits(decode_rows(sequence, positions, "avx2"), rows[positions])
    (later,) = chunks([Part(sequence, 37, TOKENS - 37)], "avx2")
    same_bits(later, rows[37:])


@pytest.mark.parametrize("kv_dtype", ["float32", "int8"])
def test_pages_behind_a_window_may_hold_anything(kv_dtype: str) -> None:
    """They were given back, and another sequence has written there."""
    sequence = traits("within a segment", kv_dtype)
    behind = replace(sequence, keys=sequence.keys.copy(), values=sequence.values.copy())
    behind.keys[:112] = behind.values[:112] = np.nan
    (rows,) = chunks([Part(sequence, 140, 10)], "avx2")
    (hidden,) = chunks([Part(behind, 140, 10)], "avx2")
    same_bits(hidden, rows)
    same_bits(decode_rows(behind, [140, 149], "avx2"), decode_rows(sequence, [140, 149], "avx2"))
