"""rope_append: rotation, per-head normalization and the pages' layout."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import pytest

from edgewise_compiler.kernels.attention import RopeSpec
from edgewise_compiler.kernels.cpu.elementwise.rope import rope_append
from edgewise_runtime.errors import CompileError
from edgewise_runtime.format.abi import PAGE_TOKENS
from tests.compiler.kernels.conftest import RUNNABLE, aligned, aligned_copy, build
from tests.compiler.kernels.paged import (
    Array,
    Bounds,
    Heads,
    Rows,
    batch_of,
    poisoned_pool,
    read_tokens,
    shuffled_pages,
    write_tokens,
)

pytestmark = pytest.mark.sampled(one_in=12)

EPS = 1e-6
BOUNDS = Bounds(rows=40, batch=4, pages=5)
CONTEXT = 80

# Norm and rotation are a few float32 operations on numbers near 1.
TOLERANCE = 2e-6

SHAPES = [Heads(4, 2, 64), Heads(3, 1, 80), Heads(2, 2, 32), Heads(2, 1, 96)]
RAGGED = [Rows(3, 17), Rows(31, 2), Rows(0, 20), Rows(70, 1)]
BATCHES = {
    "one row": [Rows(0, 1)],
    "across a page": [Rows(13, 7)],
    "decode": [Rows(15, 1), Rows(16, 1), Rows(79, 1), Rows(0, 1)],
    "ragged up to the bounds": RAGGED,
    "one has stopped": [Rows(3, 4), Rows(20, 3, stop=1), Rows(9, 1, stop=2)],
}


def rope_table(dim: int, context: int = CONTEXT) -> Array:
    angles = np.arange(context)[:, None] / 10000.0 ** (np.arange(dim // 2) * 2.0 / dim)
    return aligned_copy(np.stack([np.cos(angles), np.sin(angles)], axis=1).astype("float32"))


def apart(rope: Array) -> Array:
    """A table of which queries have numbers of their own: those of the keys, stretched."""
    factors = 1 + 0.1 * (np.arange(len(rope)) // 10)
    stretched = rope * factors[:, None, None].astype("float32")
    return aligned_copy(np.concatenate([rope, stretched], axis=1))


def reference(x: Array, weight: Array | None, rope: Array, positions: Array) -> Array:
    """Heads x [rows, heads, dim] normalized (where there is a weight) and rotated, in float64."""
    x = x.astype("float64")
    if weight is not None:
        x = x / np.sqrt((x * x).mean(-1, keepdims=True) + EPS) * weight.astype("float64")
    cos, sin = rope[positions].astype("float64").transpose(1, 0, 2)[:2, :, None]
    first, second = np.split(x, 2, axis=-1)
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


@functools.cache
def compiled(
    heads: Heads, kv_dtype: str, norm: bool, isa: str, apart: bool = False
) -> Callable[..., None]:
    bounds = (BOUNDS.rows, BOUNDS.batch, CONTEXT)
    shape = (heads.query, heads.kv, heads.dim)
    spec = RopeSpec(*bounds, *shape, kv_dtype, EPS if norm else None, apart=apart)
    function = rope_append(spec, isa)
    return next(iter(build([function], isa).values()))


def random_rows(heads: Heads) -> Array:
    """The output of a qkv projection for every row the kernel is compiled for."""
    width = (heads.query + 2 * heads.kv) * heads.dim
    return np.random.default_rng(3).normal(size=(BOUNDS.rows, width)).astype("float32")


class Appended:
    """One call of the kernel, with everything that went in and came out."""

    def __init__(
        self,
        sequences: list[Rows],
        heads: Heads,
        kv_dtype: str,
        norm: bool,
        isa: str,
        qkv: Array | None = None,
        *,
        own: bool = False,
    ) -> None:
        rng = np.random.default_rng(7)
        self.heads, self.sequences = heads, sequences
        self.page_ids, pool = shuffled_pages(sequences, rng)
        self.batch = batch_of(sequences, BOUNDS, self.page_ids)
        self.rows = int(self.batch.step[0])
        self.qkv = aligned_copy(random_rows(heads) if qkv is None else qkv)
        self.rope = apart(rope_table(heads.dim)) if own else rope_table(heads.dim)
        rng = np.random.default_rng(5)
        weights = [rng.uniform(0.5, 1.5, heads.dim).astype("float32") for _ in range(2)]
        self.norms = [aligned_copy(weight) for weight in weights] if norm else []
        self.q = aligned((BOUNDS.rows, heads.query * heads.dim), "float32")
        self.q[...] = np.nan
        self.kv = poisoned_pool(pool, heads, kv_dtype)
        step = self.batch
        inputs = (
            self.qkv,
            self.rope,
            step.positions[:, None],
            step.row_seq,
            step.table,
            *self.norms,
        )
        compiled(heads, kv_dtype, norm, isa, own)(*inputs, self.q, *self.kv, step.step)

    def expected(self) -> tuple[Array, Array, Array]:
        """Reference q, k, v [rows, heads, dim]."""
        heads, positions = self.heads, self.batch.positions[: self.rows]
        x = self.qkv[: self.rows].reshape(self.rows, -1, heads.dim)
        q, k, v = np.split(x, [heads.query, heads.query + heads.kv], axis=1)
        q_norm, k_norm = self.norms or (None, None)
        q, k = (
            reference(part, weight, rope, positions)
            for part, weight, rope in ((q, q_norm, self.rope[:, -2:]), (k, k_norm, self.rope))
        )
        return q, k, v


@pytest.mark.parametrize("kv_dtype", ["float32", "int8"])
def test_queries_may_turn_by_a_table_of_their_own(kv_dtype: str) -> None:
    heads = Heads(4, 2, 64)
    done = Appended(RAGGED, heads, kv_dtype, False, "avx2", own=True)
    plain = Appended(RAGGED, heads, kv_dtype, False, "avx2")
    q, _, _ = done.expected()
    found = done.q[: done.rows].reshape(q.shape)
    np.testing.assert_allclose(found, q, rtol=TOLERANCE, atol=2 * TOLERANCE)
    assert not np.array_equal(done.q, plain.q, equal_nan=True)
    for one, other in zip(done.kv, plain.kv, strict=True):
        np.testing.assert_array_equal(one, other)


def check(done: Appended) -> None:
    """Everything written is near the reference, and nothing else was written."""
    q, k, v = done.expected()
    near = functools.partial(np.testing.assert_allclose, rtol=TOLERANCE, atol=TOLERANCE)
    near(done.q[: done.rows].reshape(q.shape), q)
    assert np.isnan(done.q[done.rows :]).all()
    expected = poisoned_pool(len(done.kv[0]), done.heads, "float32")
    row = 0
    for sequence, ids in zip(done.sequences, done.page_ids, strict=True):
        rows = slice(row, row + sequence.rows)
        row += sequence.rows
        if not sequence.stop:
            write_tokens(expected, ids, k[rows], v[rows], first=sequence.history)
    near(done.kv[0], expected[0])


def same_bits(a: Array, b: Array) -> None:
    bits = [np.ascontiguousarray(x).view("uint8") for x in (a, b)]
    np.testing.assert_array_equal(*bits)


def same_pages(a: list[Array], b: list[Array]) -> None:
    for one, other in zip(a, b, strict=True):
        same_bits(one, other)


@pytest.mark.parametrize("norm", [False, True], ids=["plain", "qk_norm"])
@pytest.mark.parametrize("heads", SHAPES, ids=str)
def test_rotates_queries_and_appends_keys_and_values(heads: Heads, norm: bool) -> None:
    check(Appended(RAGGED, heads, "float32", norm, RUNNABLE[0]))


@pytest.mark.parametrize("batch", BATCHES)
def test_every_batch_lands_in_its_pages_on_every_isa(batch: str, isa: str) -> None:
    check(Appended(BATCHES[batch], SHAPES[0], "float32", True, isa))


@pytest.mark.parametrize("kv_dtype", ["float16", "int8"])
@pytest.mark.parametrize("norm", [False, True], ids=["plain", "qk_norm"])
def test_all_isas_write_the_same_bits(norm: bool, kv_dtype: str) -> None:
    first, *others = [Appended(RAGGED, SHAPES[1], kv_dtype, norm, isa) for isa in RUNNABLE]
    for other in others:
        same_bits(first.q, other.q)
        same_pages(first.kv, other.kv)


def test_half_precision_pages_hold_the_nearest_float16(isa: str) -> None:
    exact = Appended(RAGGED, SHAPES[3], "float32", True, isa)
    rounded = Appended(RAGGED, SHAPES[3], "float16", True, isa)
    np.testing.assert_array_equal(rounded.kv[0], exact.kv[0].astype("float16"))
    same_bits(rounded.q, exact.q)


def test_codes_are_those_of_the_exact_numbers(isa: str) -> None:
    """Nearest codes, ties to even, under the float16 nearest to the largest number over 127."""
    exact = Appended(RAGGED, SHAPES[3], "float32", True, isa)
    coded = Appended(RAGGED, SHAPES[3], "int8", True, isa)
    expected = poisoned_pool(len(exact.kv[0]), SHAPES[3], "int8")
    for sequence, ids in zip(RAGGED, exact.page_ids, strict=True):
        end = sequence.history + sequence.rows
        keys, values = read_tokens(exact.kv, ids, end, SHAPES[3].dim)
        new = slice(sequence.history, end)
        write_tokens(expected, ids, keys[new], values[new], first=sequence.history)
    same_pages(coded.kv, expected)
    same_bits(coded.q, exact.q)


@pytest.mark.parametrize(
    ("numbers", "codes", "scale"),
    [
        pytest.param([0.0, -0.0], [0, 0], 0.0, id="zeros"),
        pytest.param([127.0, -127.0, 0.5, 1.5, -2.5], [127, -127, 0, 2, -2], 1.0, id="ties"),
        pytest.param([3e-6, -1e-6], [0, 0], 0.0, id="too small for a scale"),
        pytest.param([1.1e-5, -4e-6], [127, -67], 2.0**-24, id="a scale that is rounded down"),
        pytest.param([np.inf, 1.0], [], np.inf, id="an infinity"),
    ],
)
def test_extreme_values_have_codes(
    numbers: list[float], codes: list[int], scale: float, isa: str
) -> None:
    heads = Heads(2, 2, 32)
    qkv = random_rows(heads)
    first = (heads.query + heads.kv) * heads.dim
    qkv[0, first : first + heads.dim] = numbers + [0.0] * (heads.dim - len(numbers))
    done = Appended([Rows(3, 1)], heads, "int8", True, isa, qkv)
    pages, scales = done.kv
    found = pages[done.page_ids[0][0], 1, 0].reshape(PAGE_TOKENS, heads.dim)[3]
    assert found[: len(codes)].tolist() == codes
    assert scales[done.page_ids[0][0], 0].view("float16")[3 * 2 + 1] == scale


@pytest.mark.parametrize("kv_dtype", ["float16", "int8"])
@pytest.mark.parametrize("value", [np.nan, np.inf, 1e9])
@pytest.mark.parametrize("place", [0, 17, 31])
def test_what_pages_cannot_hold_is_not_finite(
    place: int, value: float, kv_dtype: str, isa: str
) -> None:
    heads = Heads(1, 1, 32)
    qkv = random_rows(heads)
    qkv[0, -heads.dim + place] = value
    done = Appended([Rows(3, 1)], heads, kv_dtype, False, isa, qkv)
    page = done.page_ids[0][0]
    if kv_dtype == "float16":
        found = done.kv[0][page, 1, 0].reshape(PAGE_TOKENS, heads.dim)[3]
        assert np.flatnonzero(np.isnan(found)).tolist() == [place]
    else:
        assert not np.isfinite(done.kv[1][page, 0].view("float16")[3 * 2 + 1])


@pytest.mark.parametrize("kv_dtype", ["float16", "int8"])
def test_a_row_alone_gives_the_bits_it_has_in_a_batch(kv_dtype: str, isa: str) -> None:
    heads = SHAPES[0]
    many = Appended(RAGGED, heads, kv_dtype, True, isa)
    for row in (0, 16, 17, 38, 39):
        position, sequence = int(many.batch.positions[row]), int(many.batch.row_seq[row])
        first = np.roll(many.qkv, -row, axis=0)
        alone = Appended([Rows(position, 1)], heads, kv_dtype, True, isa, first)
        same_bits(alone.q[0], many.q[row])
        ours = read_tokens(alone.kv, alone.page_ids[0], position + 1, heads.dim)
        theirs = read_tokens(many.kv, many.page_ids[sequence], position + 1, heads.dim)
        for a, b in zip(ours, theirs, strict=True):
            same_bits(a[-1], b[-1])


def test_head_dimensions_that_do_not_fill_vectors_are_refused() -> None:
    with pytest.raises(CompileError, match="40"):
        rope_append(RopeSpec(1, 1, 16, 2, 1, 40, "float16"), "portable")


def test_heads_that_do_not_divide_are_refused() -> None:
    with pytest.raises(CompileError, match="3 query heads"):
        rope_append(RopeSpec(1, 1, 16, 3, 2, 32, "float16"), "portable")


def test_pages_of_another_dtype_are_refused() -> None:
    with pytest.raises(CompileError, match="bfloat16"):
        rope_append(RopeSpec(1, 1, 16, 2, 1, 32, "bfloat16"), "portable")
