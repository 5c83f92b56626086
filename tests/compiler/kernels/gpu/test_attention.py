"""GPU attention against a float64 reference, and a row's bits in whatever company it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from edgewise_compiler.kernels.attention import AttentionSpec
from edgewise_compiler.kernels.gpu.attention.decode import (
    NEAR_TOKENS,
    attention_decode,
    attention_near,
)
from edgewise_compiler.kernels.gpu.attention.merge import attention_merge, part_elements
from edgewise_compiler.kernels.gpu.attention.prefill import attention_prefill
from edgewise_compiler.kernels.gpu.attention.shares import (
    PART_BYTES,
    Share,
    all_together,
    in_turn,
)
from edgewise_compiler.kernels.gpu.attention.shares import whole as whole_of
from edgewise_compiler.kernels.gpu.thread import Launch
from edgewise_compiler.kernels.numbers import LONG_SEGMENTS, SEGMENT
from edgewise_compiler.targets.webgpu.limits import LIMITS
from edgewise_runtime.errors import CompileError
from edgewise_runtime.format.abi import PAGE_TOKENS
from tests.compiler.kernels.attention_cases import (
    BOUNDS,
    Part,
    Story,
    reference,
    same_bits,
    sinks_of,
    spoils,
    story,
    whole,
    with_nan,
    without_later_tokens,
)
from tests.compiler.kernels.cpu.test_attention import random_parts
from tests.compiler.kernels.paged import (
    Array,
    Bounds,
    Heads,
    Rows,
    batch_of,
    poisoned_pool,
    shuffled_pages,
    write_tokens,
)
from tests.gpu import run

pytestmark = pytest.mark.sampled(one_in=16, covering=False)

# Scores are sums of up to 256 float32 products of numbers near 1: errors of some 1e-6, which exp
# passes on to the weights; the weighted values, near 1 and at most about 5, average them. Keys and
# values are exact in either dtype of the pages, so both have the same bound.
TOLERANCE = 1e-5

CONTEXT = BOUNDS.pages * 16
GROUPED = Heads(8, 2, 64)
ODD = Heads(3, 1, 80)  # a head's vectors do not fill the threads
SHAPES = [
    (GROUPED, "float16"),
    (GROUPED, "float32"),
    (GROUPED, "float16x2"),
    (GROUPED, "int8"),
    (ODD, "float16"),
    (ODD, "float16x2"),
    (ODD, "float32"),
    (ODD, "int8"),
    (Heads(2, 2, 32), "float16"),
    (Heads(7, 1, 128), "int8"),
    (Heads(16, 1, 16), "float16"),
    (Heads(4, 1, 128), "float16"),
    (Heads(4, 2, 96), "float32"),
    (Heads(9, 1, 256), "float32"),
    (Heads(3, 1, 512), "float32"),
    pytest.param(Heads(3, 1, 512), "int8", marks=pytest.mark.full),
    pytest.param(Heads(7, 1, 128), "float16", marks=pytest.mark.full),
    pytest.param(Heads(16, 1, 16), "int8", marks=pytest.mark.full),
    pytest.param(Heads(9, 1, 256), "int8", marks=pytest.mark.full),
    pytest.param(Heads(9, 1, 256), "float16x2", marks=pytest.mark.full),
    pytest.param(Heads(16, 1, 16), "float16x2", marks=pytest.mark.full),
]
HISTORIES = [0, 1, 15, 16, 63, 64, 65, CONTEXT - 1]  # tokens in the pages before a row

in_segments = pytest.mark.parametrize("segment", [SEGMENT, *LONG_SEGMENTS])


Kernel = Callable[..., list[Array]]


def spec_of(part: Part, bounds: Bounds = BOUNDS, segment: int = SEGMENT) -> AttentionSpec:
    """What a kernel for this part is made for."""
    heads, kv_dtype = part.story.heads, part.story.kv_dtype
    steps = (bounds.rows, bounds.batch, bounds.pages * PAGE_TOKENS)
    shape = (heads.query, heads.kv, heads.dim)
    traits = part.story.window, part.story.softcap, part.story.sinks is not None
    return AttentionSpec(*steps, *shape, kv_dtype, float(heads.dim**-0.5), *traits, segment)


KERNELS = [
    partial(attention_decode, limits=LIMITS),
    partial(attention_near, limits=LIMITS),
    partial(attention_prefill, limits=LIMITS),
    attention_merge,
]


def buffers_of(
    parts: Sequence[Part], seed: int, reach: int, live: int | None, bounds: Bounds = BOUNDS
) -> tuple[list[Array], Array, Array]:
    """[qkv, the pages' buffers, table], step and out: NaN where nothing is written or read."""
    heads = parts[0].story.heads
    rows = [Rows(part.history, part.rows, part.stop) for part in parts]
    page_ids, pool = shuffled_pages(rows, np.random.default_rng(seed))
    batch = batch_of(rows, bounds, page_ids)
    batch.step[3] = reach
    if live is not None:
        batch.step[:3] = live
    kv = poisoned_pool(pool, heads, parts[0].story.kv_dtype)
    qkv = np.full((BOUNDS.rows, heads.query + 2 * heads.kv, heads.dim), np.nan, "float32")
    first = 0
    for part, ids in zip(parts, page_ids, strict=True):
        end = part.history + part.rows
        write_tokens(kv, ids, part.story.keys[:end], part.story.values[:end])
        qkv[first : first + part.rows, : heads.query] = part.story.queries[part.history : end]
        first += part.rows
    out = np.full((BOUNDS.rows, heads.query, heads.dim), np.nan, "float32")
    return [qkv, *kv, batch.table], batch.step, out


def split_rows(out: Array, parts: Sequence[Part]) -> list[Array]:
    """Rows [rows, query heads, dim] of each part."""
    *rows, rest = np.split(out, np.cumsum([part.rows for part in parts]))
    assert np.isnan(rest).all(), "rows beyond the step were written"
    return rows


def decode(
    parts: Sequence[Part],
    *,
    seed: int = 0,
    live: int | None = None,
    reach: int | None = None,
    bounds: Bounds = BOUNDS,
    shares: Sequence[Share] = (),
    segment: int = SEGMENT,
) -> list[Array]:
    """Attention of the only row of every part, out of a grid for sequences of ``reach`` tokens."""
    reach = max(part.history + 1 for part in parts) if reach is None else reach
    inputs, step, out = buffers_of(parts, seed, reach, live, bounds)
    spec = spec_of(parts[0], bounds, segment)
    symbols = {"n": len(parts), "b": len(parts), "r": len(parts), "t": reach}
    for share in shares or in_turn(spec):
        segments = np.full(part_elements(spec, share), np.nan, "float32")
        launch = attention_decode(spec, LIMITS, share)
        *_, segments, _ = run(launch, [*inputs, segments, step], **symbols)
        launch = attention_merge(spec, share)
        sinks = sinks_of(parts[0].story)
        *_, out, _ = run(launch, [segments, inputs[-1], *sinks, out, step], **symbols)
    return split_rows(out, parts)


def near(
    parts: Sequence[Part], *, seed: int = 0, live: int | None = None, segment: int = SEGMENT
) -> list[Array]:
    """The same in one launch, for sequences of few keys."""
    inputs, step, out = buffers_of(parts, seed, NEAR_TOKENS, live)
    launch = attention_near(spec_of(parts[0], segment=segment), LIMITS)
    symbols = {"n": len(parts), "b": len(parts), "r": len(parts), "t": NEAR_TOKENS}
    *_, out, _ = run(launch, [*inputs, *sinks_of(parts[0].story), out, step], **symbols)
    return split_rows(out, parts)


def prefill(parts: Sequence[Part], *, seed: int = 0, live: int | None = None) -> list[Array]:
    """Attention of all rows of every part."""
    inputs, step, out = buffers_of(parts, seed, CONTEXT, live)
    launch = attention_prefill(spec_of(parts[0]), LIMITS)
    rows = sum(part.rows for part in parts)
    buffers = [*inputs, *sinks_of(parts[0].story), out, step]
    *_, out, _ = run(launch, buffers, n=rows, b=len(parts), r=1, t=CONTEXT)
    return split_rows(out, parts)


decode_long, near_long = (partial(kernel, segment=LONG_SEGMENTS[0]) for kernel in (decode, near))
EVERY = [decode, near, prefill, decode_long, near_long]


def agrees(parts: Sequence[Part], outputs: Sequence[Array]) -> None:
    for part, output in zip(parts, outputs, strict=True):
        np.testing.assert_allclose(output, reference(part), rtol=0, atol=TOLERANCE)


@in_segments
@pytest.mark.parametrize(("heads", "kv_dtype"), SHAPES, ids=str)
def test_decode_matches_the_reference(heads: Heads, kv_dtype: str, segment: int) -> None:
    parts = [Part(story(heads, h + 1, kv_dtype), h, 1) for h in HISTORIES]
    for batch in (parts[:4], parts[4:]):
        agrees(batch, decode(batch, segment=segment))


@pytest.mark.landing
@in_segments
@pytest.mark.parametrize("kv_dtype", ["float16", "float32", "int8"])
@pytest.mark.parametrize(
    ("window", "softcap"),
    [(1, None), (20, None), (64, None), (100, 8.0), (None, 5.0)],
    ids=["one token", "within a segment", "a segment", "capped, too", "capped"],
)
def test_windows_and_softcaps_match_the_reference(
    window: int | None, softcap: float | None, kv_dtype: str, segment: int
) -> None:
    def part(history: int, rows: int) -> Part:
        told = replace(story(GROUPED, history + rows, kv_dtype), window=window, softcap=softcap)
        return Part(told, history, rows)

    rows = [part(history, 1) for history in (0, 19, 20, 84)]
    merged = decode(rows, segment=segment)
    agrees(rows, merged)
    for one, other in zip(near(rows, segment=segment), merged, strict=True):
        same_bits(one, other)
    chunks = [part(0, 30), part(50, 31), part(128, 17)]
    agrees(chunks, prefill(chunks))


@pytest.mark.landing
@in_segments
@pytest.mark.parametrize("kv_dtype", ["float16", "float32", "int8"])
def test_pages_behind_a_window_may_hold_anything(kv_dtype: str, segment: int) -> None:
    """They were given back, and another sequence has written there."""
    told = replace(story(GROUPED, 150, kv_dtype), window=20)
    behind = replace(told, keys=told.keys.copy(), values=told.values.copy())
    behind.keys[:112] = behind.values[:112] = np.nan
    row, hidden = Part(told, 149, 1), Part(behind, 149, 1)
    same_bits(decode([hidden], segment=segment)[0], decode([row], segment=segment)[0])
    chunk, hidden = Part(told, 140, 10), Part(behind, 140, 10)
    same_bits(prefill([hidden])[0], prefill([chunk])[0])


def with_sinks(tokens: int, kv_dtype: str, window: int | None = None) -> Story:
    """A story whose heads have sinks from far below its scores to far above them."""
    sinks = np.linspace(-4, 24, GROUPED.query, dtype="float32")
    return replace(story(GROUPED, tokens, kv_dtype), sinks=sinks, window=window)


@pytest.mark.landing
@in_segments
@pytest.mark.parametrize(("kv_dtype", "window"), [("float32", None), ("int8", 20)])
def test_sinks_take_part_once_whatever_the_number_of_segments(
    kv_dtype: str, window: int | None, segment: int
) -> None:
    sequence = with_sinks(CONTEXT, kv_dtype, window)
    parts = [Part(sequence, h, 1) for h in (0, 15, 64, NEAR_TOKENS - 1, NEAR_TOKENS, CONTEXT - 1)]
    merged, others = (decode(batch, segment=segment) for batch in (parts[:4], parts[4:]))
    agrees(parts, [*merged, *others])
    for one, other in zip(near(parts[:4], segment=segment), merged, strict=True):
        same_bits(one, other)
    chunk = Part(sequence, 50, 100)
    (rows,) = prefill([chunk])
    agrees([chunk], [rows])
    (later,) = prefill([Part(sequence, 77, 73)])
    same_bits(later, rows[27:])


@pytest.mark.landing
@pytest.mark.parametrize("live", [1, 2, 3, 4])
def test_shares_of_the_sequences_give_the_bits_of_all_together(live: int) -> None:
    """Partial results of long contexts are kept for some of the sequences at a time."""
    heads, long = Heads(32, 8, 64), replace(BOUNDS, pages=2000)
    histories = ((70, 0), (5, 1), (99, 0), (64, 0))
    parts = [Part(story(heads, h + 1), h, 1, stop) for h, stop in histories[:live]]
    spec = spec_of(parts[0], long)
    assert [(share.first, share.count) for share in in_turn(spec)] == [(0, 2), (2, 2)]
    assert all_together(spec).reach == 481 * SEGMENT < spec.context
    expected = decode(parts)
    for shares in (in_turn(spec), [all_together(spec)], in_turn(spec)[: 1 if live <= 2 else None]):
        for a, b in zip(decode(parts, bounds=long, shares=shares), expected, strict=True):
            same_bits(a, b)


def test_partial_results_of_a_gpu_stay_small() -> None:
    """Whatever the bounds: 16 MiB, or what one sequence takes where that is more."""
    for batch, context in ((8, 4096), (8, 40960), (8, 131072), (256, 131072)):
        spec = AttentionSpec(512, batch, context, 16, 8, 128, "float16", 1.0)
        alone = 4 * part_elements(spec, replace(whole_of(spec), count=1))
        for share in (all_together(spec), *in_turn(spec)):
            assert 4 * part_elements(spec, share) <= max(PART_BYTES, alone)


@pytest.mark.landing
@in_segments
@pytest.mark.parametrize(("heads", "kv_dtype"), SHAPES, ids=str)
def test_few_segments_are_joined_in_one_launch_for_the_same_bits(
    heads: Heads, kv_dtype: str, segment: int
) -> None:
    histories = [*HISTORIES[:-1], 127, 128, 191, 192, NEAR_TOKENS - 1]
    parts = [Part(story(heads, h + 1, kv_dtype), h, 1) for h in histories]
    for batch in (parts[:4], parts[4:8], parts[8:]):
        merged = decode(batch, segment=segment)
        for one, other in zip(near(batch, segment=segment), merged, strict=True):
            same_bits(one, other)


@pytest.mark.parametrize(("heads", "kv_dtype"), SHAPES, ids=str)
def test_prefill_of_history_and_chunk_matches_the_reference(heads: Heads, kv_dtype: str) -> None:
    shapes = [(0, 1), (50, 31), (128, 17), (15, 3)]
    parts = [Part(story(heads, h + n, kv_dtype), h, n) for h, n in shapes]
    agrees(parts, prefill(parts))


@pytest.mark.parametrize("rows", [2, 15, 16, 31, 32, 33, 63, 64, 65, BOUNDS.rows])
def test_prefill_of_any_length_matches_the_reference(rows: int) -> None:
    part = whole(story(GROUPED, rows))
    agrees([part], prefill([part]))


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(i, marks=pytest.mark.full) for i in range(2, 40))]
)
def test_random_ragged_batches_match_the_reference(seed: int) -> None:
    parts = random_parts(seed)
    agrees(parts, prefill(parts, seed=seed))
    rows = [Part(part.story, part.history + part.rows - 1, 1) for part in parts if part.rows]
    if rows:
        agrees(rows, decode(rows, seed=seed))


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
def test_chunked_equals_whole(lengths: list[int], kv_dtype: str) -> None:
    sequence = story(ODD, 150, kv_dtype)
    (rows,) = prefill([whole(sequence)])
    starts = np.cumsum([0, *lengths])
    parts = [Part(sequence, int(start), n) for start, n in zip(starts, lengths, strict=False)]
    batches = [parts[i : i + BOUNDS.batch] for i in range(0, len(parts), BOUNDS.batch)]
    chunks = [chunk for batch in batches for chunk in prefill(batch)]
    same_bits(np.concatenate(chunks), rows)


