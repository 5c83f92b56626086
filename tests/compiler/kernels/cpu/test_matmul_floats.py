"""Float linear layers equal their definition in NumPy, on every instruction set."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest

from edgewise_compiler.kernels.cpu.matmul.floats import matmul_float
from edgewise_compiler.kernels.matmul import MatmulSpec
from tests.compiler.kernels import reference
from tests.compiler.kernels.conftest import RUNNABLE, Array, aligned, aligned_copy, build
from tests.compiler.kernels.reference import same_bits

pytestmark = pytest.mark.sampled(one_in=3)

N = 45  # five runs of eight rows, a tile of four and a single row


class Case(NamedTuple):
    wdtype: str
    epilogue: str
    bias: bool
    NP: int
    K: int
    rows: int = 0


CASES = [
    Case("float32", "store", False, 96, 64, rows=2),
    Case("float32", "add", True, 32, 96),
    Case("float16", "store", True, 32, 32),
    Case("float16", "swiglu", False, 64, 64),
]
each_case = pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.wdtype}-{c.epilogue}")


@cache
def kernels(isa: str) -> dict[Case, Any]:
    functions = {
        case: matmul_float(
            MatmulSpec(
                N,
                case.NP,
                case.K,
                {"float32": "f32", "float16": "f16"}[case.wdtype],
                epilogue=case.epilogue,
                bias=case.bias,
                count=case.rows,
            ),
            isa,
        )
        for case in CASES
    }
    built = build(functions.values(), isa)
    return {case: built[str(f.attrs["global_symbol"])] for case, f in functions.items()}


class Problem(NamedTuple):
    x: Array
    weight: Array
    bias: Array | None
    residual: Array


@cache
def problem(case: Case) -> Problem:
    random = np.random.default_rng(case.NP + case.K)
    return Problem(
        random.normal(size=(N, case.K)).astype("float32"),
        (random.normal(size=(case.NP, case.K)) / 8).astype(case.wdtype),
        aligned_copy(random.normal(size=case.NP).astype("float32")) if case.bias else None,
        random.normal(size=(N, case.NP)).astype("float32"),
    )


@cache
def expected(case: Case) -> Array:
    data = problem(case)
    y = reference.linear_float(data.x, data.weight, data.bias)
    if case.epilogue == "add":
        return data.residual + y
    return reference.swiglu(y) if case.epilogue == "swiglu" else y


def run(isa: str, case: Case, n: int, first: int = 0) -> Array:
    """Output for rows ``first`` to ``first + n``; rows behind stay as they were."""
    data = problem(case)
    out = aligned_copy(np.roll(data.residual, -first, axis=0))
    if case.epilogue == "swiglu":
        out = aligned((N, case.NP // 2), "float32")
    step = aligned(8, "int32")
    step[case.rows] = n
    biases = () if data.bias is None else (data.bias,)
    x = aligned_copy(np.roll(data.x, -first, axis=0))
    kernels(isa)[case](x, reference.panels(data.weight), *biases, out, step)
    return out


@each_case
@pytest.mark.parametrize("n", [1, 3, 4, 13, N])
def test_rows_equal_the_definition_bit_for_bit(isa: str, case: Case, n: int) -> None:
    assert same_bits(run(isa, case, n)[:n], expected(case)[:n])


@each_case
def test_rows_that_are_not_live_stay_untouched(isa: str, case: Case) -> None:
    assert same_bits(run(isa, case, 5)[5:], run(isa, case, 0)[5:])


@each_case
def test_a_row_alone_equals_the_row_in_a_batch(isa: str, case: Case) -> None:
    batch = run(isa, case, N)
    for row in (0, 7, N - 1):
        assert same_bits(run(isa, case, 1, first=row)[0], batch[row])


@each_case
def test_instruction_sets_agree(case: Case) -> None:
    first, *others = (run(isa, case, N) for isa in RUNNABLE)
    assert all(same_bits(first, other) for other in others)


def test_results_are_as_precise_as_float32_sums_get() -> None:
    case = CASES[0]
    data = problem(case)
    exact = data.x.astype("float64") @ data.weight.astype("float64").T
    # K roundings of at most half a last place (2**-24) of a partial sum of magnitudes.
    bound = case.K * 2.0**-24 * (np.abs(data.x).astype("float64") @ np.abs(data.weight).T)
    assert (np.abs(expected(case) - exact) <= bound).all()


def test_parts_of_a_linear_write_their_own_columns_only(isa: str) -> None:
    case = CASES[0]
    data = problem(case)
    out, step = aligned_copy(data.residual), aligned(8, "int32")
    step[case.rows] = 13
    for part in (slice(64, 96), slice(0, 64)):
        height = part.stop - part.start
        spec = MatmulSpec(
            N, height, case.K, "f32", count=case.rows, first=part.start, total=case.NP
        )
        function = matmul_float(spec, isa)
        kernel = build([function], isa)[str(function.attrs["global_symbol"])]
        kernel(aligned_copy(data.x), reference.panels(data.weight[part]), out, step)
    assert same_bits(out[:13], expected(case)[:13])
    assert same_bits(out[13:], data.residual[13:])
