"""The linears of decode equal NumPy, and a row's bits depend on the row alone."""

from __future__ import annotations

import copy
import re
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from edgewise_compiler.kernels.gpu.matmul.matvec import matvec
from edgewise_compiler.kernels.gpu.matmul.shape import shape_for
from edgewise_compiler.kernels.gpu.matmul.spec import PartSpec
from edgewise_compiler.kernels.gpu.thread import Launch
from edgewise_compiler.quantize import SCHEMES
from edgewise_runtime.engine.step_buffers import step_array
from edgewise_runtime.format.abi import LOGIT_ROWS, ROWS
from tests import subgroups
from tests.compiler.kernels.gpu.packing import KINDS, columns, linear, pack
from tests.gpu import run

pytestmark = pytest.mark.sampled(one_in=20, covering=False)

EPS = 1e-5
TOLERANCE = 1e-6
"""Relative to the sum of the products' sizes. A product takes part in K/lanes + 10 roundings of
6e-8 at most, 120 in rows as short as these; they mostly cancel (lavapipe stays below 1.5e-7), and
WGSL's exp2 and division may add a few. A wrong column, scale or nibble is off by about 1/K, which
is 3e-4 or more."""


class Case(NamedTuple):
    NP: int
    K: int
    scheme: str
    epilogue: str = "store"
    bias: bool = False
    norm: bool = False
    gather: bool = False
    subgroups: bool = False


CASES = [
    *(Case(96, 256, scheme) for scheme in KINDS),
    *(Case(64, 512, scheme, subgroups=True) for scheme in KINDS),
    Case(32, 32, "q4"),
    Case(160, 1120, "q4", bias=True),
    Case(64, 96, "q4", "add", norm=True),
    Case(128, 288, "q4", "swiglu", norm=True, bias=True),
    Case(128, 288, "q8", "swiglu", norm=True, subgroups=True),
    Case(96, 2048, "f16", "add", subgroups=True),
    # Rows of activations that shared memory takes in pieces, of which the last is shorter.
    Case(32, 3104, "q4", norm=True),
    Case(32, 4160, "f32", norm=True, subgroups=True),
    Case(8192, 64, "q4", norm=True, gather=True),
    Case(8192, 64, "q4", norm=True, gather=True, subgroups=True),
]
each_case = pytest.mark.parametrize("case", CASES, ids=lambda c: "-".join(map(str, c)))


def random_case(seed: int) -> Case:
    rng = np.random.default_rng(seed)
    scheme = str(rng.choice(list(SCHEMES)))
    return Case(
        NP=32 * int(rng.integers(1, 9)),
        K=columns(scheme, 32 * int(rng.integers(1, 100))),
        scheme=scheme,
        epilogue=str(rng.choice(["store", "add", "swiglu"])),
        bias=bool(rng.integers(2)),
        norm=bool(rng.integers(2)),
        gather=bool(rng.integers(2)),
        subgroups=bool(rng.integers(2)),
    )


BOUND, X_ROWS = 11, 16


def kernel(case: Case, batch: int, bound: int = BOUND) -> Launch:
    count = LOGIT_ROWS if case.gather else ROWS
    sizes = (X_ROWS, case.NP, case.K, case.scheme, case.epilogue, case.bias, count)
    width = case.NP // 2 if case.epilogue == "swiglu" else case.NP
    return matvec(
        PartSpec(*sizes, live=bound, width=width),
        batch=batch,
        norm=EPS if case.norm else None,
        gather=case.gather,
        subgroups=case.subgroups,
    )


