"""Decode attention that takes in the newest token: the bits of rope_append and attention apart."""

from __future__ import annotations

import numpy as np
import pytest

from edgewise_compiler.kernels.attention import AttentionSpec, RopeSpec
from edgewise_compiler.kernels.gpu.attention.decode import (
    attention_decode,
    attention_near,
)
from edgewise_compiler.kernels.gpu.attention.merge import part_elements
from edgewise_compiler.kernels.gpu.attention.shares import whole
from edgewise_compiler.kernels.gpu.elementwise.rope import rope_append
from edgewise_compiler.kernels.gpu.limits import Limits
from edgewise_compiler.kernels.gpu.thread import Launch
from edgewise_compiler.kernels.numbers import LONG_SEGMENTS, SEGMENT
from edgewise_compiler.targets.webgpu.limits import LIMITS
from edgewise_runtime.format.abi import PAGE_TOKENS
from tests import gpu
from tests.compiler.kernels.attention_cases import BOUNDS, same_bits
from tests.compiler.kernels.cpu.test_rope import EPS, apart, rope_table
from tests.compiler.kernels.paged import (
    Array,
    Heads,
    Rows,
    batch_of,
    poisoned_pool,
    shuffled_pages,
    write_tokens,
)

pytestmark = pytest.mark.sampled(one_in=36, covering=False)

CONTEXT = BOUNDS.pages * PAGE_TOKENS
# Histories about the edges of pages and segments; one sequence has stopped.
NEAR = [Rows(0, 1), Rows(15, 1), Rows(130, 1, stop=1), Rows(127, 1)]
FAR = [Rows(63, 1), Rows(16, 1), Rows(130, 1), Rows(CONTEXT - 1, 1)]
SHAPES = [
    *(Heads(8, 2, 64), Heads(3, 1, 80), Heads(2, 2, 32), Heads(16, 1, 16), Heads(9, 1, 256)),
    Heads(3, 1, 512),
    Heads(40, 2, 48),  # more queries of a key than threads have at once
]
KV_DTYPES = ["float32", "float16", "float16x2", "int8"]


class Step:
    """One decode step of sequences with a history: its buffers, before any kernel has run."""

    def __init__(
        self,
        heads: Heads,
        kv_dtype: str,
        norm: bool,
        sequences: list[Rows],
        own: bool = False,
        segment: int = SEGMENT,
    ) -> None:
        rng = np.random.default_rng(3)
        page_ids, pool = shuffled_pages(sequences, rng)
        self.batch = batch_of(sequences, BOUNDS, page_ids)
        self.batch.step[3] = CONTEXT
        self.kv = poisoned_pool(pool, heads, kv_dtype)
        stored = "float16" if kv_dtype == "float16x2" else "float32"
        for sequence, ids in zip(sequences, page_ids, strict=True):
            shape = (2, sequence.history, heads.kv, heads.dim)
            keys, values = rng.normal(size=shape).astype(stored)
            write_tokens(self.kv, ids, keys, values)
        shape = (BOUNDS.rows, heads.query + 2 * heads.kv, heads.dim)
        self.qkv = rng.normal(size=shape).astype("float32")
        self.qkv[len(sequences) :] = np.nan
        self.rope = rope_table(heads.dim, CONTEXT)
        self.rope = apart(self.rope) if own else self.rope
        norms = rng.uniform(0.5, 1.5, (2, heads.dim)).astype("float32")
        self.norms = [norms] if norm else []
        sizes = (BOUNDS.rows, BOUNDS.batch, CONTEXT, heads.query, heads.kv, heads.dim, kv_dtype)
        self.rotation = RopeSpec(*sizes, EPS if norm else None, apart=own)
        self.spec = AttentionSpec(*sizes, float(heads.dim**-0.5), segment=segment)
        self.symbols = {"n": len(sequences), "b": len(sequences), "t": CONTEXT}

    def result(self, near: bool) -> Array:
        shape = (BOUNDS.rows, self.spec.heads, self.spec.head_dim)
        elements = part_elements(self.spec, whole(self.spec))
        return np.full(shape if near else elements, np.nan, "float32")

    def launch(self, near: bool, rope: RopeSpec | None, limits: Limits = LIMITS) -> Launch:
        if near:
            return attention_near(self.spec, limits, rope)
        return attention_decode(self.spec, limits, None, rope)

    def apart(self, near: bool) -> tuple[Array, list[Array]]:
        """What attention gives, and the pages, by a launch for each."""
        batch = self.batch
        positions = [] if self.spec.kv_dtype == "int8" else [batch.positions]
        inputs = [self.qkv, self.rope, *positions, batch.row_seq, batch.table, *self.norms]
        launch = rope_append(self.rotation, subgroups=False)
        qkv, *rest = gpu.run(launch, [*inputs, *self.kv, batch.step], **self.symbols)
        kv = rest[len(inputs) - 1 : -1]
        inputs = [qkv, *kv, batch.table, self.result(near), batch.step]
        *_, result, _ = gpu.run(self.launch(near, None), inputs, **self.symbols)
        return result, kv

    def together(self, near: bool, limits: Limits = LIMITS) -> tuple[Array, list[Array]]:
        """The same by one launch."""
        first = [self.qkv, self.rope, *self.norms]
        inputs = [*first, *self.kv, self.batch.table, self.result(near), self.batch.step]
        launch = self.launch(near, self.rotation, limits)
        after = gpu.run(launch, inputs, **self.symbols)
        return after[-2], after[len(first) : -3]


