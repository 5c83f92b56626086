"""Quantized linear layers equal their definition in NumPy, on every instruction set."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
import tvm

from edgewise_compiler.kernels.cpu.isa import ISAS
from edgewise_compiler.kernels.cpu.matmul.ints import matmul_int
from edgewise_compiler.kernels.matmul import MatmulSpec
from edgewise_runtime.engine.step_buffers import step_array
from edgewise_runtime.errors import CompileError
from tests.compiler.kernels import reference
from tests.compiler.kernels.conftest import RUNNABLE, Array, aligned, aligned_copy, build
from tests.compiler.kernels.reference import same_bits
from tests.parity.sampled import sampled

pytestmark = pytest.mark.sampled(one_in=8)

N = 37  # four runs of eight rows, a tile of four and a single row


class Case(NamedTuple):
    scheme: str
    epilogue: str
    bias: bool
    NP: int
    K: int


CASES = [
    Case("q4", "store", False, 96, 64),
    Case("q4", "add", True, 64, 96),
    Case("q4", "swiglu", False, 64, 32),
    Case("q4", "swiglu_a8", True, 128, 32),
    Case("q5", "store", True, 32, 64),
    Case("q5", "add", False, 96, 96),
    Case("q5", "swiglu", True, 128, 32),
    Case("q5", "swiglu_a8", False, 64, 96),
    Case("q6", "store", True, 96, 64),
    Case("q6", "add", False, 64, 96),
    Case("q6", "swiglu", True, 64, 32),
    Case("q6", "swiglu_a8", False, 128, 32),
    Case("q8", "store", True, 32, 96),
    Case("q8", "add", False, 64, 32),
    Case("q8", "swiglu", True, 64, 64),
    Case("q8", "swiglu_a8", False, 64, 64),
    Case("q4a", "store", True, 96, 64),
    Case("q4a", "swiglu_a8", False, 64, 96),
    Case("q4k", "store", False, 32, 512),
    Case("q4k", "swiglu", True, 64, 256),
    Case("q4_nl", "store", True, 32, 96),
    Case("q5_nl", "store", True, 96, 224),
    Case("q5_nl", "swiglu_a8", False, 64, 96),
    Case("q6_nl", "store", False, 64, 160),
    Case("q6_nl", "add", True, 32, 64),
    Case("iq4_nl", "store", True, 96, 64),
    Case("iq4_nl", "swiglu_a8", False, 64, 96),
    Case("mxfp4", "store", False, 32, 96),
    Case("mxfp4", "add", True, 64, 64),
]


# Compiling takes all the time, so that the landing suite has every scheme and every epilogue only.
STORING = [case for case in CASES if case.epilogue == "store"]
QUICK = [*STORING, CASES[3], CASES[6], CASES[9]]


@cache
def kernel(isa: str, case: Case) -> Any:
    spec = MatmulSpec(N, case.NP, case.K, case.scheme, case.epilogue, case.bias)
    function = matmul_int(spec, isa)
    return build([function], isa)[str(function.attrs["global_symbol"])]


class Problem(NamedTuple):
    activations: tuple[Array, ...]
    weight: Array  # codes [NP,K]
    scale: Array
    bias: Array | None
    residual: Array


@cache
def problem(case: Case) -> Problem:
    random = np.random.default_rng(case.NP + case.K + reference.BITS[case.scheme])
    x = random.normal(size=(N, case.K)).astype("float32") * random.uniform(0.1, 30, (N, 1))
    x[3, :32] = 0
    w = random.normal(size=(case.NP, case.K)) / 8
    w[5] = 0
    weight, scale = reference.quantize_weight(w, case.scheme)
    return Problem(
        tuple(aligned_copy(part) for part in reference.quantize(x)),
        weight,
        scale,
        aligned_copy(random.normal(size=case.NP).astype("float32")) if case.bias else None,
        random.normal(size=(N, case.NP)).astype("float32"),
    )


def expected(case: Case) -> tuple[Array, ...]:
    data = problem(case)
    y = reference.linear_int(data.activations, data.weight, data.scale, data.bias, case.scheme)
    if case.epilogue == "add":
        return (data.residual + y,)
    if case.epilogue == "swiglu":
        return (reference.swiglu(y),)
    if case.epilogue == "swiglu_a8":
        return reference.quantize(reference.swiglu(y))
    return (y,)


def packed(codes: Array, case: Case) -> Array:
    return reference.pack(codes, reference.BITS[case.scheme])


def run(isa: str, case: Case, n: int, first: int = 0) -> tuple[Array, ...]:
    """Outputs for rows ``first`` to ``first + n``; rows behind stay as they were."""
    data = problem(case)
    rows = [np.roll(part, -first, axis=0) for part in (*data.activations, data.residual)]
    activations = [aligned_copy(part) for part in rows[:3]]
    outputs: tuple[Array, ...] = (aligned_copy(rows[3]),)
    if case.epilogue == "swiglu":
        outputs = (aligned((N, case.NP // 2), "float32"),)
    if case.epilogue == "swiglu_a8":
        groups = (N, case.NP // 64)
        outputs = (
            aligned((N, case.NP // 2), "int8"),
            aligned(groups, "float32"),
            aligned(groups, "int32"),
        )
    step = aligned_copy(step_array(n, 0, 0, 0))
    biases = () if data.bias is None else (data.bias,)
    weights = (packed(data.weight, case), reference.panels(data.scale))
    kernel(isa, case)(*activations, *weights, *biases, *outputs, step)
    return outputs


def name(case: Case) -> str:
    return f"{case.scheme}-{case.epilogue}"


def each() -> Any:
    return pytest.mark.parametrize("case", sampled(CASES, QUICK, name=name))


@each()
@pytest.mark.parametrize("n", [1, 2, 4, 7, 8, 21, N])
def test_rows_equal_the_definition_bit_for_bit(isa: str, case: Case, n: int) -> None:
    for got, want in zip(run(isa, case, n), expected(case), strict=True):
        assert same_bits(got[:n], want[:n])


@each()
def test_rows_that_are_not_live_stay_untouched(isa: str, case: Case) -> None:
    before = run(isa, case, 0)
    for got, untouched in zip(run(isa, case, 6), before, strict=True):
        assert same_bits(got[6:], untouched[6:])


@each()
def test_a_row_alone_equals_the_row_in_a_batch(isa: str, case: Case) -> None:
    batch = run(isa, case, N)
    for row in (0, 3, 9, N - 1):
        for alone, together in zip(run(isa, case, 1, first=row), batch, strict=True):
            assert same_bits(alone[0], together[row])


@each()
def test_instruction_sets_agree(case: Case) -> None:
    first, *others = (run(isa, case, N) for isa in RUNNABLE)
    for other in others:
        assert all(same_bits(left, right) for left, right in zip(first, other, strict=True))


@pytest.mark.sampled(one_in=1)
@pytest.mark.parametrize("epilogue", ["store", "add"])
def test_parts_of_a_linear_write_their_own_columns_only(isa: str, epilogue: str) -> None:
    """64 rows of one scheme, 32 of another, as one linear of both has them."""
    cases = [Case("q6_nl", epilogue, True, 96, 64), Case("q4", epilogue, True, 96, 64)]
    rows = [slice(0, 64), slice(64, 96)]
    specs = [
        MatmulSpec(
            N, part.stop - part.start, 64, case.scheme, epilogue, True, first=part.start, total=96
        )
        for case, part in zip(cases, rows, strict=True)
    ]
    functions = [matmul_int(spec, isa) for spec in specs]
    built = build(functions, isa)
    residual = problem(cases[0]).residual
    out, step = aligned_copy(residual), aligned_copy(step_array(21, 0, 0, 0))
    for case, part, function in zip(cases, rows, functions, strict=True):
        data = problem(case)
        assert data.bias is not None
        weights = packed(data.weight[part], case), reference.panels(data.scale[part])
        bias = aligned_copy(data.bias[part])
        built[str(function.attrs["global_symbol"])](*data.activations, *weights, bias, out, step)
        y = reference.linear_int(
            data.activations, data.weight[part], data.scale[part], data.bias[part], case.scheme
        )
        wanted = residual[:, part] + y if epilogue == "add" else y
        assert same_bits(out[:21, part], wanted[:21])
    assert same_bits(out[21:], residual[21:])


def test_more_live_rows_than_the_bound_are_cut_off(isa: str) -> None:
    case = CASES[0]
    assert same_bits(run(isa, case, N + 1000)[0], expected(case)[0])


def test_fewer_live_rows_than_none_are_none(isa: str) -> None:
    case = CASES[1]
    for n in (-3, -8, -(2**31)):
        assert same_bits(run(isa, case, n)[0], problem(case).residual)


def test_partial_sums_never_come_from_the_heap() -> None:
    """TVM calls an allocator for local buffers of 1 KiB and more: at every tile, here."""
    for scheme, epilogue in (
        ("q4", "swiglu_a8"),
        ("q5", "store"),
        ("q6", "store"),
        ("q8", "store"),
    ):
        function = matmul_int(MatmulSpec(N, 64, 32, scheme, epilogue), RUNNABLE[0])
        library = tvm.compile(tvm.IRModule({"f": function}), target=ISAS[RUNNABLE[0]].target())
        assert "TVMBackendAllocWorkspace" not in library.mod.inspect_source("ll")


@pytest.mark.sampled(one_in=1)
@pytest.mark.parametrize("case", STORING, ids=name)
def test_extreme_codes_do_not_saturate(isa: str, case: Case) -> None:
    integers = reference.INTEGERS[case.scheme]
    for sign in (127, -127):
        xq = aligned_copy(np.full((N, case.K), sign, "int8"))
        xs = aligned_copy(np.ones((N, case.K // 32), "float32"))
        xc = aligned((N, case.K // 32), "int32")
        weight = np.full((case.NP, case.K), integers.argmax(), "uint8")
        scale = reference.ones(case.scheme, case.NP, case.K)
        out = aligned((N, case.NP), "float32")
        step = aligned_copy(np.array([N] + [0] * 7, "int32"))
        biases = (aligned(case.NP, "float32"),) if case.bias else ()
        weights = (packed(weight, case), reference.panels(scale))
        kernel(isa, case)(xq, xs, xc, *weights, *biases, out, step)
        # Without sums of activations no zero point is taken off: integers are from 0 on.
        assert (out == sign * np.ptp(integers) * case.K).all()


def test_quantized_layers_approximate_real_ones() -> None:
    random = np.random.default_rng(5)
    x, w = random.normal(size=(4, 256)), random.normal(size=(64, 256))
    bounds = {
        "q4": 0.12,
        "q5": 0.06,
        "q6": 0.03,
        "q8": 0.02,
        "q4a": 0.12,
        "q4_nl": 0.12,
        "q5_nl": 0.06,
        "q6_nl": 0.03,
        "iq4_nl": 0.12,
        "mxfp4": 0.16,
    }
    for scheme, bound in bounds.items():
        codes, scale = reference.quantize_weight(w, scheme)
        y = reference.linear_int(reference.quantize(x), codes, scale, None, scheme)
        # Rounding errors of K independent products: relative to the norm of the outputs.
        assert np.linalg.norm(y - x @ w.T) < bound * np.linalg.norm(x @ w.T)


@pytest.mark.parametrize(("NP", "K"), [(48, 64), (64, 48)])
def test_shapes_that_do_not_fit_the_layout_are_refused(NP: int, K: int) -> None:
    with pytest.raises(CompileError, match=f"{NP} x {K}"):
        matmul_int(MatmulSpec(N, NP, K, "q4"), "portable")
