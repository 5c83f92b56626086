"""The linears of decode equal NumPy, and a row's bits depend on the row alone."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from edgewise_compiler.kernels.gpu import Launch
from edgewise_compiler.kernels.matmul.gpu_matvec import gpu_matvec
from edgewise_compiler.quantize import SCHEMES
from tests.compiler.kernels.gpu_packing import pack
from tests.gpu import run

EPS = 1e-5
TOLERANCE = 3e-6
"""Relative to the sum of the products' sizes: K float32 roundings of 6e-8 each, which mostly
cancel, stay far below; a wrong column, scale or order of nibbles does not."""


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
    *(Case(96, 256, scheme) for scheme in SCHEMES),
    *(Case(64, 512, scheme, subgroups=True) for scheme in SCHEMES),
    Case(32, 32, "q4"),
    Case(160, 1120, "q4", bias=True),
    Case(64, 96, "q4", "add", norm=True),
    Case(128, 288, "q4", "swiglu", norm=True, bias=True),
    Case(128, 288, "q8", "swiglu", norm=True, subgroups=True),
    Case(96, 2048, "f16", "add", subgroups=True),
    Case(4096, 64, "q4", norm=True, gather=True),
    Case(4096, 64, "q4", norm=True, gather=True, subgroups=True),
]
each_case = pytest.mark.parametrize("case", CASES, ids=lambda c: "-".join(map(str, c)))

BOUND, X_ROWS = 11, 16


def kernel(case: Case, batch: int) -> Launch:
    return gpu_matvec(
        X_ROWS,
        case.NP,
        case.K,
        case.scheme,
        batch=batch,
        rows=2 if case.gather else 0,
        bound=BOUND,
        epilogue=case.epilogue,
        bias=case.bias,
        norm=EPS if case.norm else None,
        gather=case.gather,
        out_width=case.NP // 2 if case.epilogue == "swiglu" else case.NP,
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

    def run(self, batch: int, live: int, x: NDArray[np.float32] | None = None) -> NDArray[Any]:
        case, step = self.case, np.zeros(8, np.int32)
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
        arrays = [self.x if x is None else x, *self.packed, *extra, self.out, step]
        return run(kernel(case, batch), arrays, n=max(live, 1), r=max(live, 1))[-2]

    def expected(self, live: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The outputs in float64, and the size of what was added up for each."""
        case = self.case
        x = self.x.astype(np.float64)
        x = x[self.rows] if case.gather else x
        if case.norm:
            x = x / np.sqrt((x**2).mean(-1, keepdims=True) + np.float32(EPS)) * self.norm
        y, size = x @ self.w.T.astype(np.float64), np.abs(x) @ np.abs(self.w.T) + 1
        y = y + self.bias if case.bias else y
        if case.epilogue == "swiglu":
            gate, up = (y.reshape(len(y), -1, 2, 16)[:, :, i].reshape(len(y), -1) for i in (0, 1))
            sizes = size.reshape(len(y), -1, 2, 16).sum(2).reshape(len(y), -1)
            size = sizes * (1 + np.abs(up) + np.abs(gate))
            y = gate / (1 + np.exp(-gate)) * up
        y = y + self.out if case.epilogue == "add" else y
        expected = self.out.astype(np.float64)
        expected[:live] = y[:live]
        return expected, size


@each_case
@pytest.mark.parametrize("live", [1, 5, BOUND])
def test_outputs_equal_numpy_and_other_rows_stay(case: Case, live: int) -> None:
    inputs = Inputs(case, seed=live)
    expected, size = inputs.expected(live)
    for batch in (1, 8):
        error = np.abs(inputs.run(batch, live) - expected)
        assert (error <= TOLERANCE * size).all(), f"batch {batch}: {(error / size).max()}"
        assert not error[live:].any()


@each_case
def test_a_row_has_the_same_bits_in_any_company(case: Case) -> None:
    inputs = Inputs(case, seed=7)
    whole = inputs.run(8, BOUND)[:BOUND]
    for batch in (1, 3, 4):
        np.testing.assert_array_equal(inputs.run(batch, BOUND)[:BOUND], whole)
    alone = inputs.run(1, 1)[0]
    np.testing.assert_array_equal(alone, whole[0])
    if not case.gather and case.epilogue != "add":
        moved = inputs.run(8, BOUND, np.roll(inputs.x, 3, axis=0))
        np.testing.assert_array_equal(moved[3], whole[0])


@pytest.mark.parametrize("epilogue", ["store", "add"])
def test_nothing_happens_once_all_have_stopped(epilogue: str) -> None:
    inputs = Inputs(Case(64, 96, "q4", epilogue), seed=1)
    np.testing.assert_array_equal(inputs.run(1, 0), inputs.out)


def test_parts_of_a_linear_fill_their_columns() -> None:
    rng = np.random.default_rng(2)
    x = rng.standard_normal((4, 64), dtype=np.float32)
    packed, w = pack("q4", rng.standard_normal((128, 64), np.float32))
    out, step = np.zeros((4, 128), np.float32), np.array([4, 1, 0, 0, 0, 0, 0, 0], np.int32)
    for first in (0, 64):
        part = gpu_matvec(4, 64, 64, "q4", batch=4, rows=0, bound=4, out_width=128, first=first)
        words = packed[0].reshape(128, -1)[first : first + 64]
        scales = packed[1].reshape(128, -1)[first : first + 64]
        out = run(part, [x, words, scales, out, step], n=4)[3]
    np.testing.assert_allclose(out, x @ w.T, atol=1e-4)
