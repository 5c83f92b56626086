"""Quantized activations equal their definition in NumPy, on every instruction set."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from edgewise_compiler.kernels.cpu.elementwise.quantize import quantize
from edgewise_runtime.format.abi import LOGIT_ROWS, ROWS
from tests.compiler.kernels import reference
from tests.compiler.kernels.conftest import RUNNABLE, Array, aligned, aligned_copy, build
from tests.compiler.kernels.reference import same_bits

N, K = 10, 160
COUNTS = (ROWS, LOGIT_ROWS)


@cache
def kernels(isa: str) -> dict[int, Any]:
    functions = {count: quantize(N, K, isa, count) for count in COUNTS}
    built = build(functions.values(), isa)
    return {case: built[str(f.attrs["global_symbol"])] for case, f in functions.items()}


def run(isa: str, x: Array, n: int, count: int = ROWS) -> tuple[Array, Array, Array]:
    groups = (N, K // 32)
    outputs = aligned((N, K), "int8"), aligned(groups, "float32"), aligned(groups, "int32")
    step = aligned(8, "int32")
    step[count] = n
    kernels(isa)[count](aligned_copy(x), *outputs, step)
    return outputs


def rows(seed: int = 0) -> Array:
    random = np.random.default_rng(seed)
    x = random.normal(size=(N, K)) * np.exp2(random.integers(-40, 40, (N, 1)))
    x[1, :32] = 0
    x[2, 32:64] = [127, *(np.arange(-15, 16) * 8 + 0.5)]  # with a scale of 1, ties
    x[3, :32] *= 2.0**-140 / np.abs(x[3, :32]).max()  # subnormal
    x[4, :32] = -3e38
    return x.astype("float32")


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("n", [0, 1, 7, 8, N])
def test_rows_equal_the_definition_bit_for_bit(isa: str, count: int, n: int) -> None:
    for got, want in zip(run(isa, rows(), n, count), reference.quantize(rows()), strict=True):
        assert same_bits(got[:n], want[:n])
        assert not got[n:].any()


def test_codes_stay_within_127_and_give_the_value_back(isa: str) -> None:
    x = rows(1)
    xq, xs, _ = run(isa, x, N)
    assert np.abs(xq.astype("int32")).max() == 127
    value = xq.reshape(N, -1, 32) * xs[..., None].astype("float64")
    # Half a step of rounding, the roundings of scale and quotient, and the cap on the quotient,
    # which turns values below 127 / 3.4e38 to zero.
    bound = xs[..., None].astype("float64") * (0.5 + 127 * 2.0**-23) + 127 / 3.4e38
    assert (np.abs(value - x.reshape(N, -1, 32)) <= bound).all()


def test_a_group_comes_with_the_sum_of_its_codes(isa: str) -> None:
    xq, _, xc = run(isa, rows(), N)
    assert (xc == xq.reshape(N, -1, 32).sum(-1, dtype="int32")).all()


def test_instruction_sets_agree() -> None:
    first, *others = (run(isa, rows(2), N) for isa in RUNNABLE)
    for other in others:
        assert all(same_bits(left, right) for left, right in zip(first, other, strict=True))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, 15, 16, 31])
def test_a_group_with_a_number_that_is_not_finite_has_such_a_scale(
    place: int, value: float, isa: str
) -> None:
    x = rows()
    x[3, 64 + place] = value
    _, scales, _ = run(isa, x, N)
    assert np.argwhere(~np.isfinite(scales)).tolist() == [[3, 2]]
