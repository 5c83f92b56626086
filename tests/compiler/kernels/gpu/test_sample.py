"""Sampling on the GPU: the tokens that the CPU's rules name, from any logits and parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from edgewise_compiler.kernels.gpu.sampling.sample import sample_scratch, sampling
from edgewise_runtime.engine.step_buffers import step_array
from edgewise_runtime.format.abi import MAX_BIASES
from tests import gpu
from tests import subgroups as emulated
from tests.compiler.kernels.cpu.test_sample import FILTERS, LARGE, SHAPES, SMALL
from tests.compiler.kernels.sampling_batch import PAGES, UNTOUCHED, Row, padded, spec
from tests.compiler.kernels.sampling_reference import Request
from tests.compiler.kernels.sampling_reference import sample as reference

pytestmark = pytest.mark.sampled(one_in=3)

B = 6
each_variant = pytest.mark.parametrize("subgroups", [False, True], ids=["plain", "subgroups"])


def run(
    rows: Sequence[Row],
    *,
    subgroups: bool = False,
    advance: bool = False,
    width: int | None = None,
) -> list[int]:
    """The tokens of ``rows``; all around them is poisoned, and slots are not row numbers.

    With ``width`` as on a device whose subgroups have so many threads.
    """
    launch = gpu.run if width is None else partial(emulated.run, width=width)
    V = len(rows[0].logits)
    arrays = {
        "logits": np.full((B, padded(V)), np.inf, np.float32),
        "table": np.full((B, 8 + PAGES), -1, np.int32),
        "counts": np.full((B, V), 10**6, np.int32),
        "sampling_f": np.full((B, 8), np.nan, np.float32),
        "sampling_i": np.full((B, 8), -1, np.int32),
        "bias_ids": np.zeros((B, MAX_BIASES), np.int32),
        "bias_values": np.full((B, MAX_BIASES), np.nan, np.float32),
        "sampled": np.full(B, UNTOUCHED, np.int32),
        "step": step_array(len(rows), len(rows), len(rows), 0),
    }
    for arg in sample_scratch(spec(B, V)):
        arrays[arg.name] = np.full(arg.shape, 0x7F7F7F7F, np.int32)
    for i, row in enumerate(rows):
        slot = (i + 1) % B
        arrays["logits"][i, :V] = row.logits
        arrays["table"][i, :8] = [row.kv_len, 0, 1, row.stop, 10**6, 0, slot, 0]
        arrays["counts"][slot] = 0 if row.counts is None else row.counts
        arrays["sampling_f"][i] = row.request.floats()
        arrays["sampling_i"][i] = row.request.integers()
        for j, (token, bias) in enumerate(row.request.biases):
            arrays["bias_ids"][i, j], arrays["bias_values"][i, j] = token, bias
    steps = sampling(spec(B, V), advance=advance, subgroups=subgroups)
    for step in steps[:3]:
        names = [name for name, _ in step.arguments]
        after = launch(step.launch, [arrays[name] for name in names], b=len(rows))
        arrays |= dict(zip(names, after, strict=True))
    assert (arrays["sampled"][len(rows) :] == UNTOUCHED).all()
    return [int(token) for token in arrays["sampled"][: len(rows)]]


@pytest.mark.parametrize(
    ("V", "subgroups"),
    [
        (SMALL, False),
        (SMALL, True),
        (LARGE, True),
        pytest.param(LARGE, False, marks=pytest.mark.full),
    ],
)
def test_greedy_takes_the_best_logit_and_the_lowest_id_of_equals(V: int, subgroups: bool) -> None:
    rows = [Row(shape(V, seed)) for shape in SHAPES.values() for seed in range(2)]
    expected = [int(np.nanargmax(row.logits)) for row in rows]
    found = [t for i in range(0, len(rows), B) for t in run(rows[i : i + B], subgroups=subgroups)]
    assert found == expected


@pytest.mark.parametrize("V", [SMALL, LARGE])
@pytest.mark.parametrize("name", FILTERS)
def test_the_token_is_the_reference_s(name: str, V: int) -> None:
    rows = [
        Row(shape(V, seed), replace(FILTERS[name], seed=seed << 31 | i, sequence=seed), kv_len=i)
        for i, shape in enumerate(SHAPES.values())
        for seed in range(1 if V == LARGE else 2)
    ]
    nothing = np.zeros(V, int)
    expected = [reference(row.logits, nothing, row.request, row.kv_len) for row in rows]
    found = [t for i in range(0, len(rows), B) for t in run(rows[i : i + B])]
    assert found == expected


def penalized_rows(V: int) -> list[Row]:
    rng = np.random.default_rng(V)
    return [
        Row(
            SHAPES["peaked"](V, seed),
            Request(
                temperature=float(seed % 2),
                repetition=1.3,
                presence=0.4 * seed,
                frequency=-0.2 * seed,
                biases=((3, 5.0), (3, -1.0), (V - 1, 30.0), (7, -np.inf), (V + 5, 99.0)),
                top_p=0.9,
                seed=seed,
            ),
            counts=rng.integers(0, 5, V),
        )
        for seed in range(5)
    ]


@each_variant
@pytest.mark.parametrize("V", [SMALL, LARGE])
def test_penalties_and_biases_come_first(V: int, subgroups: bool) -> None:
    rows = penalized_rows(V)
    expected = [reference(row.logits, row.counts, row.request, 0) for row in rows]
    assert run(rows, subgroups=subgroups) == expected


def test_a_banned_token_is_never_drawn_however_good() -> None:
    logits = np.zeros(SMALL, np.float32)
    logits[7] = 100.0
    rows = [
        Row(logits, Request(temperature=t, seed=s, biases=((7, -np.inf),)))
        for s in range(3)
        for t in (0.0, 1.0)
    ]
    assert 7 not in run(rows)


def test_nothing_above_minus_infinity_gives_token_0() -> None:
    empty = [np.full(SMALL, value, np.float32) for value in (np.nan, -np.inf)]
    rows = [Row(logits, Request(temperature=t)) for logits in empty for t in (0.0, 1.0)]
    assert run(rows) == [0, 0, 0, 0]


def test_stopped_rows_are_left_alone() -> None:
    rows = [Row(SHAPES["peaked"](SMALL, i), stop=i % 2) for i in range(4)]
    found = run(rows)
    assert [found[1], found[3]] == [UNTOUCHED, UNTOUCHED]
    assert found[0] == int(rows[0].logits.argmax())


@pytest.mark.parametrize("width", [4, 32, 128])
def test_subgroups_may_have_any_width(width: int) -> None:
    settings = {"peaked": "all three", "tied": "top-k", "flat": "top-p", "holes": "plain"}
    rows = [
        Row(SHAPES[shape](LARGE, i), replace(FILTERS[name], seed=i), kv_len=i)
        for i, (shape, name) in enumerate(settings.items())
    ]
    rows.append(Row(SHAPES["tied"](LARGE, 7)))
    nothing = np.zeros(LARGE, int)
    expected = [reference(row.logits, nothing, row.request, row.kv_len) for row in rows]
    assert run(rows, subgroups=True, width=width) == expected


@each_variant
def test_a_row_gets_the_same_token_in_any_batch(subgroups: bool) -> None:
    rows = [
        Row(SHAPES["peaked"](LARGE, i), replace(request, seed=i), kv_len=i)
        for i, request in enumerate(list(FILTERS.values())[4:10])
    ]
    together = run(rows, subgroups=subgroups)
    assert [run([row], subgroups=subgroups)[0] for row in rows] == together
    assert run(rows[::-1], subgroups=subgroups) == together[::-1]


def test_decode_draws_for_the_position_after_its_own_token() -> None:
    request = Request(temperature=1.0, seed=5)
    rows = [Row(SHAPES["flat"](SMALL, 1), request, kv_len=i) for i in range(B)]
    nothing = np.zeros(SMALL, int)
    expected = [reference(row.logits, nothing, request, row.kv_len + 1) for row in rows]
    assert run(rows, advance=True) == expected


def barely_above(share: float, V: int) -> float:
    """The smallest float32 that is more than ``share`` tokens of V."""
    value = np.float32(share / V)
    while float(value) * V <= share:
        value = np.nextafter(value, np.float32(1))
    return float(value)


@pytest.mark.parametrize("tokens", [2, 90, 2700])
def test_top_p_is_taken_to_its_last_bit(tokens: int) -> None:
    request = Request(temperature=1.0, top_p=barely_above(tokens, LARGE))
    rows = [Row(SHAPES["equal"](LARGE, 0), replace(request, seed=i)) for i in range(B)]
    nothing = np.zeros(LARGE, int)
    expected = [reference(row.logits, nothing, row.request, 0) for row in rows]
    assert run(rows) == expected


@pytest.mark.full
def test_many_draws_are_those_of_the_reference() -> None:
    nothing = np.zeros(LARGE, int)
    for seed in range(200):
        rng = np.random.default_rng(seed)
        requests = [
            Request(
                temperature=float(rng.uniform(0.2, 3)),
                top_k=int(rng.choice([0, 1, 20, 900, 3000])),
                top_p=float(rng.choice([1.0, 0.99, 0.8, 0.3])),
                min_p=float(rng.choice([0.0, 0.01, 0.2])),
                seed=int(rng.integers(2**62)),
            )
            for _ in range(B)
        ]
        names = rng.choice(list(SHAPES), B)
        rows = [
            Row(SHAPES[name](LARGE, seed), request, kv_len=seed)
            for name, request in zip(names, requests, strict=True)
        ]
        expected = [reference(row.logits, nothing, row.request, seed) for row in rows]
        assert run(rows) == expected, seed
