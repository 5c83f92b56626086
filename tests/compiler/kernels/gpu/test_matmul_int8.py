"""Integer linears of prefill have the arithmetic of the CPU's, and a row's bits are its own."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from edgewise_compiler.kernels.gpu.matmul.matmul_int8 import matmul_int8, quantize
from edgewise_compiler.kernels.gpu.matmul.spec import PartSpec
from edgewise_runtime.engine.step_buffers import step_array
from tests.compiler.kernels import reference
from tests.compiler.kernels.gpu.packing import linear, pack
from tests.gpu import run

pytestmark = pytest.mark.sampled(one_in=8, covering=False)

N = 70
TOLERANCE = 1e-6
"""Relative to the sum of the products' sizes: groups are exact, so what is left is one float32
rounding a group and a scale's."""


class Case(NamedTuple):
    NP: int
    K: int
    scheme: str
    epilogue: str = "store"
    bias: bool = False


CASES = [
    Case(96, 96, "q4"),
    Case(96, 160, "q8"),
    Case(32, 32, "q4"),
    Case(96, 96, "q6"),
    Case(96, 160, "q5"),
    Case(96, 96, "q4a"),
    Case(32, 256, "q4k"),
    Case(96, 96, "iq4_nl"),
    Case(96, 96, "q4_nl"),
    Case(96, 160, "q5_nl"),
    Case(96, 96, "q6_nl"),
    Case(160, 256, "q4", "add", bias=True),
    Case(96, 128, "q8", "swiglu"),
    Case(128, 96, "q4", "swiglu", bias=True),
]
each_case = pytest.mark.parametrize("case", CASES, ids=lambda c: "-".join(map(str, c)))


def step(live: int) -> NDArray[np.int32]:
    return step_array(live, 1, 0, 0)


@pytest.mark.parametrize("K", [32, 96, 2080])
def test_activations_are_rounded_as_on_the_cpu(K: int) -> None:
    x = np.random.default_rng(K).standard_normal((N, K), dtype=np.float32)
    x[3, :32] = 0
    x[4] *= 1e-20
    codes, scales, _ = reference.quantize(x)
    before = np.full((N, K // 4), 7, np.uint32)
    for live in (1, 9, N):
        arrays = [x, before, np.zeros((N, K // 32), np.float32), step(live)]
        _, xq, xs, _ = run(quantize(N, K), arrays, n=live)
        found = xq.view(np.int8).reshape(N, K)[:live]
        # A product of two floats is rounded here; it may fall on the other side of a half.
        assert (np.abs(found.astype(int) - codes[:live]) <= 1).all()
        assert (found != codes[:live]).mean() < 1e-3
        np.testing.assert_allclose(xs[:live], scales[:live], rtol=1e-6)
        np.testing.assert_array_equal(xq[live:], before[live:])


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_group_with_a_number_that_is_not_finite_has_such_a_scale(value: float) -> None:
    x = np.random.default_rng(1).standard_normal((N, 96), dtype=np.float32)
    for place in (0, 31):
        x[3, 32 + place] = value
        xq, scales = np.zeros((N, 24), np.uint32), np.zeros((N, 3), np.float32)
        _, _, scales, _ = run(quantize(N, 96), [x, xq, scales, step(N)], n=N)
        assert np.argwhere(~np.isfinite(scales)).tolist() == [[3, 1]]
        x[3, 32 + place] = 1


class Inputs:
    """Random inputs of a case and what the kernel must make of them."""

    def __init__(self, case: Case, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.case = case
        x = rng.standard_normal((N, case.K), dtype=np.float32)
        self.codes, self.scales, _ = reference.quantize(x)
        self.packed, self.w = pack(case.scheme, rng.standard_normal((case.NP, case.K), np.float32))
        self.bias = rng.standard_normal(case.NP, dtype=np.float32)
        width = case.NP // 2 if case.epilogue == "swiglu" else case.NP
        self.out = rng.standard_normal((N, width), dtype=np.float32)

    def run(self, few: bool, live: int, roll: int = 0) -> NDArray[Any]:
        case = self.case
        sizes = (N, case.NP, case.K, case.scheme, case.epilogue, case.bias)
        kernel = matmul_int8(PartSpec(*sizes, live=N, width=self.out.shape[1]), few=few)
        words = np.roll(self.codes, roll, axis=0).view(np.uint32)
        scales = np.roll(self.scales, roll, axis=0)
        bias = [self.bias] if case.bias else []
        arrays = [words, scales, *self.packed, *bias, self.out, step(live)]
        return run(kernel, arrays, n=max(live, 1))[-2]

    def expected(self, live: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The outputs in float64, and the size of what was added up for each."""
        case = self.case
        bias = self.bias if case.bias else None
        x = self.codes.astype(np.float64) * np.repeat(self.scales.astype(np.float64), 32, axis=1)
        return linear(x, self.w, bias, case.epilogue, self.out, live)


@each_case
@pytest.mark.parametrize("live", [1, 13, 65, N])
def test_outputs_equal_numpy_and_other_rows_stay(case: Case, live: int) -> None:
    inputs = Inputs(case, seed=live)
    expected, size = inputs.expected(live)
    error = np.abs(inputs.run(live < 16, live) - expected)
    assert (error <= TOLERANCE * size).all(), (error / size).max()
    assert not error[live:].any()


@each_case
def test_a_row_has_the_same_bits_in_either_tile_and_any_company(case: Case) -> None:
    inputs = Inputs(case, seed=7)
    whole = inputs.run(False, N)
    np.testing.assert_array_equal(inputs.run(True, N), whole)
    np.testing.assert_array_equal(inputs.run(True, 1)[0], whole[0])
    if case.epilogue != "add":
        np.testing.assert_array_equal(np.roll(whole, 5, axis=0), inputs.run(False, N, roll=5))
