"""A row's attention is the same to the bit however it is computed."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from edgewise_compiler.kernels.attention import AttentionSpec
from edgewise_compiler.kernels.cpu.attention.decode import ROUND, part_elements
from edgewise_compiler.kernels.numbers import SEGMENT
from edgewise_runtime.format.abi import PAGE_TOKENS
from edgewise_runtime.format.manifest_reader import STATE_DTYPES
from tests.compiler.kernels.attention_cases import (
    BOUNDS,
    Part,
    Story,
    decode,
    decode_rows,
    prefill,
    same_bits,
    story,
    whole,
)
from tests.compiler.kernels.conftest import RUNNABLE
from tests.compiler.kernels.paged import Array, Bounds, Heads

pytestmark = pytest.mark.sampled(one_in=6)

HEADS = Heads(8, 2, 64)
ODD = Heads(3, 1, 80)  # groups and vectors that do not fill the blocks in registers
TOKENS = 150


def in_chunks(sequence: Story, lengths: list[int], isa: str) -> Array:
    """Attention of a whole sequence whose prompt comes in chunks of these lengths, one a step."""
    starts = [0, *itertools.accumulate(lengths)]
    parts = [Part(sequence, start, n) for start, n in zip(starts, lengths, strict=False)]
    return np.concatenate([prefill([part], isa)[0] for part in parts])


@pytest.mark.parametrize("kv_dtype", STATE_DTYPES)
@pytest.mark.parametrize("heads", [HEADS, ODD], ids=str)
def test_decode_equals_prefill(heads: Heads, kv_dtype: str, isa: str) -> None:
    sequence = story(heads, TOKENS, kv_dtype)
    (rows,) = prefill([whole(sequence)], isa)
    positions = [0, 1, 15, 16, 17, 47, 62, 63, 64, 65, 79, 126, 127, 128, 149]
    same_bits(decode_rows(sequence, positions, isa), rows[positions])


@pytest.mark.parametrize(
    "lengths",
    [
        pytest.param([16] * 9 + [6], id="pages"),
        pytest.param([64, 64, 22], id="segments"),
        pytest.param([1, 62, 1, 1, 13, 72], id="around a segment boundary"),
        pytest.param([7] * 21 + [3], id="sevens"),
        pytest.param([149, 1], id="all but one"),
    ],
)
@pytest.mark.parametrize("kv_dtype", ["float16", "int8"])
def test_chunked_equals_whole(lengths: list[int], kv_dtype: str, isa: str) -> None:
    sequence = story(HEADS, TOKENS, kv_dtype)
    (rows,) = prefill([whole(sequence)], isa)
    same_bits(in_chunks(sequence, lengths, isa), rows)


def test_prefill_in_a_batch_equals_alone(isa: str) -> None:
    shapes = [(0, 37), (61, 5), (120, 70), (16, 16)]
    parts = [Part(story(HEADS, h + n), h, n) for h, n in shapes]
    together = prefill(parts, isa, seed=1)
    for part, rows in zip(parts, together, strict=True):
        same_bits(rows, prefill([part], isa, seed=2)[0])


def test_decode_in_a_batch_equals_alone(isa: str) -> None:
    """Enough segments that the batch merges in parallel, and a lone row does not."""
    parts = [Part(story(HEADS, h + 1), h, 1) for h in (335, 320, 257, 300)]
    together = decode(parts, isa, seed=1)
    for part, rows in zip(parts, together, strict=True):
        same_bits(rows, decode([part], isa, seed=2)[0])


@pytest.mark.parametrize(
    "tokens",
    [
        pytest.param([3 * ROUND * SEGMENT + 1], id="three rounds and a token"),
        pytest.param([ROUND * SEGMENT, 5], id="exactly a round"),
        pytest.param([70, (ROUND - 2) * SEGMENT, 900], id="up to the end of a round"),
        pytest.param([40, ROUND * SEGMENT, 2 * ROUND * SEGMENT, 1], id="over the ends of two"),
    ],
)
def test_decode_in_rounds_equals_prefill(tokens: list[int]) -> None:
    """More segments than are kept at a time; prefill of two rows merges one after the other."""
    isa, small = RUNNABLE[0], Heads(2, 1, 16)
    bounds = Bounds(rows=16, batch=8, pages=-(-max(tokens) // PAGE_TOKENS))
    parts = [Part(story(small, count), count - 1, 1) for count in tokens]
    parts.insert(1, Part(story(small, 70), 69, 1, stop=1))
    pairs = [replace(part, history=part.history - 1, rows=2) for part in parts if part.history]
    rows = decode(parts, isa, bounds=bounds)
    expected = iter(prefill(pairs, isa, bounds=bounds))
    for part, a in zip(parts, rows, strict=True):
        if part.history:
            same_bits(a, next(expected)[1:])
        assert np.isfinite(a).all() == (not part.stop)


def test_partial_results_are_as_large_for_any_context_and_batch() -> None:
    """What they took was the product of both: 19 GB for 256 sequences of 128k tokens."""
    sizes = {
        part_elements(AttentionSpec(batch, batch, context, 32, 8, 128, "float16", 1.0))
        for batch, context in ((8, 4096), (256, 131072), (32, 1 << 20))
    }
    assert sizes == {(ROUND + 2) * 32 * (128 + 16)}


def test_a_stopped_neighbour_changes_nothing(isa: str) -> None:
    parts = [Part(story(HEADS, 90), 89, 1), Part(story(HEADS, 70), 69, 1)]
    first, last = decode(parts, isa)
    stopped = [parts[0], Part(story(HEADS, 40), 39, 1, stop=1), parts[1]]
    with_stopped = decode(stopped, isa)
    same_bits(with_stopped[0], first)
    same_bits(with_stopped[2], last)


@pytest.mark.quick(cases=1)
@pytest.mark.parametrize("kv_dtype", STATE_DTYPES)
@pytest.mark.parametrize("heads", [HEADS, ODD], ids=str)
def test_all_isas_give_the_same_bits(heads: Heads, kv_dtype: str) -> None:
    parts = [Part(story(heads, h + n, kv_dtype), h, n) for h, n in ((0, 70), (130, 20), (63, 1))]
    tokens = [
        Part(story(heads, h + 1, kv_dtype), h, 1) for h in (0, 64, 200, BOUNDS.pages * 16 - 1)
    ]
    best, *others = RUNNABLE
    expected = [*prefill(parts, best), *decode(tokens, best)]
    for isa in others:
        for a, b in zip(expected, [*prefill(parts, isa), *decode(tokens, isa)], strict=True):
            same_bits(a, b)
