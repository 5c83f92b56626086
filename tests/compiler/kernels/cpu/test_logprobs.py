"""logprobs: NumPy's log-softmax of raw logits and its 20 largest values, in one order of sums."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import pytest

from edgewise_compiler.kernels.cpu.sampling.logprobs import logprobs, logprobs_scratch
from edgewise_runtime.engine.step_buffers import step_array
from edgewise_runtime.format.abi import LOGPROBS, TOP_LOGPROBS
from tests.compiler.kernels.conftest import RUNNABLE, Array, aligned, aligned_copy, build
from tests.compiler.kernels.cpu.test_sample import LARGE, SHAPES, SMALL, peaked
from tests.compiler.kernels.logprobs_cases import assert_close
from tests.compiler.kernels.reference import same_bits
from tests.compiler.kernels.sampling_batch import UNTOUCHED, padded, spec

pytestmark = pytest.mark.sampled(one_in=6)

BEST = RUNNABLE[0]
B = 4
SIZES = [7, TOP_LOGPROBS, SMALL, 4096, LARGE]


@functools.cache
def kernel_for(V: int, isa: str) -> Callable[..., None]:
    return next(iter(build([logprobs(spec(B, V), isa)], isa).values()))


def run(rows: Array, sampled: Array, isa: str = BEST) -> tuple[Array, Array]:
    """Log-probabilities and ids of rows of logits; all around them is poisoned."""
    count, V = rows.shape
    logits = aligned_copy(np.full((B, padded(V)), np.inf, "float32"))
    logits[:count, :V] = rows
    tokens = aligned_copy(np.full(B, UNTOUCHED, "int32"))
    tokens[:count] = sampled
    values = aligned_copy(np.full((B, LOGPROBS), UNTOUCHED, "float32"))
    ids = aligned_copy(np.full((B, LOGPROBS), UNTOUCHED, "int32"))
    scratch = [aligned(a.shape, a.dtype) for a in logprobs_scratch(spec(B, V))]
    for array in scratch:
        array.view("uint8")[...] = 255
    step = aligned_copy(step_array(0, count, 0, 0))
    before = logits.copy()
    kernel_for(V, isa)(logits, tokens, values, ids, *scratch, step)
    np.testing.assert_array_equal(logits, before)
    assert (values[count:] == UNTOUCHED).all()
    assert (ids[count:] == UNTOUCHED).all()
    return values[:count].copy(), ids[:count].copy()


@pytest.mark.parametrize("V", SIZES)
@pytest.mark.parametrize("shape", SHAPES)
def test_they_are_numpys(shape: str, V: int, isa: str) -> None:
    size = max(V, SMALL)  # what some shapes need at least
    rows = np.stack([SHAPES[shape](size, seed)[:V] for seed in range(B)])
    sampled = np.random.default_rng(V).integers(0, V, B)
    assert_close(run(rows, sampled, isa), rows, sampled)


def test_every_instruction_set_gives_the_same_bits() -> None:
    rows = np.stack([SHAPES[name](LARGE, 3) for name in ("peaked", "flat", "wide", "holes")])
    sampled = np.arange(B)
    values, ids = run(rows, sampled, "portable")
    for other in RUNNABLE:
        got = run(rows, sampled, other)
        assert same_bits(got[0], values)
        assert same_bits(got[1], ids)


@pytest.mark.parametrize("V", [SMALL, LARGE])
def test_a_rows_bits_do_not_depend_on_its_company(V: int) -> None:
    rows, sampled = np.stack([peaked(V, seed) for seed in range(B)]), np.arange(B)
    together = run(rows, sampled)
    for at in range(B):
        for alone, shared in zip(
            run(rows[at : at + 1], sampled[at : at + 1]), together, strict=True
        ):
            assert same_bits(alone[0], shared[at])


def test_of_equal_tokens_the_lowest_ids_come_first_across_blocks() -> None:
    row = np.full((1, LARGE), -1.0, "float32")
    row[0, [8999, 4097, 17, 4095]] = 2.0
    _, ids = run(row, np.array([0]))
    assert ids[0, 1:].tolist() == [17, 4095, 4097, 8999, *range(16)]


@pytest.mark.parametrize("order", [1, -1])
def test_sorted_logits_are_no_special_case(order: int) -> None:
    rows = np.linspace(-30, 5, LARGE, dtype="float32")[None, ::order]
    assert_close(run(rows, np.array([LARGE // 2])), rows, np.array([LARGE // 2]))


@pytest.mark.parametrize("V", [SMALL, LARGE])
@pytest.mark.parametrize("nothing", [np.nan, -np.inf])
def test_a_row_without_any_number_has_no_likely_tokens(nothing: float, V: int) -> None:
    values, ids = run(np.full((1, V), nothing, "float32"), np.array([3]))
    assert (values == -np.inf).all()
    assert ids[0].tolist() == [3] + [-1] * TOP_LOGPROBS


@pytest.mark.parametrize("token", [-1, SMALL, 2**31 - 1, -(2**31)])
def test_a_token_outside_the_vocabulary_is_impossible(token: int) -> None:
    rows = peaked(SMALL, 1)[None]
    values, ids = run(rows, np.array([token]))
    assert (values[0, 0], ids[0, 0]) == (-np.inf, token)
    assert_close((values, ids), rows, np.array([token]))


def test_a_finite_logit_is_finitely_unlikely() -> None:
    rows = np.zeros((1, SMALL), "float32")
    rows[0, :2] = [3.4e38, -3.4e38]
    values, _ = run(rows, np.array([1]))
    assert np.isfinite(values[0, 0])
    assert values[0, 1] == 0


@pytest.mark.full
def test_the_largest_vocabulary_is_summed_as_well_as_a_small_one() -> None:
    V = 262_144
    for name in ("peaked", "flat", "equal"):
        rows, sampled = (
            np.stack([SHAPES[name](V, seed) for seed in range(B)]),
            np.arange(B) * 65_535,
        )
        assert_close(run(rows, sampled), rows, sampled)
