"""Calling the sampling kernel on sequences described one by one, all around them poisoned."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from edgewise_compiler.kernels.cpu.sampling.sample import sample
from edgewise_compiler.kernels.cpu.sampling.scratch import sample_scratch
from edgewise_compiler.kernels.sampling import SamplingSpec
from edgewise_runtime.engine.step_buffers import step_array
from edgewise_runtime.format.abi import MAX_BIASES, mask_words
from tests.compiler.kernels.conftest import aligned, aligned_copy, build
from tests.compiler.kernels.sampling_reference import Request

Array = npt.NDArray[Any]

PAGES = 3
UNTOUCHED = -7


@dataclass(frozen=True)
class Row:
    """One sequence: its logits, what it asks for, the tokens it has (default none)."""

    logits: Array
    request: Request = field(default_factory=Request)
    counts: Array | None = None
    kv_len: int = 0
    stop: int = 0


@functools.cache
def kernel_for(B: int, V: int, isa: str, *, advance: bool = False) -> Callable[..., None]:
    """The compiled kernel."""
    function = sample(spec(B, V), isa, advance=advance)
    return next(iter(build([function], isa).values()))


def spec(B: int, V: int) -> SamplingSpec:
    """What kernels for ``B`` sequences over ``V`` tokens are made for."""
    return SamplingSpec(B, B, PAGES, V, padded(V))


def padded(V: int) -> int:
    """Columns of the logits of ``V`` tokens."""
    return -(-V // 32) * 32


def run(B: int, rows: Sequence[Row], isa: str, *, advance: bool = False) -> list[int]:
    """Samples ``rows`` with a kernel for up to ``B`` sequences; the first ``len(rows)`` tokens.

    Logits beyond the vocabulary and beyond the batch are +inf, the scratch memory is full of ones,
    and a row's counts lie in another slot than its own number.
    """
    V = len(rows[0].logits)
    logits = aligned_copy(np.full((B, padded(V)), np.inf, "float32"))
    table = aligned_copy(np.full((B, 8 + PAGES), -1, "int32"))
    counts = aligned_copy(np.full((B, V), 10**6, "int32"))
    floats = aligned_copy(np.full((B, 8), np.nan, "float32"))
    integers = aligned_copy(np.full((B, 8), -1, "int32"))
    biases = aligned_copy(np.full((B, 2, MAX_BIASES), -1, "int32"))
    masks = aligned_copy(np.zeros((B, mask_words(V)), "int32"))
    for i, row in enumerate(rows):
        logits[i, :V] = row.logits
        slot = (i + 1) % B
        table[i, :8] = [row.kv_len, 0, 1, row.stop, 10**6, 0, slot, 0]
        counts[slot] = 0 if row.counts is None else row.counts
        floats[i], integers[i] = row.request.floats(), row.request.integers()
        biases[i], masks[i] = row.request.listed(), row.request.mask(V)
    sampled = aligned_copy(np.full(B, UNTOUCHED, "int32"))
    scratch = [aligned(a.shape, a.dtype) for a in sample_scratch(spec(B, V))]
    for array in scratch:
        array.view("uint8")[...] = 255
    step = aligned_copy(step_array(len(rows), len(rows), len(rows), 0))
    inputs = (logits, table, floats, integers, biases, masks, counts)
    before = [array.copy() for array in inputs]
    kernel_for(B, V, isa, advance=advance)(*inputs, sampled, *scratch, step)
    for array, copy in zip(inputs, before, strict=True):
        np.testing.assert_array_equal(array, copy)
    assert (sampled[len(rows) :] == UNTOUCHED).all()
    return [int(token) for token in sampled[: len(rows)]]


def draws(row: Row, isa: str, count: int) -> Array:
    """``count`` tokens of one sequence, drawn at the positions from its own on."""
    B = 16
    tokens: list[int] = []
    while len(tokens) < count:
        start = row.kv_len + len(tokens)
        batch = [Row(row.logits, row.request, row.counts, start + i) for i in range(B)]
        tokens += run(B, batch, isa)
    return np.array(tokens[:count])