@pytest.mark.quick(cases=1)
@pytest.mark.parametrize("near", [True, False], ids=["near", "segments"])
@pytest.mark.parametrize("norm", [False, True], ids=["plain", "qk_norm"])
@pytest.mark.parametrize("kv_dtype", KV_DTYPES)
@pytest.mark.parametrize("heads", SHAPES, ids=str)
@pytest.mark.parametrize("segment", [SEGMENT, *LONG_SEGMENTS])
def test_one_launch_gives_the_bits_of_two(
    segment: int, heads: Heads, kv_dtype: str, norm: bool, near: bool
) -> None:
    step = Step(heads, kv_dtype, norm, NEAR if near else FAR, segment=segment)
    (apart, pages), (together, written) = step.apart(near), step.together(near)
    same_bits(together, apart)
    for a, b in zip(written, pages, strict=True):
        same_bits(a, b)


@pytest.mark.landing
@pytest.mark.parametrize("kv_dtype", ["float32", "int8"])
def test_queries_with_a_table_of_their_own_have_the_bits_of_two_launches(kv_dtype: str) -> None:
    step = Step(Heads(8, 2, 64), kv_dtype, False, NEAR, own=True)
    (apart, pages), (together, written) = step.apart(True), step.together(True)
    same_bits(together, apart)
    for a, b in zip(written, pages, strict=True):
        same_bits(a, b)


@pytest.mark.landing
def test_a_step_without_sequences_writes_no_page() -> None:
    step = Step(Heads(8, 2, 64), "float16", True, NEAR)
    step.batch.step[:3] = 0
    result, pages = step.together(True)
    assert np.isnan(result).all()
    same_bits(pages[0], step.kv[0])


@pytest.mark.landing
@pytest.mark.parametrize("kv_dtype", ["float16x2", "int8"])
@pytest.mark.parametrize("segment", [SEGMENT, *LONG_SEGMENTS])
def test_a_token_alone_gives_the_bits_it_has_in_a_batch(segment: int, kv_dtype: str) -> None:
    heads = Heads(8, 2, 64)
    step = Step(heads, kv_dtype, True, NEAR, segment=segment)
    many, _ = step.together(True)
    for place in (0, 1, 3):
        alone = Step(heads, kv_dtype, True, NEAR, segment=segment)
        alone.batch.table[0], alone.qkv[0] = step.batch.table[place], step.qkv[place]
        alone.batch.step[:3] = 1
        alone.symbols = {"n": 1, "b": 1, "t": SEGMENT}
        one, _ = alone.together(True)
        same_bits(one[0], many[place])
