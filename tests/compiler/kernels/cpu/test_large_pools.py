"""KV pages at the end of a pool of more than 2^31 bytes: written and read as in a small one."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from edgewise_compiler.kernels.attention import AttentionSpec, RopeSpec
from edgewise_compiler.kernels.cpu.attention.decode import attention_decode
from edgewise_compiler.kernels.cpu.attention.prefill import attention_prefill
from edgewise_compiler.kernels.cpu.elementwise.rope import rope_append
from edgewise_runtime.format.abi import PAGE_TOKENS
from tests.compiler.kernels.attention_cases import same_bits
from tests.compiler.kernels.conftest import RUNNABLE, Array, aligned, aligned_copy, build, virtual
from tests.compiler.kernels.paged import Bounds, Heads, Rows, batch_of

HEADS = Heads(4, 2, 64)
BOUNDS = Bounds(rows=40, batch=2, pages=4)
CONTEXT = BOUNDS.pages * PAGE_TOKENS
SMALL = 8

POOLS = {"float16": 1 << 18, "int8": 1 << 19, "float32": 1 << 19}
"""Pages by what they hold: as many as 2^31 bytes of float16 and int8, and as 2^31 elements of
float32. A few more are added, which is where the sequence is."""


def pool_of(pages: int, kv_dtype: str) -> list[Array]:
    """A layer's buffers."""
    page = (pages, 2, HEADS.kv, PAGE_TOKENS * HEADS.dim)
    scales = [virtual((pages, HEADS.kv, PAGE_TOKENS), "uint32")] if kv_dtype == "int8" else []
    return [virtual(page, kv_dtype), *scales]


@cache
def kernels(kv_dtype: str) -> dict[str, Any]:
    sizes = (BOUNDS.rows, BOUNDS.batch, CONTEXT, HEADS.query, HEADS.kv, HEADS.dim, kv_dtype)
    spec, isa = AttentionSpec(*sizes, scale=HEADS.dim**-0.5), RUNNABLE[0]
    made = {
        "rope": rope_append(RopeSpec(*sizes), isa),
        "decode": attention_decode(spec, isa),
        "prefill": attention_prefill(spec, isa),
    }
    (part,) = (p.shape for p in made["decode"].params if p.name == "part")
    built = build(made.values(), isa)
    found = {name: built[str(f.attrs["global_symbol"])] for name, f in made.items()}
    return found | {"part": tuple(map(int, part))}


def steps(pages: int, last: int, kv_dtype: str) -> tuple[list[Array], list[Array]]:
    """A prompt of 36 tokens and a token after it, in pages that are counted back from ``last``.

    Returns:
        What attention gave for each step, and the pool.
    """
    run, kv = kernels(kv_dtype), pool_of(pages, kv_dtype)
    rng, width = np.random.default_rng(2), (HEADS.query + 2 * HEADS.kv) * HEADS.dim
    angles = rng.uniform(-3, 3, (CONTEXT, HEADS.dim // 2))
    rope = aligned_copy(np.stack([np.cos(angles), np.sin(angles)], 1).astype("float32"))
    outs = []
    for history, rows in ((0, 36), (36, 1)):
        batch = batch_of([Rows(history, rows)], BOUNDS, [[last, last - 2, last - 1]])
        qkv = aligned_copy(rng.standard_normal((BOUNDS.rows, width), np.float32))
        q, out = (aligned((BOUNDS.rows, HEADS.query * HEADS.dim), "float32") for _ in range(2))
        where = batch.positions[:, None], batch.row_seq, batch.table
        run["rope"](qkv, rope, *where, q, *kv, batch.step)
        part = aligned(run["part"], "float32")
        run["decode"](q, *kv, batch.table, part, out, batch.step)
        if rows > 1:
            run["prefill"](q, *kv, batch.table, out, batch.step)
        outs.append(out[:rows].copy())
    return outs, kv


@pytest.mark.quick(cases=1)
@pytest.mark.parametrize("kv_dtype", POOLS)
def test_pages_at_the_end_of_a_large_pool_hold_what_pages_of_a_small_one_do(kv_dtype: str) -> None:
    pages = POOLS[kv_dtype] + SMALL
    outs, kv = steps(pages, pages - 1, kv_dtype)
    assert kv[0].nbytes > 1 << 31
    expected, small = steps(SMALL, SMALL - 1, kv_dtype)
    for mine, other in zip(outs, expected, strict=True):
        assert mine.any()
        same_bits(mine, other)
    for mine, other in zip(kv, small, strict=True):
        same_bits(mine[-SMALL:], other)
        # Where a place of 32 bits, with a sign or without, would have led.
        assert not mine[:SMALL].any()