@pytest.mark.parametrize(("heads", "kv_dtype"), [*SHAPES[:1], *SHAPES[2:4], SHAPES[5]], ids=str)
def test_prefill_in_a_batch_equals_alone(heads: Heads, kv_dtype: str) -> None:
    shapes = [(0, 37), (61, 5), (120, 70), (16, 16)]
    parts = [Part(story(heads, h + n, kv_dtype), h, n) for h, n in shapes]
    together = prefill(parts, seed=1)
    for part, rows in zip(parts, together, strict=True):
        same_bits(rows, prefill([part], seed=2)[0])


@in_segments
@pytest.mark.parametrize(("heads", "kv_dtype"), [*SHAPES[:1], *SHAPES[2:4], SHAPES[5]], ids=str)
def test_decode_in_a_batch_equals_alone_whatever_the_grid(
    heads: Heads, kv_dtype: str, segment: int
) -> None:
    parts = [Part(story(heads, h + 1, kv_dtype), h, 1) for h in (335, 63, 0, 300)]
    together = decode(parts, seed=1, segment=segment)
    for part, rows in zip(parts, together, strict=True):
        same_bits(rows, decode([part], seed=2, segment=segment)[0])
        same_bits(rows, decode([part], seed=3, reach=CONTEXT, segment=segment)[0])


