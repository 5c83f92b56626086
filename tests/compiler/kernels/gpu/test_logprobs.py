"""Log-probabilities on the GPU: NumPy's, as on the CPU, whatever the row's company."""

from __future__ import annotations

import numpy as np
import pytest

from edgewise_compiler.kernels.gpu.sampling.logprobs import logprobs
from edgewise_compiler.kernels.gpu.sampling.tops import tops, tops_shape
from edgewise_runtime.engine.step_buffers import step_array
from edgewise_runtime.format.abi import LOGPROBS, TOP_LOGPROBS
from tests import gpu
from tests.compiler.kernels.conftest import Array
from tests.compiler.kernels.cpu.test_logprobs import SIZES
from tests.compiler.kernels.cpu.test_sample import LARGE, SHAPES, SMALL, peaked
from tests.compiler.kernels.logprobs_cases import assert_close
from tests.compiler.kernels.reference import same_bits
from tests.compiler.kernels.sampling_batch import UNTOUCHED, padded, spec

pytestmark = pytest.mark.sampled(one_in=14, covering=False)

B = 4


def run(rows: Array, sampled: Array) -> tuple[Array, Array]:
    """Log-probabilities and ids of rows of logits; all around them is poisoned."""
    count, V = rows.shape
    logits = np.full((B, padded(V)), np.inf, np.float32)
    logits[:count, :V] = rows
    tokens = np.full(B, UNTOUCHED, np.int32)
    tokens[:count] = sampled
    step = step_array(0, count, 0, 0)
    found = np.full(tops_shape(B, padded(V)), 0x7F7F7F7F, np.int32)
    values = np.full((B, LOGPROBS), UNTOUCHED, np.float32)
    ids = np.full((B, LOGPROBS), UNTOUCHED, np.int32)
    _, found, _ = gpu.run(tops(spec(B, V)), [logits, found, step], b=B)
    after = gpu.run(logprobs(spec(B, V)), [logits, tokens, found, values, ids, step], b=B)
    values, ids = after[3], after[4]
    assert (values[count:] == UNTOUCHED).all()
    assert (ids[count:] == UNTOUCHED).all()
    return values[:count], ids[:count]


@pytest.mark.parametrize("V", SIZES)
@pytest.mark.parametrize("shape", SHAPES)
def test_they_are_numpys(shape: str, V: int) -> None:
    size = max(V, SMALL)  # what some shapes need at least
    rows = np.stack([SHAPES[shape](size, seed)[:V] for seed in range(B)])
    sampled = np.random.default_rng(V).integers(0, V, B)
    assert_close(run(rows, sampled), rows, sampled)


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
@pytest.mark.parametrize("step", [1, 7])
def test_neighbours_may_be_the_likeliest(order: int, step: int) -> None:
    """Sorted, so that one thread of a workgroup has all the best tokens; in steps, so that many
    are equal."""
    steps = np.arange(LARGE) // step * step
    rows = (steps / 1000).astype("float32")[None, ::order]
    assert_close(run(rows, np.array([LARGE // 2])), rows, np.array([LARGE // 2]))


@pytest.mark.parametrize("runs", [1, 18, 19, 20, 21])
def test_the_best_tokens_may_fill_whole_runs_of_threads(runs: int) -> None:
    rng = np.random.default_rng(runs)
    row = rng.normal(size=LARGE).astype("float32")
    for start in rng.choice(LARGE // 16, runs, replace=False) * 16:
        row[start : start + 16] += 10
    assert_close(run(row[None], np.array([5])), row[None], np.array([5]))


@pytest.mark.parametrize("V", [SMALL, LARGE])
@pytest.mark.parametrize("nothing", [np.nan, -np.inf])
def test_a_row_without_any_number_has_no_likely_tokens(nothing: float, V: int) -> None:
    values, ids = run(np.full((1, V), nothing, "float32"), np.array([3]))
    assert (values == -np.inf).all()
    assert ids[0].tolist() == [3] + [-1] * TOP_LOGPROBS


@pytest.mark.parametrize("token", [-1, SMALL, 2**31 - 1, -(2**31)])
def test_a_token_outside_the_vocabulary_is_impossible(token: int) -> None:
    rows = peaked(SMALL, 1)[None]
    assert_close(run(rows, np.array([token])), rows, np.array([token]))


@pytest.mark.full
def test_the_largest_vocabulary_is_summed_as_well_as_a_small_one() -> None:
    V = 262_144
    for name in ("peaked", "flat", "equal"):
        rows = np.stack([SHAPES[name](V, seed) for seed in range(B)])
        sampled = np.arange(B) * 65_535
        assert_close(run(rows, sampled), rows, sampled)
