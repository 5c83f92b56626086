"""Sequences to attend to, the kernels called on parts of them, and a float64 reference."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from edgewise_compiler.kernels.attention import AttentionSpec
from edgewise_compiler.kernels.cpu.attention.decode import attention_decode, part_elements
from edgewise_compiler.kernels.cpu.attention.prefill import attention_prefill
from edgewise_runtime.format.abi import PAGE_TOKENS
from tests.compiler.kernels.conftest import aligned, build
from tests.compiler.kernels.paged import (
    Array,
    Bounds,
    Heads,
    Rows,
    batch_of,
    poisoned_pool,
    quantized,
    shuffled_pages,
    write_tokens,
)

BOUNDS = Bounds(rows=180, batch=4, pages=21)


@dataclass(frozen=True)
class Story:
    """One sequence: queries [tokens, query heads, dim], keys and values [tokens, kv heads, dim].

    ``kv_dtype`` is what pages hold, ``window``, ``softcap`` and ``sinks`` [query heads] are
    traits of its attention.
    """

    heads: Heads
    queries: Array
    keys: Array
    values: Array
    kv_dtype: str
    window: int | None = None
    softcap: float | None = None
    sinks: Array | None = None

    @property
    def scale(self) -> float:
        return float(self.heads.dim**-0.5)


def story(heads: Heads, tokens: int, kv_dtype: str = "float16", *, seed: int = 0) -> Story:
    """A sequence of normally distributed numbers; keys and values are exact in ``kv_dtype``."""
    rng = np.random.default_rng([seed, tokens])
    queries = rng.normal(size=(tokens, heads.query, heads.dim)).astype("float32")
    numbers = rng.normal(size=(2, tokens, heads.kv, heads.dim))
    if kv_dtype == "int8":
        codes, scales = quantized(numbers.astype("float32"))
        keys, values = codes * scales[..., None].astype("float32")
    else:
        keys, values = numbers.astype(kv_dtype.removesuffix("x2"))
    return Story(heads, queries, keys, values, kv_dtype)


@dataclass(frozen=True)
class Part:
    """Rows of one story that take part in a step: ``rows`` tokens after ``history``."""

    story: Story
    history: int
    rows: int
    stop: int = 0


def whole(sequence: Story) -> Part:
    return Part(sequence, 0, len(sequence.queries))


def reference(part: Part) -> Array:
    """Softmax attention [rows, query heads, dim] in float64."""
    sequence, end = part.story, part.history + part.rows
    group = sequence.heads.query // sequence.heads.kv
    keys, values = (
        np.repeat(x[:end].astype("float64"), group, axis=1)
        for x in (sequence.keys, sequence.values)
    )
    queries = sequence.queries[part.history : end].astype("float64")
    scores = np.einsum("rhd,thd->rht", queries, keys) * sequence.scale
    if sequence.softcap is not None:
        scores = np.tanh(scores / sequence.softcap) * sequence.softcap
    behind = np.arange(part.history, end)[:, None] - np.arange(end)[None]
    hidden = (behind < 0) | (behind >= (sequence.window or end))
    scores = np.where(hidden[:, None], -np.inf, scores)
    if sequence.sinks is not None:
        # A key more, without a value.
        sinks = np.broadcast_to(sequence.sinks[:, None], (*scores.shape[:2], 1))
        scores = np.concatenate([scores, sinks], axis=-1)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    weights = weights[..., :end]
    return np.einsum("rht,thd->rhd", weights, values)


@functools.cache
def _compiled(kernel: Callable[..., object], spec: AttentionSpec, isa: str) -> Callable[..., None]:
    return next(iter(build([kernel(spec, isa)], isa).values()))


def _spec(sequence: Story, bounds: Bounds) -> AttentionSpec:
    heads, sizes = sequence.heads, (bounds.rows, bounds.batch, bounds.pages * PAGE_TOKENS)
    shape = (heads.query, heads.kv, heads.dim)
    traits = sequence.window, sequence.softcap, sequence.sinks is not None
    return AttentionSpec(*sizes, *shape, sequence.kv_dtype, float(heads.dim**-0.5), *traits)


def prefill(
    parts: Sequence[Part], isa: str, *, seed: int = 0, spare: int = 3, bounds: Bounds = BOUNDS
) -> list[Array]:
    """Rows of every part out of the kernels of a prefill: [rows, query heads, dim] each.

    Pages come in an order that depends on ``seed``, from a pool with ``spare`` more than needed.
    All memory that is not a token of a part's history or rows is NaN; what the kernels do not
    write comes back as NaN.
    """
    return _step((attention_decode, attention_prefill), parts, isa, seed, spare, bounds)


def chunks(parts: Sequence[Part], isa: str) -> list[Array]:
    """As :func:`prefill`, out of attention_prefill alone."""
    return _step((attention_prefill,), parts, isa, 0, 3, BOUNDS)


def decode(
    parts: Sequence[Part], isa: str, *, seed: int = 0, spare: int = 3, bounds: Bounds = BOUNDS
) -> list[Array]:
    """As :func:`prefill`, out of attention_decode alone."""
    return _step((attention_decode,), parts, isa, seed, spare, bounds)


def decode_rows(sequence: Story, positions: Sequence[int], isa: str) -> Array:
    """Attention of single rows of one story, as many at a time as fit a batch."""
    parts = [Part(sequence, position, 1) for position in positions]
    batches = [parts[i : i + BOUNDS.batch] for i in range(0, len(parts), BOUNDS.batch)]
    return np.concatenate([row for batch in batches for row in decode(batch, isa)])


def _step(
    kernels: Sequence[Callable[..., object]],
    parts: Sequence[Part],
    isa: str,
    seed: int,
    spare: int,
    bounds: Bounds,
) -> list[Array]:
    heads, kv_dtype = parts[0].story.heads, parts[0].story.kv_dtype
    spec = _spec(parts[0].story, bounds)
    rows = [Rows(part.history, part.rows, part.stop) for part in parts]
    page_ids, pool = shuffled_pages(rows, np.random.default_rng(seed), spare=spare)
    batch = batch_of(rows, bounds, page_ids)
    kv = poisoned_pool(pool, heads, kv_dtype)
    q = aligned((bounds.rows, heads.query * heads.dim), "float32")
    q[...] = np.nan
    first = 0
    for part, ids in zip(parts, page_ids, strict=True):
        end = part.history + part.rows
        keys, values = part.story.keys[:end], part.story.values[:end]
        write_tokens(kv, ids, keys, values)
        rows_of = part.story.queries[part.history : end]
        q[first : first + part.rows] = rows_of.reshape(part.rows, q.shape[1])
        first += part.rows
    out = aligned(q.shape, "float32")
    out[...] = np.nan
    part_buffer = aligned((part_elements(spec),), "float32")
    part_buffer[...] = np.nan
    for kernel in kernels:
        scratch = [part_buffer] if kernel is attention_decode else []
        sinks = sinks_of(parts[0].story)
        _compiled(kernel, spec, isa)(q, *kv, batch.table, *sinks, *scratch, out, batch.step)
    assert np.isnan(out[first:]).all(), "rows beyond the step were written"
    starts = np.cumsum([part.rows for part in parts])[:-1]
    return [x.reshape(-1, heads.query, heads.dim) for x in np.split(out[:first], starts)]


def without_later_tokens(part: Part, poison: float) -> Part:
    """The same part, where keys and values after its first row are ``poison``."""
    keys, values = part.story.keys.copy(), part.story.values.copy()
    for numbers in (keys, values):
        numbers[part.history + 1 :] = poison
    return replace(part, story=replace(part.story, keys=keys, values=values))


def same_bits(a: Array, b: Array) -> None:
    """Fails unless two arrays are equal bit for bit, the sign of zero included."""
    bits = [np.ascontiguousarray(x).view(f"uint{8 * x.itemsize}") for x in (a, b)]
    np.testing.assert_array_equal(*bits)


def sinks_of(story: Story) -> list[Array]:
    """The sinks as kernels are given them, if there are any."""
    if story.sinks is None:
        return []
    sinks = aligned(story.sinks.shape, "float32")
    sinks[...] = story.sinks
    return [sinks]


def with_nan(story: Story, what: str, token: int) -> Story:
    """The story with a NaN among the keys or the values of one token, in its first head."""
    numbers = getattr(story, what).copy()
    numbers[token, 0, 3] = np.nan
    return replace(story, **{what: numbers})


def spoils(part: Part, what: str, rows: Array, token: int) -> None:
    """What rows that see a NaN of `with_nan` must be: of a key nothing is finite, of a value not
    its column. (Of int8 a number is as finite as its scale.)"""
    heads = part.story.queries.shape[1] // part.story.keys.shape[1]
    columns = slice(None) if what == "keys" or part.story.kv_dtype == "int8" else 3
    seeing = max(0, token - part.history)
    assert np.isfinite(rows[:seeing]).all()
    assert np.isfinite(rows[seeing:, heads:]).all()
    assert not np.isfinite(rows[seeing:, :heads, columns]).any()