@pytest.mark.parametrize("kernel", EVERY)
def test_stopped_sequences_are_left_alone_and_change_nothing(kernel: Kernel) -> None:
    running, stopped = story(GROUPED, 70), story(GROUPED, 30)
    rows = 20 if kernel is prefill else 1
    alone = Part(running, 50, rows)
    parts = [Part(stopped, 9, rows, stop=1), alone, Part(stopped, 3, rows, stop=2)]
    first, middle, last = kernel(parts)
    assert np.isnan(first).all()
    assert np.isnan(last).all()
    same_bits(middle, kernel([alone])[0])


@pytest.mark.parametrize("kernel", EVERY)
def test_a_step_without_sequences_writes_nothing(kernel: Kernel) -> None:
    parts = [Part(story(GROUPED, 70), 50, 1), Part(story(GROUPED, 30), 3, 1)]
    assert all(np.isnan(rows).all() for rows in kernel(parts, live=0))


def test_sequences_without_rows_are_passed_over() -> None:
    nothing, part = Part(story(GROUPED, 40), 40, 0), Part(story(GROUPED, 60), 20, 40)
    parts = [nothing, part, nothing, part]
    agrees(parts, prefill(parts))


@pytest.mark.parametrize("kernel", [decode, prefill])
def test_the_first_token_attends_to_itself_alone(kernel: Kernel) -> None:
    part = Part(story(GROUPED, 1), 0, 1)
    (output,) = kernel([part])
    # exp2(0), which need not be 1, and the division take an ulp each.
    values = np.repeat(part.story.values, 4, axis=1)
    np.testing.assert_allclose(output, values, rtol=4e-7)