class Inputs:
    """Random inputs of a case and what the kernel must make of them."""

    def __init__(self, case: Case, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.case = case
        self.x = rng.standard_normal((X_ROWS, case.K), dtype=np.float32)
        self.packed, self.w = pack(case.scheme, rng.standard_normal((case.NP, case.K), np.float32))
        self.norm = rng.standard_normal(case.K, dtype=np.float32)
        self.rows = rng.permutation(X_ROWS)[:BOUND].astype(np.int32)
        self.bias = rng.standard_normal(case.NP, dtype=np.float32)
        height = BOUND if case.gather else X_ROWS
        width = case.NP // 2 if case.epilogue == "swiglu" else case.NP
        self.out = rng.standard_normal((height, width), dtype=np.float32)

    def arrays(self, live: int) -> list[NDArray[Any]]:
        """The kernel's arguments; out is the last but one."""
        case, step = self.case, step_array(0, 0, 0, 0)
        step[2 if case.gather else 0] = live
        extra = [
            array
            for array, there in (
                (self.norm, case.norm),
                (self.rows, case.gather),
                (self.bias, case.bias),
            )
            if there
        ]
        return [self.x, *self.packed, *extra, self.out, step]

    def run(self, batch: int, live: int, bound: int = BOUND, spare: int = 0) -> NDArray[Any]:
        """What the kernel leaves in out, launched for ``spare`` rows more than there are."""
        rows = max(live, 1) + spare
        return run(kernel(self.case, batch, bound), self.arrays(live), n=rows, r=rows)[-2]

    def moved(self, by: int) -> Inputs:
        """The same rows ``by`` places further on in x (or in logit_rows) and in out."""
        other = copy.copy(self)
        if self.case.gather:
            other.rows = np.roll(self.rows, by)
        else:
            other.x = np.roll(self.x, by, axis=0)
        other.out = np.roll(self.out, by, axis=0)
        return other

    def expected(self, live: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The outputs in float64, and the size of what was added up for each."""
        case = self.case
        x = self.x.astype(np.float64)
        x = x[self.rows] if case.gather else x
        if case.norm:
            x = x / np.sqrt((x**2).mean(-1, keepdims=True) + np.float32(EPS)) * self.norm
        bias = self.bias if case.bias else None
        return linear(x, self.w, bias, case.epilogue, self.out, live)


def check(inputs: Inputs, batch: int, live: int) -> None:
    expected, size = inputs.expected(live)
    out = inputs.run(batch, live)
    error = np.abs(out - expected)[:live] / size[:live]
    assert error.max() <= TOLERANCE, f"batch {batch}: {error.max()}"
    np.testing.assert_array_equal(out[live:], inputs.out[live:])


@each_case
@pytest.mark.parametrize("live", [1, 5, BOUND])
def test_outputs_equal_numpy_and_other_rows_stay(case: Case, live: int) -> None:
    inputs = Inputs(case, seed=live)
    for batch in (1, 8):
        check(inputs, batch, live)


@pytest.mark.parametrize("seed", range(6))
def test_random_linears_equal_numpy(seed: int) -> None:
    check(Inputs(random_case(seed), seed), batch=1 + 3 * (seed % 2), live=1 + seed)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(100, 160))
def test_many_random_linears_equal_numpy(seed: int) -> None:
    check(Inputs(random_case(seed), seed), batch=1 + seed % 8, live=1 + seed % BOUND)


@each_case
def test_a_row_has_the_same_bits_in_any_company(case: Case) -> None:
    inputs = Inputs(case, seed=7)
    whole = inputs.run(8, BOUND)[:BOUND]
    np.testing.assert_array_equal(inputs.run(1, BOUND)[:BOUND], whole)
    np.testing.assert_array_equal(inputs.run(1, 1)[0], whole[0])
    np.testing.assert_array_equal(inputs.run(4, BOUND)[:BOUND], whole)
    np.testing.assert_array_equal(inputs.run(8, 2)[:2], whole[:2])
    moved = inputs.moved(3).run(8, BOUND)
    np.testing.assert_array_equal(moved[3:BOUND], whole[: BOUND - 3])


@pytest.mark.landing
@pytest.mark.parametrize("gather", [False, True])
def test_a_row_has_the_same_bits_in_programs_and_launches_of_any_size(gather: bool) -> None:
    inputs = Inputs(Case(64, 288, "q4", norm=True, gather=gather), seed=9)
    whole = inputs.run(1, 3)[:3]
    for batch in (1, 4, 8):
        # The rows a program may have beyond those of this call make no difference.
        for bound, spare in ((BOUND, 7), (3, 0)):
            trimmed = copy.copy(inputs)
            if gather:
                trimmed.rows, trimmed.out = inputs.rows[:bound], inputs.out[:bound]
            np.testing.assert_array_equal(trimmed.run(batch, 3, bound, spare)[:3], whole)


@pytest.mark.parametrize("batch", [1, 8])
def test_rows_that_are_not_live_are_not_read(batch: int) -> None:
    inputs = Inputs(Case(64, 256, "q4", "add", norm=True), seed=3)
    inputs.x[5:] = np.nan
    check(inputs, batch, live=5)


def test_a_narrow_matrix_has_its_columns_split_and_a_high_one_its_rows() -> None:
    narrow, high = shape_for(1024, 96, 1), shape_for(16384, 96, 1)
    assert narrow.lanes > high.lanes
    assert narrow.columns < high.columns
    # How a row is summed is the same in any company.
    for batch in range(1, 9):
        assert shape_for(1024, 96, batch).lanes == narrow.lanes
        assert shape_for(16384, 96, batch).lanes == high.lanes


@pytest.mark.landing
@pytest.mark.parametrize("lanes", [8, 16, 32, 64])
def test_subgroups_of_any_width_and_none_give_the_same_bits(lanes: int) -> None:
    K = {8: 96, 16: 480, 32: 1024, 64: 2048}[lanes]
    assert shape_for(64, K // 32, 1).lanes == lanes
    case = Case(64, K, "q4", "swiglu" if lanes < 32 else "add", norm=True, subgroups=True)
    inputs = Inputs(case, seed=lanes)
    plain = copy.copy(inputs)
    plain.case = case._replace(subgroups=False)
    expected = plain.run(2, 3)
    assert (expected[:3] != inputs.out[:3]).all()
    np.testing.assert_array_equal(inputs.run(2, 3), expected)
    for width in subgroups.WIDTHS:
        out = subgroups.run(kernel(case, 2), inputs.arrays(3), width=width, n=3)[-2]
        np.testing.assert_array_equal(out, expected, err_msg=f"subgroups of {width}")


@pytest.mark.landing
@pytest.mark.parametrize("gather", [False, True])
@pytest.mark.parametrize("epilogue", ["store", "add", "swiglu"])
def test_nothing_happens_once_all_have_stopped(epilogue: str, gather: bool) -> None:
    inputs = Inputs(Case(64, 96, "q4", epilogue, norm=True, gather=gather), seed=1)
    np.testing.assert_array_equal(inputs.run(1, 0), inputs.out)
    np.testing.assert_array_equal(inputs.run(8, 0, spare=8), inputs.out)


def test_swiglu_takes_gates_of_any_size() -> None:
    inputs = Inputs(Case(32, 64, "f32", "swiglu"), seed=4)
    inputs.x[0] *= 1e4
    inputs.x[1] *= 1e-4
    expected, size = inputs.expected(2)
    out = inputs.run(2, 2)
    assert np.abs(expected[0]).max() > 1e8
    assert (np.abs(out - expected) <= TOLERANCE * size).all()


@pytest.mark.parametrize("epilogue", ["store", "swiglu"])
def test_parts_of_a_linear_fill_their_columns(epilogue: str) -> None:
    inputs = Inputs(Case(128, 64, "q4", epilogue, bias=True), seed=2)
    expected, size = inputs.expected(BOUND)
    x, words, scales, bias, out, step = inputs.arrays(BOUND)
    for rows in (slice(0, 32), slice(32, 128)):
        sizes = (X_ROWS, rows.stop - rows.start, 64, "q4", epilogue, True)
        spec = PartSpec(*sizes, live=BOUND, width=out.shape[1], first=rows.start)
        part = matvec(spec, batch=4)
        packed = [array.reshape(128, -1)[rows] for array in (words, scales)]
        out = run(part, [x, *packed, bias[rows], out, step], n=BOUND)[-2]
    assert (np.abs(out - expected) <= TOLERANCE * size).all()


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("K", [1024, 1152, 2304, 5376])
def test_the_largest_parts_of_a_vocabulary_have_workgroups_enough(K: int, scheme: str) -> None:
    K = columns(scheme, K)
    bits = int(re.sub(r"\D", "", SCHEMES[scheme].code))
    rows = min(262144, (128 << 20) // (K * bits // 8) // 32 * 32)
    spec = PartSpec(4, rows, K, scheme, count=LOGIT_ROWS, live=4, width=rows)
    launch = matvec(spec, batch=4, gather=True)
    x, y = launch.workgroups(r=4)
    assert x <= 65535
    assert y == 1
