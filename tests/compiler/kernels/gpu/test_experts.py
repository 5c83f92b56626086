"""Mixtures of experts on GPUs: the choice, pairs and tiles, each pair's result, and their sum."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from edgewise_compiler.kernels.experts import RouteSpec
from edgewise_compiler.kernels.gpu.experts.combine import combine
from edgewise_compiler.kernels.gpu.experts.matmul import (
    ExpertsPart,
    experts_pairs,
    experts_tiles,
    tile_rows,
)
from edgewise_compiler.kernels.gpu.experts.route import order, route, tile_bound
from edgewise_runtime.engine.step_buffers import step_array
from tests.compiler.kernels.experts_cases import choices, clamped, grouped, routed
from tests.compiler.kernels.gpu.packing import linear, pack
from tests.gpu import run
from tests.parity.sampled import sampled

pytestmark = pytest.mark.sampled(one_in=4)

Array = NDArray[Any]
N, E, CHOSEN = 23, 11, 3
TOLERANCE = 3e-6

ROUTES = [
    RouteSpec(N, 64, E, CHOSEN, normalize=True, shared=False, bias=False),
    RouteSpec(N, 32, 20, 4, normalize=False, shared=True, bias=True),
    RouteSpec(N, 32, 300, 8, normalize=True, shared=True, bias=False),
]


def live(n: int) -> Array:
    return step_array(n, 0, 0, 0)


@pytest.mark.parametrize("spec", sampled(ROUTES, ROUTES[:2], name=lambda s: s.name))
def test_the_largest_logits_choose_and_of_equal_ones_the_first(spec: RouteSpec) -> None:
    random = np.random.default_rng(spec.experts)
    x = random.normal(size=(N, spec.inputs)).astype("float32")
    weight = np.zeros((spec.inputs, spec.columns), "float32")
    weight[:, : spec.logits] = random.normal(size=(spec.inputs, spec.logits)) / 4
    weight[:, 5] = weight[:, 2]
    bias = random.normal(size=spec.columns).astype("float32")
    bias[5] = bias[2]
    logits = x.astype(np.float64) @ weight + (bias if spec.bias else 0)
    want = routed(spec, logits[:, : spec.logits])
    biases = [bias] if spec.bias else []
    ids, weights = np.full((N, spec.chosen), -1, "int32"), np.zeros((N, spec.weights), "float32")
    found = run(route(spec), [x, weight, *biases, ids, weights, live(N)], n=N)
    assert (found[-3] == want.ids).all()
    np.testing.assert_allclose(found[-2], want.weights, rtol=1e-5)
    fewer = run(route(spec), [x, weight, *biases, ids, weights, live(4)], n=4)
    assert fewer[-3][:4].tobytes() == found[-3][:4].tobytes()
    assert fewer[-2][:4].tobytes() == found[-2][:4].tobytes()
    assert (fewer[-3][4:] == -1).all()


def test_numbers_that_are_none_choose_experts_that_there_are() -> None:
    spec = ROUTES[0]
    x = np.full((N, spec.inputs), np.nan, "float32")
    weight = np.ones((spec.inputs, spec.columns), "float32")
    ids, weights = np.zeros((N, CHOSEN), "int32"), np.zeros((N, spec.weights), "float32")
    found = run(route(spec), [x, weight, ids, weights, live(2)], alike=False, n=2)[-3]
    assert all(len(set(row)) == CHOSEN and max(row) < E for row in found[:2].tolist())


class Tables(NamedTuple):
    order: Array
    tiles: Array


def tables(ids: Array, n: int, rows: int) -> Tables:
    """Pairs and tiles as NumPy finds them."""
    pairs, starts = grouped(ids, n, E)
    cut = [
        (e, first, min(rows, starts[e + 1] - first), 0)
        for e in range(E)
        for first in range(starts[e], starts[e + 1], rows)
    ]
    tiles = np.zeros((tile_bound(N * CHOSEN, E, rows), 4), "int32")
    tiles[: len(cut)] = cut
    return Tables(np.pad(pairs, (0, N * CHOSEN - len(pairs))), tiles)


@pytest.mark.parametrize("n", [1, 9, N])
@pytest.mark.parametrize("rows", [4, 16])
def test_pairs_are_cut_into_tiles_of_one_expert(n: int, rows: int) -> None:
    ids = choices(N, E, CHOSEN)
    want = tables(ids, n, rows)
    tiles = np.full(want.tiles.shape, 7, "int32")
    placed = np.zeros(N * CHOSEN, "int32")
    found = run(order(N, CHOSEN, E, rows), [ids, placed, tiles, live(n)], n=n)
    assert (found[1] == want.order).all()
    assert (found[2] == want.tiles).all()


class Case(NamedTuple):
    scheme: str
    epilogue: str
    bias: bool
    each: bool
    NP: int
    K: int


CASES = [
    Case("q4", "swiglu", True, False, 64, 96),
    Case("f32", "store", False, True, 32, 64),
    Case("q8", "clamped", True, False, 64, 32),
    Case("f16", "store", True, True, 96, 32),
    Case("q5", "store", False, True, 32, 64),
    Case("q6", "swiglu", False, False, 64, 64),
    Case("iq4_nl", "store", True, False, 32, 64),
    Case("q5_nl", "store", False, True, 32, 64),
    Case("q4a", "swiglu", False, True, 64, 32),
]


class Problem(NamedTuple):
    x: Array
    weights: tuple[list[Array], list[Array]]  # of the first six experts, and of the others
    bias: Array
    ids: Array
    results: Array
    sizes: Array


HELD = 6
"""Experts of the first part; the others are in a second one."""


@cache
def problem(case: Case) -> Problem:
    random = np.random.default_rng(case.NP + case.K)
    ids, rows = choices(N, E, CHOSEN), N * CHOSEN if case.each else N
    x = random.standard_normal((rows, case.K), dtype=np.float32)
    w = random.standard_normal((E * case.NP, case.K), np.float32)
    bias = random.standard_normal(E * case.NP, dtype=np.float32)
    parts = [pack(case.scheme, w[: HELD * case.NP]), pack(case.scheme, w[HELD * case.NP :])]
    exact = np.concatenate([values for _, values in parts])
    x_of = x if case.each else x.repeat(CHOSEN, axis=0)
    width = case.NP if case.epilogue == "store" else case.NP // 2
    results, sizes = (np.zeros((N * CHOSEN, width)) for _ in range(2))
    for e in np.unique(ids):
        mine, of = (ids == e).reshape(-1), slice(e * case.NP, (e + 1) * case.NP)
        shift = bias[of] if case.bias else None
        given, empty = x_of[mine].astype(np.float64), np.zeros((mine.sum(), width), np.float32)
        if case.epilogue == "clamped":
            y = given @ exact[of].T.astype(np.float64)
            results[mine] = clamped(y + shift if shift is not None else y)
            sizes[mine] = 8 * (np.abs(given) @ np.abs(exact[of].T)).max() + 8
        else:
            results[mine], sizes[mine] = linear(
                given, exact[of], shift, case.epilogue, empty, len(empty)
            )
    return Problem(x, (parts[0][0], parts[1][0]), bias, ids, results, sizes)


def run_case(case: Case, n: int, *, tiles: bool, serial: bool, half: bool = False) -> Array:
    """Results of the pairs of the first ``n`` rows, by a launch for each part."""
    data = problem(case)
    out = np.zeros(data.results.shape, "float32")
    for part, (first, held) in enumerate(((0, HELD), (HELD, E - HELD))):
        spec = ExpertsPart(
            rows=N,
            outputs=case.NP,
            inputs=case.K,
            scheme=case.scheme,
            epilogue=case.epilogue,
            bias=case.bias,
            experts=E,
            chosen=CHOSEN,
            each=case.each,
            first=first,
            held=held,
        )
        of = slice(first * case.NP, (first + held) * case.NP)
        biases = [np.ascontiguousarray(data.bias[of])] if case.bias else []
        given = [data.x, *data.weights[part], *biases]
        if tiles:
            found = tables(data.ids, n, tile_rows(serial=serial))
            launch = experts_tiles(spec, serial=serial, half=half)
            out = run(launch, [*given, *found, out], n=n)[-1]
        else:
            launch = experts_pairs(spec, serial=serial, subgroups=False)
            out = run(launch, [*given, data.ids, out, live(n)], n=n)[-2]
    return out


each_case = pytest.mark.parametrize("case", sampled(CASES, CASES[:2], name=str))
each_way = pytest.mark.parametrize(
    ("tiles", "serial"), [(False, False), (True, False), (False, True), (True, True)]
)


@each_case
@each_way
def test_each_pair_has_the_result_of_its_expert(case: Case, tiles: bool, serial: bool) -> None:
    data = problem(case)
    for n in (1, N):
        out, pairs = run_case(case, n, tiles=tiles, serial=serial), n * CHOSEN
        assert (np.abs(out - data.results)[:pairs] / data.sizes[:pairs]).max() <= TOLERANCE
        assert not out[pairs:].any()


@each_case
@each_way
def test_a_pair_has_the_same_bits_alone_and_with_others(
    case: Case, tiles: bool, serial: bool
) -> None:
    together = run_case(case, N, tiles=tiles, serial=serial)
    few = run_case(case, 2, tiles=tiles, serial=serial)[: 2 * CHOSEN]
    assert few.tobytes() == together[: 2 * CHOSEN].tobytes()


@each_case
def test_without_barriers_decode_gives_the_bits_of_prefill(case: Case) -> None:
    pairs, tiles = (run_case(case, N, tiles=tiles, serial=True) for tiles in (False, True))
    assert pairs.tobytes() == tiles.tobytes()


def test_tiles_in_float16_are_as_exact_as_float16() -> None:
    data = problem(CASES[0])
    out = run_case(CASES[0], N, tiles=True, serial=False, half=True)
    assert np.abs(out - data.results).max() < 1e-2 * np.abs(data.results).max()


@pytest.mark.parametrize("gated", [False, True])
def test_results_add_up_in_the_order_of_the_route(gated: bool) -> None:
    random = np.random.default_rng(3)
    H, count = 48, CHOSEN + gated
    y, of_all, before = (
        random.standard_normal((N, width), dtype=np.float32) for width in (CHOSEN * H, H, H)
    )
    weights = random.random((N, count), dtype=np.float32)
    others = [of_all] if gated else []
    launch = combine(N, H, CHOSEN, shared=gated, added=gated)
    out = run(launch, [y, *others, weights, before, live(5)], n=5)[-2]
    parts = [*(y[:, s * H : (s + 1) * H] for s in range(CHOSEN)), *others]
    total = sum(weights[:, s, None].astype(np.float64) * part for s, part in enumerate(parts))
    want = before + total if gated else total
    np.testing.assert_allclose(out[:5], want[:5], rtol=1e-5, atol=1e-6)
    assert (out[5:] == before[5:]).all()
