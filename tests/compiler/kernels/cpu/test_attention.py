"""Attention against a float64 reference: ragged batches, page and segment boundaries, extremes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from edgewise_compiler.kernels.attention import KNOWN, AttentionSpec, check_attention
from edgewise_compiler.kernels.cpu.attention.decode import attention_decode
from edgewise_compiler.kernels.cpu.attention.prefill import attention_prefill
from edgewise_runtime.errors import CompileError, UnsupportedError
from edgewise_runtime.format.manifest_reader import STATE_DTYPES
from tests.compiler.kernels.attention_cases import (
    BOUNDS,
    Part,
    decode,
    prefill,
    reference,
    same_bits,
    spoils,
    story,
    whole,
    with_nan,
    without_later_tokens,
)
from tests.compiler.kernels.conftest import RUNNABLE
from tests.compiler.kernels.paged import Array, Heads

pytestmark = pytest.mark.sampled(one_in=12)

# Scores are sums of up to 256 float32 products of numbers near 1: errors of some 1e-6, which exp
# passes on to the weights; the weighted values, near 1 and at most about 5, average them.
TOLERANCE = 1e-5

GROUPED = Heads(8, 2, 64)
SHAPES = [
    GROUPED,
    Heads(2, 2, 32),
    Heads(3, 1, 80),
    Heads(7, 1, 128),
    Heads(16, 1, 16),
    Heads(4, 2, 96),
    Heads(3, 1, 512),
    Heads(2, 1, 256),
]
LONGEST = BOUNDS.pages * 16


def near(parts: list[Part], outputs: list[Array]) -> None:
    for part, output in zip(parts, outputs, strict=True):
        np.testing.assert_allclose(output, reference(part), rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("kv_dtype", STATE_DTYPES)
@pytest.mark.parametrize("heads", SHAPES, ids=str)
def test_prefill_of_history_and_chunk_matches_the_reference(heads: Heads, kv_dtype: str) -> None:
    shapes = [(0, 1), (50, 31), (128, 17), (15, 3)]
    parts = [Part(story(heads, h + n, kv_dtype), h, n) for h, n in shapes]
    near(parts, prefill(parts, RUNNABLE[0]))


@pytest.mark.parametrize("kv_dtype", STATE_DTYPES)
@pytest.mark.parametrize("heads", SHAPES, ids=str)
def test_decode_matches_the_reference(heads: Heads, kv_dtype: str) -> None:
    for histories in ([0, 15, 16, 63], [64, 100, 127, LONGEST - 1]):
        parts = [Part(story(heads, h + 1, kv_dtype), h, 1) for h in histories]
        near(parts, decode(parts, RUNNABLE[0]))


@pytest.mark.parametrize("rows", [1, 2, 15, 16, 17, 63, 64, 65, BOUNDS.rows])
def test_prefill_of_any_length_matches_the_reference(rows: int) -> None:
    part = whole(story(GROUPED, rows))
    near([part], prefill([part], RUNNABLE[0]))


def random_parts(seed: int) -> list[Part]:
    rng = np.random.default_rng(seed)
    cuts = np.sort(rng.integers(0, BOUNDS.rows + 1, int(rng.integers(1, BOUNDS.batch + 1))))
    rows = [int(n) for n in np.diff(cuts, prepend=0)]
    histories = [int(rng.integers(0, LONGEST - n + 1)) for n in rows]
    return [
        Part(story(GROUPED, h + n, seed=seed), h, n) for h, n in zip(histories, rows, strict=True)
    ]


@pytest.mark.parametrize("seed", range(8))
def test_random_ragged_batches_match_the_reference(seed: int) -> None:
    parts = random_parts(seed)
    near(parts, prefill(parts, RUNNABLE[0], seed=seed))


@pytest.mark.full
@pytest.mark.parametrize("seed", range(8, 60))
def test_many_random_ragged_batches_match_the_reference(seed: int, isa: str) -> None:
    parts = random_parts(seed)
    near(parts, prefill(parts, isa, seed=seed))


@pytest.mark.full
def test_pages_beyond_two_billion_numbers_are_found(isa: str) -> None:
    """Offsets into the pool take 64 bits; of the 8 GiB of this pool hardly any are touched."""
    heads = Heads(2, 1, 64)
    spare = 2**31 // (2 * heads.kv * 16 * heads.dim)
    for kernel, part in (
        (prefill, Part(story(heads, 170), 40, 130)),
        (decode, Part(story(heads, 300), 299, 1)),
    ):
        # Half of the pages, more or less, lie where 32 bits with a sign do not reach.
        near([part], kernel([part], isa, spare=2 * spare))


def test_a_step_without_rows_writes_nothing(isa: str) -> None:
    nothing = Part(story(GROUPED, 40), 40, 0)
    assert [output.size for output in prefill([nothing, nothing], isa)] == [0, 0]


def test_stopped_sequences_are_left_alone(isa: str) -> None:
    running, stopped = story(GROUPED, 70), story(GROUPED, 30)
    for kernel, rows in ((prefill, 20), (decode, 1)):
        parts = [Part(stopped, 9, rows, stop=1), Part(running, 50, rows), Part(stopped, 3, rows, 2)]
        first, middle, last = kernel(parts, isa)
        assert np.isnan(first).all()
        assert np.isnan(last).all()
        near([parts[1]], [middle])


def test_the_first_token_attends_to_itself_alone(isa: str) -> None:
    """One key has weight exactly 1, so the output is the value."""
    part = Part(story(GROUPED, 1), 0, 1)
    values = np.repeat(part.story.values, 4, axis=1).astype("float32")
    for kernel in (prefill, decode):
        (output,) = kernel([part], isa)
        np.testing.assert_array_equal(output, values)


@pytest.mark.parametrize("kv_dtype", STATE_DTYPES)
@pytest.mark.parametrize("poison", [np.nan, np.inf])
def test_later_tokens_of_a_chunk_do_not_leak_into_earlier_rows(
    poison: float, kv_dtype: str, isa: str
) -> None:
    part = Part(story(GROUPED, 60, kv_dtype), 3, 40)
    (clean,) = prefill([part], isa)
    (poisoned,) = prefill([without_later_tokens(part, poison)], isa)
    same_bits(poisoned[0], clean[0])


@pytest.mark.parametrize("kv_dtype", STATE_DTYPES)
@pytest.mark.parametrize("what", ["keys", "values"])
@pytest.mark.parametrize("token", [0, 70, 129])
def test_what_is_not_finite_spoils_every_row_that_sees_it(
    token: int, what: str, kv_dtype: str, isa: str
) -> None:
    sequence = with_nan(story(GROUPED, 130, kv_dtype), what, token)
    for kernel, part in ((prefill, Part(sequence, 3, 127)), (decode, Part(sequence, 129, 1))):
        spoils(part, what, kernel([part], isa)[0], token)


def test_scores_beyond_the_range_of_exp_pick_the_largest(isa: str) -> None:
    sequence = story(GROUPED, 100)
    loud = replace(sequence, queries=sequence.queries * np.float32(1e4))
    part = whole(loud)
    (rows,) = prefill([part], isa)
    # Weights are 0 or 1 but for near ties, which float32 scores of 1e4 cannot tell apart.
    close = np.isclose(rows, reference(part), atol=0.1).all(axis=2)
    assert close.mean() > 0.99
    assert np.isfinite(rows).all()


def test_equal_keys_give_the_mean_of_the_values(isa: str) -> None:
    sequence = story(GROUPED, 130)
    even = replace(sequence, keys=np.ones_like(sequence.keys))
    near([whole(even)], prefill([whole(even)], isa))


@pytest.mark.parametrize("kernel", [attention_decode, attention_prefill])
@pytest.mark.parametrize(
    ("shape", "kv_dtype", "named"),
    [
        ((3, 2, 64), "float16", "3 query"),
        ((2, 1, 40), "float16", "40"),
        ((2, 1, 64), "int4", "int4"),
    ],
)
def test_what_attention_is_not_written_for_is_refused(
    kernel: object, shape: tuple[int, int, int], kv_dtype: str, named: str
) -> None:
    with pytest.raises(CompileError, match=named):
        kernel(AttentionSpec(1, 1, 16, *shape, kv_dtype, 1.0), "portable")


@pytest.mark.parametrize(("trait", "value"), [("window", 8), ("softcap", 5.0), ("sinks", True)])
def test_a_kernel_without_a_trait_refuses_it_by_name(trait: str, value: float) -> None:
    spec = replace(AttentionSpec(1, 1, 16, 2, 1, 64, "float16", 1.0), **{trait: value})
    others = tuple(name for name in KNOWN if name != trait)
    assert check_attention(spec, KNOWN) == 2
    with pytest.raises(UnsupportedError, match=f"{trait} {value}"):
        check_attention(spec, others)
