"""rope_append: rotation in place, per-head normalization and the pages' layout."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from edgewise_compiler.kernels.attention import RopeSpec
from edgewise_compiler.kernels.gpu.elementwise.rope import rope_append
from edgewise_compiler.kernels.gpu.thread import Launch
from edgewise_runtime.errors import CompileError
from tests import gpu
from tests import subgroups as emulated
from tests.compiler.kernels.cpu.test_rope import (
    BATCHES,
    BOUNDS,
    CONTEXT,
    EPS,
    RAGGED,
    SHAPES,
    Appended,
    apart,
    check,
    random_rows,
    rope_table,
    same_bits,
)
from tests.compiler.kernels.paged import (
    Array,
    Heads,
    Rows,
    batch_of,
    poisoned_pool,
    read_tokens,
    shuffled_pages,
    write_tokens,
)

pytestmark = pytest.mark.sampled(one_in=12, covering=False)

# Heads of 48 and 80 leave threads without a vector; 44 heads take several workgroups a row.
GPU_SHAPES = [*SHAPES, Heads(2, 1, 256), Heads(2, 1, 512), Heads(40, 2, 16), Heads(5, 1, 48)]


def kernel(
    heads: Heads, kv_dtype: str, *, norm: bool, subgroups: bool = False, own: bool = False
) -> Launch:
    spec = RopeSpec(
        *(BOUNDS.rows, BOUNDS.batch, CONTEXT),
        *(heads.query, heads.kv, heads.dim),
        kv_dtype,
        EPS if norm else None,
        apart=own,
    )
    return rope_append(spec, subgroups=subgroups)


class GpuAppended(Appended):
    """One call of the GPU kernel, maybe by subgroups of ``width`` threads; idle rows are NaN."""

    def __init__(
        self,
        sequences: list[Rows],
        heads: Heads,
        kv_dtype: str,
        *,
        norm: bool,
        subgroups: bool = False,
        width: int | None = None,
        qkv: Array | None = None,
        live: int | None = None,
        own: bool = False,
    ) -> None:
        self.heads, self.sequences = heads, sequences
        self.page_ids, pool = shuffled_pages(sequences, np.random.default_rng(7))
        self.batch = batch_of(sequences, BOUNDS, self.page_ids)
        self.rows = int(self.batch.step[0])
        self.qkv = random_rows(heads) if qkv is None else qkv.copy()
        self.qkv[self.rows :] = np.nan
        self.rope = apart(rope_table(heads.dim)) if own else rope_table(heads.dim)
        weights = np.random.default_rng(5).uniform(0.5, 1.5, (2, heads.dim)).astype("float32")
        self.norms = list(weights) if norm else []
        self.batch.step[0] = self.rows if live is None else live
        positions = [] if kv_dtype == "int8" else [self.batch.positions]
        inputs = [self.qkv, self.rope, *positions, self.batch.row_seq, self.batch.table]
        run = gpu.run if width is None else partial(emulated.run, width=width)
        after = run(
            kernel(heads, kv_dtype, norm=norm, subgroups=subgroups, own=own),
            [
                *inputs,
                *([weights] if norm else []),
                *poisoned_pool(pool, heads, kv_dtype),
                self.batch.step,
            ],
            # The grid of a step may have more rows than are live.
            n=BOUNDS.rows,
        )
        self.after, self.kv = after[0], after[-3:-1] if kv_dtype == "int8" else after[-2:-1]
        self.q = self.after[:, : heads.query * heads.dim]


@pytest.mark.parametrize("subgroups", [False, True], ids=["shared", "subgroups"])
@pytest.mark.parametrize("norm", [False, True], ids=["plain", "qk_norm"])
@pytest.mark.parametrize("heads", GPU_SHAPES, ids=str)
def test_rotates_queries_and_appends_keys_and_values(
    heads: Heads, norm: bool, subgroups: bool
) -> None:
    check(GpuAppended(RAGGED, heads, "float32", norm=norm, subgroups=subgroups))


def test_queries_may_turn_by_a_table_of_their_own() -> None:
    check(GpuAppended(RAGGED, Heads(4, 2, 64), "float32", norm=False, own=True))


@pytest.mark.parametrize("width", emulated.WIDTHS)
@pytest.mark.parametrize("heads", [Heads(2, 1, 256), Heads(3, 1, 80)], ids=str)
def test_subgroups_may_have_any_width(heads: Heads, width: int) -> None:
    check(GpuAppended(RAGGED, heads, "float32", norm=True, subgroups=True, width=width))


@pytest.mark.parametrize("batch", BATCHES)
def test_every_batch_lands_in_its_pages(batch: str) -> None:
    check(GpuAppended(BATCHES[batch], SHAPES[0], "float32", norm=True))


@pytest.mark.parametrize("norm", [False, True], ids=["plain", "qk_norm"])
def test_keys_and_values_in_the_projection_stay_as_they_are(norm: bool) -> None:
    done = GpuAppended(RAGGED, SHAPES[1], "float32", norm=norm)
    first = SHAPES[1].query * SHAPES[1].dim
    same_bits(done.after[:, first:], done.qkv[:, first:])


def test_half_precision_pages_hold_the_nearest_float16() -> None:
    exact = GpuAppended(RAGGED, SHAPES[3], "float32", norm=True)
    rounded = GpuAppended(RAGGED, SHAPES[3], "float16", norm=True)
    np.testing.assert_array_equal(rounded.kv[0], exact.kv[0].astype("float16"))
    same_bits(rounded.q, exact.q)


def test_words_hold_the_nearest_float16_whatever_the_device_rounds_by() -> None:
    heads = SHAPES[3]
    exact = GpuAppended(RAGGED, heads, "float32", norm=True)
    words = GpuAppended(RAGGED, heads, "float16x2", norm=True)
    same_bits(words.after, exact.after)
    expected = poisoned_pool(len(words.kv[0]), heads, "float16x2")
    for sequence, ids in zip(RAGGED, words.page_ids, strict=True):
        end, first = sequence.history + sequence.rows, sequence.history
        keys, values = (x[first:] for x in read_tokens(exact.kv, ids, end, heads.dim))
        write_tokens(expected, ids, keys.astype("float16"), values.astype("float16"), first=first)
    same_bits(words.kv[0], expected[0])


def test_words_take_the_even_one_of_two() -> None:
    heads = Heads(1, 1, 16)
    ties = [1 + 2**-11, 1 + 3 * 2**-11, -1 - 2**-11, 2049, 2051, -2049]
    large = [65504, 65519, -65504]
    numbers = np.array([*ties, *large, 1 / 3, -0.0, 2**-14, 0.1, 0, 0, 0], "float32")
    qkv = random_rows(heads)
    qkv[0, -heads.dim :] = numbers
    done = GpuAppended([Rows(0, 1)], heads, "float16x2", norm=False, qkv=qkv)
    _, values = read_tokens(done.kv, done.page_ids[0], 1, heads.dim)
    same_bits(values[0, 0], numbers.astype("float16"))


@pytest.mark.parametrize("kv_dtype", ["float16", "float16x2"])
def test_what_float16_cannot_hold_is_nan(kv_dtype: str) -> None:
    heads = Heads(1, 1, 16)
    qkv = random_rows(heads)
    beyond = [65520, -65520, 1e6, -1e30, np.inf, -np.inf, np.nan]
    qkv[0, -heads.dim :][: 2 * len(beyond) : 2] = beyond
    done = GpuAppended([Rows(0, 1)], heads, kv_dtype, norm=False, qkv=qkv)
    _, values = read_tokens(done.kv, done.page_ids[0], 1, heads.dim)
    np.testing.assert_array_equal(np.isnan(values[0, 0])[:14], [True, False] * 7)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_scales_of_what_is_not_finite_are_not(value: float) -> None:
    heads = Heads(1, 1, 32)
    qkv = random_rows(heads)
    qkv[0, -5] = value
    done = GpuAppended([Rows(0, 1)], heads, "int8", norm=False, qkv=qkv)
    key, value_ = done.kv[1][done.page_ids[0][0], 0].view("float16")[:2]
    assert np.isfinite(key)
    assert not np.isfinite(value_)


def test_words_of_numbers_below_those_of_11_bits_are_near_them() -> None:
    heads = Heads(1, 1, 16)
    qkv = random_rows(heads)
    qkv[0, -heads.dim :] = np.geomspace(1e-9, 2**-14, 16)
    done = GpuAppended([Rows(0, 1)], heads, "float16x2", norm=False, qkv=qkv)
    _, values = read_tokens(done.kv, done.page_ids[0], 1, heads.dim)
    assert np.abs(values[0, 0] - qkv[0, -heads.dim :]).max() <= 2**-14


@pytest.mark.parametrize("subgroups", [False, True], ids=["shared", "subgroups"])
@pytest.mark.parametrize("norm", [False, True], ids=["plain", "qk_norm"])
@pytest.mark.parametrize("heads", GPU_SHAPES, ids=str)
def test_codes_are_near_the_exact_numbers(heads: Heads, norm: bool, subgroups: bool) -> None:
    check_codes(heads, norm=norm, subgroups=subgroups)


@pytest.mark.parametrize("width", emulated.WIDTHS)
def test_codes_do_not_depend_on_the_width_of_subgroups(width: int) -> None:
    check_codes(Heads(3, 1, 80), norm=False, subgroups=True, width=width)


def check_codes(
    heads: Heads, *, norm: bool, subgroups: bool = False, width: int | None = None
) -> None:
    """Numbers are off by half a code, under a scale that a device rounds as it likes."""
    exact = GpuAppended(RAGGED, heads, "float32", norm=norm, subgroups=subgroups, width=width)
    coded = GpuAppended(RAGGED, heads, "int8", norm=norm, subgroups=subgroups, width=width)
    same_bits(coded.after, exact.after)
    untouched = poisoned_pool(len(coded.kv[0]), heads, "int8")
    for sequence, ids in zip(RAGGED, coded.page_ids, strict=True):
        end = sequence.history + sequence.rows
        wanted = read_tokens(exact.kv, ids, end, heads.dim)
        found = read_tokens(coded.kv, ids, end, heads.dim)
        for a, b in zip(wanted, found, strict=True):
            a, b = a[sequence.history :], b[sequence.history :]
            scale = np.abs(a).max(-1, keepdims=True) / 127
            assert (np.abs(a - b) <= scale * (0.5 + 127 * 2.0**-10)).all()
        for position in range(sequence.history, end):
            untouched[1][ids[position // 16], :, position % 16] = 0
    kept = untouched[1] != 0
    same_bits(coded.kv[1][kept], untouched[1][kept])


def test_codes_under_a_scale_of_zero_are_zero() -> None:
    heads = SHAPES[0]
    qkv = random_rows(heads)
    qkv[:, heads.query * heads.dim :] = 0.0
    done = GpuAppended([Rows(0, 3)], heads, "int8", norm=False, qkv=qkv)
    keys, values = read_tokens(done.kv, done.page_ids[0], 3, heads.dim)
    assert not keys.any()
    assert not values.any()


@pytest.mark.parametrize("kv_dtype", ["float16", "float16x2", "int8"])
@pytest.mark.parametrize("subgroups", [False, True], ids=["shared", "subgroups"])
def test_a_row_alone_gives_the_bits_it_has_in_a_batch(subgroups: bool, kv_dtype: str) -> None:
    heads = SHAPES[0]
    many = GpuAppended(RAGGED, heads, kv_dtype, norm=True, subgroups=subgroups)
    for row in (0, 16, 17, 38, 39):
        position, sequence = int(many.batch.positions[row]), int(many.batch.row_seq[row])
        first = np.roll(many.qkv, -row, axis=0)
        alone = GpuAppended(
            [Rows(position, 1)], heads, kv_dtype, norm=True, subgroups=subgroups, qkv=first
        )
        same_bits(alone.q[0], many.q[row])
        ours = read_tokens(alone.kv, alone.page_ids[0], position + 1, heads.dim)
        theirs = read_tokens(many.kv, many.page_ids[sequence], position + 1, heads.dim)
        for a, b in zip(ours, theirs, strict=True):
            same_bits(a[-1], b[-1])


def test_a_step_without_rows_writes_nothing() -> None:
    done = GpuAppended(RAGGED, SHAPES[0], "float32", norm=True, live=0)
    same_bits(done.after, done.qkv)
    assert np.isnan(done.kv[0]).all()


def test_a_kernel_without_sums_is_one_for_both_kinds_of_programs() -> None:
    names = {kernel(SHAPES[0], "float32", norm=False, subgroups=s).name for s in (False, True)}
    assert len(names) == 1


@pytest.mark.parametrize(
    ("shape", "kv_dtype", "named"),
    [
        ((2, 1, 40), "float16", "40"),
        ((3, 2, 32), "float16", "3 query heads"),
        ((2, 1, 32), "bfloat16", "bfloat16"),
    ],
)
def test_what_attention_is_not_written_for_is_refused(
    shape: tuple[int, int, int], kv_dtype: str, named: str
) -> None:
    with pytest.raises(CompileError, match=named):
        rope_append(RopeSpec(1, 1, 16, *shape, kv_dtype), subgroups=False)
