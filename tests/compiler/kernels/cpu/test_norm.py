"""RMS normalization equals its definition in NumPy, on every instruction set."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest

from edgewise_compiler.kernels.cpu.elementwise.norm import rms_norm
from edgewise_compiler.kernels.norm import NormSpec
from edgewise_runtime.format.abi import LOGIT_ROWS, ROWS
from tests.compiler.kernels import reference
from tests.compiler.kernels.conftest import RUNNABLE, Array, aligned, aligned_copy, build
from tests.compiler.kernels.reference import same_bits

pytestmark = pytest.mark.sampled(one_in=3)

N, H, EPS, GATHERED = 11, 96, 1e-5, 3


class Case(NamedTuple):
    out: str
    gather: bool
    count: int = ROWS


CASES = [
    Case("f32", False),
    Case("f32", True, LOGIT_ROWS),
    Case("a8", False),
    Case("a8", True, LOGIT_ROWS),
    Case("f32", False, LOGIT_ROWS),
]
each_case = pytest.mark.parametrize(
    "case", CASES, ids=lambda c: c.out + ("-gather" if c.gather else "") + f"-{c.count}"
)


@cache
def kernels(isa: str) -> dict[Case, Any]:
    functions = {
        case: rms_norm(
            NormSpec(N, H, EPS, GATHERED if case.gather else None, case.count),
            isa,
            quantized=case.out == "a8",
        )
        for case in CASES
    }
    built = build(functions.values(), isa)
    return {case: built[str(f.attrs["global_symbol"])] for case, f in functions.items()}


@cache
def data() -> tuple[Array, Array]:
    random = np.random.default_rng(6)
    x = (random.normal(size=(N, H)) * random.uniform(0.01, 100, (N, 1))).astype("float32")
    x[4] = 0
    return aligned_copy(x), aligned_copy(random.normal(size=H).astype("float32"))


def definition(x: Array, weight: Array) -> Array:
    total = np.zeros((len(x), 32), "float32")
    for part in np.split(x, H // 32, axis=1):
        total = reference.fma(part, part, total)
    squares = reference.lane_sum(total[:, :16] + total[:, 16:])
    scale = np.float32(1) / np.sqrt(squares / np.float32(H) + np.float32(EPS))
    return x * scale[:, None] * weight


def run(isa: str, case: Case, n: int, rows: tuple[int, ...] = (9, 0, 4)) -> tuple[Array, ...]:
    x, weight = data()
    count = GATHERED if case.gather else N
    outputs: tuple[Array, ...] = (aligned((count, H), "float32"),)
    if case.out == "a8":
        groups = (count, H // 32)
        outputs = (
            aligned((count, H), "int8"),
            aligned(groups, "float32"),
            aligned(groups, "int32"),
        )
    step = aligned(8, "int32")
    step[case.count] = n
    gathered = (aligned_copy(np.array(rows, "int32")),) if case.gather else ()
    kernels(isa)[case](x, weight, *gathered, *outputs, step)
    return outputs


def expected(case: Case, rows: tuple[int, ...] = (9, 0, 4)) -> tuple[Array, ...]:
    x, weight = data()
    y = definition(x[list(rows)] if case.gather else x, weight)
    return reference.quantize(y) if case.out == "a8" else (y,)


@each_case
@pytest.mark.parametrize("n", [1, 2, 3, 8, N])
def test_rows_equal_the_definition_bit_for_bit(isa: str, case: Case, n: int) -> None:
    for got, want in zip(run(isa, case, n), expected(case), strict=True):
        assert same_bits(got[:n], want[:n])
        assert not got[n:].any()


@each_case
def test_instruction_sets_agree(case: Case) -> None:
    first, *others = (run(isa, case, N) for isa in RUNNABLE)
    for other in others:
        assert all(same_bits(left, right) for left, right in zip(first, other, strict=True))


def test_gathered_rows_outside_the_input_read_the_nearest_row(isa: str) -> None:
    got = run(isa, CASES[1], GATHERED, rows=(-5, 10**6, 2))
    assert same_bits(got[0], expected(CASES[1], rows=(0, N - 1, 2))[0])


def test_the_definition_is_rms_normalization() -> None:
    x, weight = data()
    wide = x.astype("float64")
    exact = wide / np.sqrt((wide**2).mean(-1, keepdims=True) + EPS) * weight
    # Five roundings after a sum of squares whose relative error is far below one.
    assert np.allclose(definition(x, weight), exact, rtol=1e-6, atol=0)
