"""Linears without barriers equal NumPy, and one row at a time gives the bits that four give."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from edgewise_compiler.kernels.gpu.matmul.serial import matmul_serial
from edgewise_compiler.kernels.gpu.matmul.spec import PartSpec
from edgewise_runtime.engine.step_buffers import step_array
from edgewise_runtime.format.abi import LOGIT_ROWS, ROWS
from tests.compiler.kernels.gpu.packing import KINDS, columns, linear, pack
from tests.gpu import run

pytestmark = pytest.mark.sampled(one_in=12)

BOUND = 11
TOLERANCE = 3e-6
"""Relative to the sum of the products' sizes: a chain of K additions rounds K times by 6e-8 at
most, 7e-5 for rows as long as these, and the roundings mostly cancel (lavapipe stays below 4e-7).
A wrong column, scale or nibble is off by about 1/K, which is 8e-4 or more."""


class Case(NamedTuple):
    NP: int
    K: int
    scheme: str
    epilogue: str = "store"
    bias: bool = False
    logits: bool = False


CASES = [
    *(Case(96, 256, scheme) for scheme in KINDS),
    *(Case(128, columns(scheme, 96), scheme, "swiglu", bias=True) for scheme in KINDS),
    Case(32, 32, "q4"),
    Case(160, 1120, "q4", "add", bias=True),
    Case(288, 64, "q8", logits=True),
]
each_case = pytest.mark.parametrize("case", CASES, ids=lambda c: "-".join(map(str, c)))


class Inputs:
    """Random inputs of a case and what the kernel must make of them."""

    def __init__(self, case: Case) -> None:
        rng = np.random.default_rng(case.NP * case.K)
        self.case = case
        self.x = rng.standard_normal((BOUND, case.K), dtype=np.float32)
        self.packed, self.w = pack(case.scheme, rng.standard_normal((case.NP, case.K), np.float32))
        self.bias = rng.standard_normal(case.NP, dtype=np.float32)
        self.width = case.NP // 2 if case.epilogue == "swiglu" else case.NP
        self.out = rng.standard_normal((BOUND, self.width), dtype=np.float32)

    def run(self, live: int, *, single: bool) -> NDArray[Any]:
        """What the kernel leaves in out."""
        case, step = self.case, step_array(0, 0, 0, 0)
        step[2 if case.logits else 0] = live
        count = LOGIT_ROWS if case.logits else ROWS
        sizes = (BOUND, case.NP, case.K, case.scheme, case.epilogue, case.bias, count)
        kernel = matmul_serial(PartSpec(*sizes, live=BOUND, width=self.width), single=single)
        bias = [self.bias] if case.bias else []
        return run(kernel, [self.x, *self.packed, *bias, self.out, step], n=live, r=live)[-2]


@each_case
def test_live_rows_equal_numpy_and_others_stay(case: Case) -> None:
    inputs = Inputs(case)
    bias = inputs.bias if case.bias else None
    for live in (1, 4, 6, BOUND):
        expected, size = linear(
            inputs.x.astype(np.float64), inputs.w, bias, case.epilogue, inputs.out, live
        )
        out = inputs.run(live, single=False)
        assert (np.abs(out - expected)[:live] / size[:live]).max() <= TOLERANCE
        np.testing.assert_array_equal(out[live:], inputs.out[live:])


@each_case
def test_a_row_has_the_same_bits_alone_and_with_others(case: Case) -> None:
    inputs = Inputs(case)
    together = inputs.run(BOUND, single=False)
    np.testing.assert_array_equal(inputs.run(BOUND, single=True), together)
    np.testing.assert_array_equal(inputs.run(3, single=False)[:3], together[:3])


@pytest.mark.parametrize("single", [False, True])
def test_nothing_happens_once_all_have_stopped(single: bool) -> None:
    inputs = Inputs(Case(64, 96, "q4", "add"))
    inputs.x[:] = np.nan
    step = np.zeros(8, np.int32)
    kernel = matmul_serial(PartSpec(BOUND, 64, 96, "q4", live=BOUND, width=64), single=single)
    out = run(kernel, [inputs.x, *inputs.packed, inputs.out, step], n=BOUND)[-2]
    np.testing.assert_array_equal(out, inputs.out)


def test_parts_of_a_linear_fill_their_columns() -> None:
    inputs = Inputs(Case(128, 64, "q4", "swiglu", bias=True))
    whole = inputs.run(BOUND, single=False)
    step = step_array(BOUND, 0, 0, 0)
    out = inputs.out
    for rows in (slice(0, 32), slice(32, 128)):
        sizes = (BOUND, rows.stop - rows.start, 64, "q4", "swiglu", True)
        part = matmul_serial(PartSpec(*sizes, live=BOUND, width=64, first=rows.start), single=False)
        packed = [array.reshape(128, -1)[rows] for array in inputs.packed]
        out = run(part, [inputs.x, *packed, inputs.bias[rows], out, step], n=BOUND)[-2]
    np.testing.assert_array_equal(out, whole)