@pytest.mark.parametrize("kv_dtype", ["float16", "float16x2", "int8"])
@pytest.mark.parametrize("poison", [np.nan, np.inf])
def test_later_tokens_of_a_chunk_do_not_leak_into_earlier_rows(
    poison: float, kv_dtype: str
) -> None:
    part = Part(story(GROUPED, 120, kv_dtype), 3, 110)
    (clean,) = prefill([part])
    (poisoned,) = prefill([without_later_tokens(part, poison)])
    same_bits(poisoned[0], clean[0])


@pytest.mark.parametrize("kv_dtype", ["float16", "float16x2", "int8"])
@pytest.mark.parametrize("what", ["keys", "values"])
@pytest.mark.parametrize(
    ("kernel", "tokens"),
    [
        (decode, 130),
        (near, 60),
        (prefill, 130),
        (decode_long, 320),
        (near_long, 250),
    ],
)
def test_what_is_not_finite_spoils_every_row_that_sees_it(
    kernel: Kernel, tokens: int, what: str, kv_dtype: str
) -> None:
    for token in (0, tokens - 60, tokens - 1):
        sequence = with_nan(story(GROUPED, tokens, kv_dtype), what, token)
        rows = tokens - 3 if kernel is prefill else 1
        part = Part(sequence, tokens - rows, rows)
        spoils(part, what, kernel([part])[0], token)


@pytest.mark.parametrize("kernel", [decode, prefill])
def test_scores_beyond_the_range_of_exp_pick_the_largest(kernel: Kernel) -> None:
    sequence = story(GROUPED, 100)
    loud = replace(sequence, queries=sequence.queries * np.float32(1e4))
    part = Part(loud, 99, 1) if kernel is decode else whole(loud)
    (rows,) = kernel([part])
    # Weights are 0 or 1 but for near ties, which float32 scores of 1e4 cannot tell apart.
    close = np.isclose(rows, reference(part), atol=0.1).all(axis=2)
    assert close.mean() > 0.99
    assert np.isfinite(rows).all()


@pytest.mark.parametrize("make", KERNELS)
@pytest.mark.parametrize(
    ("shape", "kv_dtype", "named"),
    [
        ((3, 2, 64), "float16", "3 query"),
        ((2, 1, 40), "float16", "40"),
        ((2, 1, 64), "int4", "int4"),
    ],
)
def test_what_attention_is_not_written_for_is_refused(
    make: Callable[..., Launch], shape: tuple[int, int, int], kv_dtype: str, named: str
) -> None:
    with pytest.raises(CompileError, match=named):
        make(AttentionSpec(1, 1, 16, *shape, kv_dtype, 1.0))
