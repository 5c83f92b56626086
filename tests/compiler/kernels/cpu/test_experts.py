"""Mixtures of experts on the CPU: the choice, each pair's result, and what they add up to."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest

from edgewise_compiler.kernels.cpu.experts.combine import combine
from edgewise_compiler.kernels.cpu.experts.matmul import experts
from edgewise_compiler.kernels.cpu.experts.route import route
from edgewise_compiler.kernels.experts import ExpertsSpec, RouteSpec
from edgewise_runtime.engine.step_buffers import step_array
from tests.compiler.kernels import reference
from tests.compiler.kernels.conftest import RUNNABLE, Array, aligned, aligned_copy, build
from tests.compiler.kernels.experts_cases import choices, clamped, grouped, routed
from tests.compiler.kernels.reference import same_bits
from tests.parity.sampled import sampled

pytestmark = pytest.mark.sampled(one_in=8)

N, E, CHOSEN = 37, 11, 3

ROUTES = [
    RouteSpec(N, 64, E, CHOSEN, normalize=True, shared=False, bias=False),
    RouteSpec(N, 32, 20, 4, normalize=False, shared=True, bias=True),
    RouteSpec(N, 32, 150, 8, normalize=True, shared=True, bias=False),
]


def live(n: int) -> Array:
    return aligned_copy(step_array(n, 0, 0, 0))


class RouteProblem(NamedTuple):
    x: Array
    weight: Array
    bias: Array | None
    logits: Array


@cache
def route_problem(spec: RouteSpec) -> RouteProblem:
    random = np.random.default_rng(spec.experts)
    x = random.normal(size=(N, spec.inputs)).astype("float32")
    weight = np.zeros((spec.inputs, spec.columns), "float32")
    weight[:, : spec.logits] = random.normal(size=(spec.inputs, spec.logits)) / 4
    weight[:, 5] = weight[:, 2]
    bias = random.normal(size=spec.columns).astype("float32") if spec.bias else None
    if bias is not None:
        bias[5] = bias[2]
    logits = reference.linear_float(x, np.ascontiguousarray(weight.T), bias)
    return RouteProblem(*map(aligned_copy, (x, weight)), bias, logits[:, : spec.logits])


@cache
def route_kernel(spec: RouteSpec, isa: str) -> Any:
    function = route(spec, isa)
    return build([function], isa)[str(function.attrs["global_symbol"])]


def run_route(spec: RouteSpec, isa: str, n: int, x: Array | None = None) -> tuple[Array, ...]:
    data = route_problem(spec)
    outputs = (
        aligned((N, spec.chosen), "int32"),
        aligned((N, spec.weights), "float32"),
        aligned(N * spec.chosen, "int32"),
        aligned((2, spec.experts + 1), "int32"),
    )
    biases = () if data.bias is None else (aligned_copy(data.bias),)
    source = data.x if x is None else aligned_copy(x)
    route_kernel(spec, isa)(source, data.weight, *biases, *outputs, live(n))
    return outputs


@pytest.mark.parametrize("spec", ROUTES, ids=lambda spec: spec.name)
def test_the_largest_logits_choose_and_of_equal_ones_the_first(spec: RouteSpec, isa: str) -> None:
    want = routed(spec, route_problem(spec).logits)
    ids, weights, *_ = run_route(spec, isa, N)
    assert (ids == want.ids).all()
    np.testing.assert_allclose(weights, want.weights, rtol=2e-6)
    both = (ids == 2).any(axis=1) & (ids == 5).any(axis=1)
    assert both.any()
    assert ((ids[both] == 2).argmax(axis=1) < (ids[both] == 5).argmax(axis=1)).all()


@pytest.mark.parametrize("n", [1, 3, N])
def test_pairs_are_in_the_order_of_their_experts(n: int, isa: str) -> None:
    ids, _, order, groups = run_route(ROUTES[0], isa, n)
    want, starts = grouped(ids, n, E)
    active = np.flatnonzero(np.diff(starts))
    assert (order[: len(want)] == want).all()
    assert groups[0, E] == len(active)
    assert (groups[0, : len(active)] == active).all()
    assert (groups[1, : len(active) + 1] == starts[[*active, E]]).all()


def test_a_rows_experts_do_not_depend_on_other_rows(isa: str) -> None:
    together = run_route(ROUTES[1], isa, N)
    for row in (0, 9, N - 1):
        rolled = np.roll(route_problem(ROUTES[1]).x, -row, axis=0)
        alone = run_route(ROUTES[1], isa, 1, rolled)
        assert all(same_bits(a[0], t[row]) for a, t in zip(alone[:2], together[:2], strict=True))


def test_instruction_sets_choose_alike() -> None:
    first, *others = (run_route(ROUTES[2], isa, N) for isa in RUNNABLE)
    for other in others:
        assert all(same_bits(left, right) for left, right in zip(first, other, strict=True))


def test_numbers_that_are_none_choose_experts_that_there_are(isa: str) -> None:
    for value in (np.nan, -np.nan, np.inf):
        x = route_problem(ROUTES[0]).x.copy()
        x[1] = value
        ids, _, order, groups = run_route(ROUTES[0], isa, 3, x)
        assert len(set(ids[1].tolist())) == CHOSEN
        assert sorted(order[: 3 * CHOSEN].tolist()) == list(range(3 * CHOSEN))
        assert groups[1, groups[0, E]] == 3 * CHOSEN


class Case(NamedTuple):
    scheme: str
    epilogue: str
    bias: bool
    each: bool
    NP: int
    K: int

    @property
    def spec(self) -> ExpertsSpec:
        return ExpertsSpec(
            rows=N,
            outputs=self.NP,
            inputs=self.K,
            scheme=self.scheme,
            epilogue=self.epilogue,
            bias=self.bias,
            experts=E,
            chosen=CHOSEN,
            each=self.each,
        )


CASES = [
    Case("f32", "store", True, True, 32, 32),
    Case("f16", "swiglu", False, False, 64, 32),
    Case("f32", "clamped", True, False, 64, 64),
    Case("q4", "swiglu_a8", False, False, 128, 64),
    Case("q4", "store", True, True, 32, 96),
    Case("q8", "store", False, True, 64, 32),
    Case("mxfp4", "clamped_a8", True, False, 64, 32),
    Case("q6", "store", False, True, 32, 64),
    Case("q5", "swiglu_a8", False, False, 64, 32),
    Case("q4k", "store", False, True, 32, 256),
    Case("q4a", "store", True, False, 32, 32),
    Case("iq4_nl", "store", False, True, 32, 32),
    Case("q5_nl", "store", True, True, 32, 64),
]
QUICK = [CASES[1], CASES[3], CASES[4]]


class Problem(NamedTuple):
    inputs: tuple[Array, ...]
    weights: tuple[Array, ...]  # of all experts, in the layout
    results: Array  # [pairs, NP] before the epilogue
    bias: Array | None
    ids: Array


@cache
def problem(case: Case) -> Problem:
    random = np.random.default_rng(case.NP + case.K)
    integer, ids = case.scheme in reference.BITS, choices(N, E, CHOSEN)
    rows = N * CHOSEN if case.each else N
    x = random.normal(size=(rows, case.K)).astype("float32") * 3
    w = random.normal(size=(E * case.NP, case.K)) / 4
    bias = random.normal(size=E * case.NP).astype("float32") if case.bias else None
    x_of = x if case.each else x.repeat(CHOSEN, axis=0)
    expert = ids.reshape(-1)
    results = np.empty((N * CHOSEN, case.NP), "float32")
    if integer:
        codes, scale = reference.quantize_weight(w, case.scheme)
        weights = reference.pack(codes, reference.BITS[case.scheme]), reference.panels(scale)
    else:
        dtype = {"f32": "float32", "f16": "float16"}[case.scheme]
        values = w.astype(dtype)
        weights = (reference.panels(values),)
    for e in np.unique(ids):
        mine, of = expert == e, slice(e * case.NP, (e + 1) * case.NP)
        shift = None if bias is None else bias[of]
        if integer:
            rows_of = reference.quantize(x_of[mine])
            results[mine] = reference.linear_int(rows_of, codes[of], scale[of], shift, case.scheme)
        else:
            results[mine] = reference.linear_float(x_of[mine], values[of], shift)
    inputs = reference.quantize(x) if integer else (x,)
    return Problem(tuple(map(aligned_copy, inputs)), weights, results, bias, ids)


@cache
def kernel(isa: str, case: Case) -> Any:
    function = experts(case.spec, isa)
    return build([function], isa)[str(function.attrs["global_symbol"])]


def run(isa: str, case: Case, n: int) -> tuple[Array, ...]:
    """Results of the pairs of the first ``n`` rows; those behind stay zero."""
    data = problem(case)
    order, starts = grouped(data.ids, n, E)
    active = np.flatnonzero(np.diff(starts))
    groups = aligned((2, E + 1), "int32")
    groups[0, : len(active)], groups[0, E] = active, len(active)
    groups[1, : len(active) + 1] = starts[[*active, E]]
    places = aligned(N * CHOSEN, "int32")
    places[: len(order)] = order
    pairs, columns = N * CHOSEN, case.NP // (1 if case.epilogue == "store" else 2)
    outputs: tuple[Array, ...] = (aligned((pairs, columns), "float32"),)
    if case.epilogue.endswith("_a8"):
        outputs = (
            aligned((pairs, columns), "int8"),
            aligned((pairs, columns // 32), "float32"),
            aligned((pairs, columns // 32), "int32"),
        )
    biases = () if data.bias is None else (aligned_copy(data.bias),)
    kernel(isa, case)(*data.inputs, *data.weights, *biases, places, groups, *outputs)
    return outputs


def expected(case: Case) -> tuple[Array, ...]:
    y = problem(case).results
    if case.epilogue == "store":
        return (y,)
    gated = reference.swiglu(y)
    return reference.quantize(gated) if case.epilogue.endswith("_a8") else (gated,)


def every() -> Any:
    return pytest.mark.parametrize("case", sampled(CASES, QUICK, name=str))


@every()
@pytest.mark.parametrize("n", [1, 2, 9, N])
def test_each_pair_has_the_result_of_its_expert(isa: str, case: Case, n: int) -> None:
    got = run(isa, case, n)
    if case.epilogue.startswith("clamped"):
        want = clamped(problem(case).results)[: n * CHOSEN]
        found = got[0][: n * CHOSEN].astype(np.float64)
        if len(got) > 1:
            found *= got[1][: n * CHOSEN].repeat(32, axis=1)
            assert np.abs(found - want).max() < np.abs(want).max() / 200
        else:
            np.testing.assert_allclose(found, want, rtol=2e-6, atol=1e-6)
        return
    for values, want in zip(got, expected(case), strict=True):
        assert same_bits(values[: n * CHOSEN], want[: n * CHOSEN])


@every()
def test_pairs_of_rows_that_are_not_live_stay_untouched(isa: str, case: Case) -> None:
    for values in run(isa, case, 6):
        assert not values[6 * CHOSEN :].any()


@every()
def test_instruction_sets_agree(case: Case) -> None:
    first, *others = (run(isa, case, N) for isa in RUNNABLE)
    for other in others:
        assert all(same_bits(left, right) for left, right in zip(first, other, strict=True))


@pytest.mark.parametrize(("gated", "added"), [(False, False), (True, True)])
def test_results_add_up_in_the_order_of_the_route(isa: str, gated: bool, added: bool) -> None:
    random = np.random.default_rng(3)
    H, count = 48, CHOSEN + gated
    y = random.normal(size=(N, CHOSEN * H)).astype("float32")
    of_all = random.normal(size=(N, H)).astype("float32")
    weights = random.random(size=(N, count)).astype("float32")
    before = random.normal(size=(N, H)).astype("float32")
    function = combine(N, H, CHOSEN, isa, shared=gated, added=added)
    call = build([function], isa)[str(function.attrs["global_symbol"])]
    out = aligned_copy(before)
    others = (aligned_copy(of_all),) if gated else ()
    call(aligned_copy(y), *others, aligned_copy(weights), out, live(5))
    total = np.zeros((N, H), "float32")
    for s in range(count):
        source = y[:, s * H : (s + 1) * H] if s < CHOSEN else of_all
        total = reference.fma(weights[:, s : s + 1], source, total)
    assert same_bits(out[:5], (before + total if added else total)[:5])
    assert same_bits(out[5:], before[5:])
