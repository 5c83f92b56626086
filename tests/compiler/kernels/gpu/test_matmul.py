"""The linears of prefill equal NumPy, and a row's bits depend on the row alone."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from edgewise_compiler.kernels.gpu.matmul.matmul import matmul, tile_for
from edgewise_compiler.kernels.gpu.matmul.spec import PartSpec
from edgewise_compiler.kernels.gpu.thread import Launch
from edgewise_runtime.engine.step_buffers import step_array
from tests.compiler.kernels.gpu.packing import KINDS, columns, linear, pack
from tests.gpu import run

pytestmark = pytest.mark.sampled(one_in=14, covering=False)

N = 70
TOLERANCE = {False: 3e-6, True: 1.5e-3}
"""Relative to the sum of the products' sizes. float32: K roundings of 6e-8 each that mostly cancel.
float16: each product of two rounded numbers is off by up to 2^-10, and sums of eight are rounded
eight times to 2^-11; all of one sign would be 4.9e-3, which random signs never come near."""


class Case(NamedTuple):
    NP: int
    K: int
    scheme: str
    epilogue: str = "store"
    bias: bool = False
    half: bool = False


CASES = [
    *(Case(96, columns(scheme, 96), scheme) for scheme in KINDS),
    *(Case(64, columns(scheme, 160), scheme, half=True) for scheme in KINDS),
    Case(32, 32, "q4"),
    Case(32, 32, "q4", half=True),
    Case(160, 256, "q4", "add", bias=True),
    Case(160, 64, "q8", "add", half=True),
    Case(96, 128, "q4", "swiglu"),
    Case(128, 96, "f16", "swiglu", bias=True, half=True),
    # Matrices whose tiles have 64 columns, and 128.
    Case(2112, 96, "q4", "swiglu"),
    Case(2112, 160, "q8", half=True),
    Case(4128, 160, "q4", "add", bias=True),
    Case(4128, 96, "q5", "swiglu", half=True),
]
each_case = pytest.mark.parametrize("case", CASES, ids=lambda c: "-".join(map(str, c)))


def kernel(case: Case, few: bool) -> Launch:
    width = case.NP // 2 if case.epilogue == "swiglu" else case.NP
    sizes = (N, case.NP, case.K, case.scheme, case.epilogue, case.bias)
    return matmul(PartSpec(*sizes, live=N, width=width), few=few, half=case.half)


class Inputs:
    """Random inputs of a case and what the kernel must make of them."""

    def __init__(self, case: Case, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.case = case
        self.x = rng.standard_normal((N, case.K), dtype=np.float32)
        self.packed, self.w = pack(case.scheme, rng.standard_normal((case.NP, case.K), np.float32))
        self.bias = rng.standard_normal(case.NP, dtype=np.float32)
        width = case.NP // 2 if case.epilogue == "swiglu" else case.NP
        self.out = rng.standard_normal((N, width), dtype=np.float32)

    def run(self, few: bool, live: int, x: NDArray[np.float32] | None = None) -> NDArray[Any]:
        step = step_array(live, 1, 0, 0)
        bias = [self.bias] if self.case.bias else []
        arrays = [self.x if x is None else x, *self.packed, *bias, self.out, step]
        return run(kernel(self.case, few), arrays, n=max(live, 1))[-2]

    def expected(self, live: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The outputs in float64, and the size of what was added up for each."""
        case = self.case
        bias = self.bias if case.bias else None
        return linear(self.x.astype(np.float64), self.w, bias, case.epilogue, self.out, live)


@each_case
@pytest.mark.parametrize("live", [1, 13, 65, N])
def test_outputs_equal_numpy_and_other_rows_stay(case: Case, live: int) -> None:
    inputs = Inputs(case, seed=live)
    expected, size = inputs.expected(live)
    error = np.abs(inputs.run(live < 16, live) - expected)
    assert (error <= TOLERANCE[case.half] * size).all(), (error / size).max()
    assert not error[live:].any()


@each_case
def test_a_row_has_the_same_bits_in_either_tile_and_any_company(case: Case) -> None:
    inputs = Inputs(case, seed=7)
    whole = inputs.run(False, N)
    np.testing.assert_array_equal(inputs.run(True, N), whole)
    np.testing.assert_array_equal(inputs.run(True, 1)[0], whole[0])
    if case.epilogue != "add":
        moved = inputs.run(False, N, np.roll(inputs.x, 5, axis=0))
        np.testing.assert_array_equal(np.roll(whole, 5, axis=0), moved)


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("K", [96, 128])
@pytest.mark.parametrize("few", [False, True])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_row_that_is_not_finite_stays_alone(half: bool, K: int, few: bool, value: float) -> None:
    inputs = Inputs(Case(32, K, "q4", half=half), seed=4)
    clean = inputs.run(few, 5)
    inputs.x[[2, 5]] = value  # a live row, and one that no longer counts
    found = inputs.run(few, 5)
    assert not np.isfinite(found[2]).any()
    others = [0, 1, 3, 4]
    np.testing.assert_array_equal(found[others], clean[others])


@pytest.mark.parametrize("half", [False, True])
def test_tiles_fit_what_memory_workgroups_share(half: bool) -> None:
    tiles = {
        tile_for(outputs, few=few, half=half)
        for outputs in (32, 1024, 2048, 4096, 1 << 16)
        for few in (False, True)
    }
    assert {tile.columns for tile in tiles} == {32, 64, 128}
    for tile in tiles:
        bytes_of_vector = 8 if half else 16
        assert (tile.rows + tile.columns) * tile.vectors * bytes_of_vector <= 16 << 10


def test_nothing_happens_without_rows() -> None:
    inputs = Inputs(Case(64, 96, "q4", "add"), seed=1)
    np.testing.assert_array_equal(inputs.run(False, 0), inputs.out)


@pytest.mark.parametrize(
    ("value", "counted"), [(3e5, 3e5), (-4e5, -4e5), (1e9, np.inf), (-1e9, -np.inf)]
)
def test_inputs_beyond_float16_count_up_to_a_million(value: float, counted: float) -> None:
    inputs = Inputs(Case(32, 32, "q4", half=True), seed=3)
    inputs.x[0] = 0
    inputs.x[0, 0] = value
    inputs.packed, inputs.w = pack("q4", np.full((32, 32), 0.7, np.float32))
    found = inputs.run(True, 1)[0]
    np.testing.assert_allclose(found, counted * inputs.w[:, 0], rtol=2e-3)


def test_parts_of_a_linear_fill_their_columns() -> None:
    rng = np.random.default_rng(2)
    x = rng.standard_normal((N, 64), dtype=np.float32)
    packed, w = pack("q4", rng.standard_normal((128, 64), np.float32))
    out, step = np.zeros((N, 128), np.float32), step_array(N, 1, 0, 0)
    for first in (0, 64):
        part = matmul(
            PartSpec(N, 64, 64, "q4", live=N, width=128, first=first), few=False, half=False
        )
        words = packed[0].reshape(128, -1)[first : first + 64]
        scales = packed[1].reshape(128, -1)[first : first + 64]
        out = run(part, [x, words, scales, out, step], n=N)[3]
    np.testing.assert_allclose(out, x @ w.T, atol=1e-4)
