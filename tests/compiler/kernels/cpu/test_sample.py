"""sample: the token of every sequence, from its logits, parameters and position."""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np
import pytest

from edgewise_compiler.kernels.numbers import FLOAT_MAX
from edgewise_runtime.format.abi import NOT_FINITE
from tests.compiler.kernels.conftest import RUNNABLE
from tests.compiler.kernels.sampling_batch import UNTOUCHED, Array, Row, draws, run
from tests.compiler.kernels.sampling_reference import Request, distribution, kept, scores, weights
from tests.compiler.kernels.sampling_reference import sample as reference
from tests.frequencies import assert_follow

pytestmark = pytest.mark.sampled(one_in=12)

BEST = RUNNABLE[0]
B = 4
SMALL = 50  # padded to 64
LARGE = 9001  # three blocks of work, the last one padded


def rng_for(*seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def peaked(V: int, seed: int) -> Array:
    """Like a language model: a few likely tokens above a wide hill."""
    rng = rng_for(V, seed)
    values = rng.normal(-4, 2.5, V)
    values[rng.choice(V, 20)] += rng.exponential(6, 20)
    return np.float32(values)


def with_holes(V: int, seed: int) -> Array:
    """With -inf and the most negative numbers among them."""
    values, rng = peaked(V, seed), rng_for(V, seed, 1)
    values[rng.choice(V, V // 3)] = -np.inf
    values[rng.choice(V, V // 10)] = -3.4e38
    return values


SHAPES = {
    "peaked": peaked,
    "flat": lambda V, seed: np.float32(rng_for(V, seed).normal(0, 0.02, V)),
    "wide": lambda V, seed: np.float32(rng_for(V, seed).normal(0, 1e4, V)),
    "tied": lambda V, seed: np.float32(np.round(peaked(V, seed))),
    "equal": lambda V, seed: np.full(V, -2.5, np.float32),
    "signed zeros": lambda V, seed: np.float32(rng_for(V, seed).choice([-1.0, -0.0, 0.0], V)),
    "tiny": lambda V, seed: np.float32(rng_for(V, seed).normal(0, 1e-40, V)),
    "holes": with_holes,
    "enormous": lambda V, seed: np.where(np.arange(V) % 97 == 5, FLOAT_MAX, peaked(V, seed)),
}
FILTERS = {
    "plain": Request(temperature=1.0),
    "top-k": Request(temperature=0.7, top_k=40),
    "top-1": Request(temperature=1.3, top_k=1),
    "most of top-k": Request(temperature=1.0, top_k=5000),
    "top-k beyond the vocabulary": Request(temperature=1.0, top_k=10**9),
    "top-p": Request(temperature=0.8, top_p=0.9),
    "little top-p": Request(temperature=1.0, top_p=1e-6),
    "no top-p": Request(temperature=1.0, top_p=0.0),
    "nearly all top-p": Request(temperature=2.0, top_p=0.9999999),
    "min-p": Request(temperature=1.0, min_p=0.05),
    "all of min-p": Request(temperature=1.0, min_p=1.0),
    "top-k and top-p": Request(temperature=0.9, top_k=30, top_p=0.8),
    "wide top-k and top-p": Request(temperature=5.0, top_k=4000, top_p=0.5),
    "all three": Request(temperature=1.1, top_k=300, top_p=0.95, min_p=0.02),
    "hot": Request(temperature=50.0, top_p=0.7),
    "cold": Request(temperature=1e-3, top_k=9),
    "frozen": Request(temperature=1e-30, top_p=0.5),
    "molten": Request(temperature=1e30, top_p=0.5),
}
# The kernel brings other temperatures inside these bounds, the textbook does not.
ORDINARY = [name for name, request in FILTERS.items() if 1e-6 <= request.temperature <= 1e6]


@pytest.mark.quick(cases=3)
@pytest.mark.parametrize("V", [SMALL, LARGE])
@pytest.mark.parametrize("shape", SHAPES)
def test_greedy_takes_the_best_logit_and_the_lowest_id_of_equals(
    shape: str, V: int, isa: str
) -> None:
    rows = [Row(SHAPES[shape](V, seed)) for seed in range(B)]
    expected = [int(row.logits.argmax()) for row in rows]
    assert run(B, rows, isa) == expected


@functools.cache
def cases(name: str, V: int) -> tuple[list[Row], list[int]]:
    """Rows of every shape that ask for the same, and the tokens they must get."""
    rows = [
        Row(
            shape(V, seed),
            replace(FILTERS[name], seed=seed << 31 | i, sequence=seed),
            kv_len=31 * i,
        )
        for i, shape in enumerate(SHAPES.values())
        for seed in range(2)
    ]
    nothing = np.zeros(V, int)
    return rows, [reference(row.logits, nothing, row.request, row.kv_len) for row in rows]


@pytest.mark.quick(cases=6)
@pytest.mark.parametrize("V", [SMALL, LARGE])
@pytest.mark.parametrize("name", FILTERS)
def test_the_token_is_the_reference_s(name: str, V: int, isa: str) -> None:
    rows, expected = cases(name, V)
    tokens = [token for i in range(0, len(rows), B) for token in run(B, rows[i : i + B], isa)]
    assert tokens == expected


def unsound_rows(V: int, value: float) -> list[Row]:
    """One logit that is not finite, at the ends of blocks and vectors, whatever is asked for."""
    rows = []
    for place in (0, V // 2, V - 1):
        logits = peaked(V, place)
        logits[place] = value
        requests = (
            *(FILTERS[name] for name in ("plain", "top-k", "top-p", "all three")),
            Request(),
            Request(biases=((place, -np.inf),)),
            Request(temperature=0.5, biases=((place, 1.0), (place, -1.0)), min_p=0.1),
            Request(repetition=1.2, presence=0.5),
        )
        rows += [Row(logits, request, counts=np.full(V, 3)) for request in requests]
    return rows


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("V", [SMALL, LARGE])
def test_a_row_with_a_logit_that_is_not_finite_has_no_token(V: int, value: float, isa: str) -> None:
    rows = unsound_rows(V, value)
    found = [run(B, [row, Row(peaked(V, 1))], isa) for row in rows]
    assert found == [[NOT_FINITE, int(peaked(V, 1).argmax())]] * len(rows)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_row_with_nothing_above_minus_infinity_has_no_token(temperature: float) -> None:
    rows = [Row(np.full(SMALL, -np.inf, np.float32), Request(temperature=temperature))]
    assert run(B, rows, BEST) == [NOT_FINITE]


def test_penalties_and_biases_do_not_make_large_logits_infinite(isa: str) -> None:
    logits = peaked(SMALL, 5)
    logits[9] = FLOAT_MAX
    requests = [Request(repetition=0.5), Request(biases=((9, 1e38),)), Request(presence=-1e38)]
    rows = [Row(logits, request, counts=np.full(SMALL, 3)) for request in requests]
    assert run(B, rows, isa) == [9, 9, 9]


@pytest.mark.parametrize("temperature", [np.nan, -1.0])
def test_a_temperature_that_is_not_positive_is_greedy(temperature: float) -> None:
    logits = peaked(SMALL, 3)
    assert run(B, [Row(logits, Request(temperature=temperature))], BEST) == [int(logits.argmax())]


@pytest.mark.parametrize(
    ("request_", "left"),
    [
        (Request(temperature=1.0, top_k=7), 7),
        (Request(temperature=1.0, top_p=0.5), 25),
        (Request(temperature=1.0, top_p=0.51), 26),
        (Request(temperature=1.0, top_k=20, top_p=0.5), 10),
        (Request(temperature=1.0, min_p=1.0), 50),
    ],
    ids=lambda value: str(value) if isinstance(value, int) else None,
)
def test_of_equal_tokens_exactly_the_lowest_ids_are_left(request_: Request, left: int) -> None:
    tokens = draws(Row(np.zeros(SMALL, np.float32), request_), BEST, 1600)
    assert set(tokens) == set(range(left))


CHANGES = {
    "repetition": Request(temperature=0.9, repetition=1.3),
    "presence and frequency": Request(temperature=1.0, presence=0.7, frequency=0.3),
    "encouraged": Request(temperature=1.2, repetition=0.7, presence=-0.4, frequency=-0.2),
    "biases": Request(temperature=1.0, biases=((3, 1.5), (4, -2.0), (5, -1e9), (3, 0.5))),
    "all of them": Request(
        temperature=0.8,
        top_k=30,
        top_p=0.95,
        min_p=0.01,
        repetition=1.2,
        presence=0.4,
        frequency=0.1,
        biases=((7, 2.0), (1, -3.0)),
    ),
}
"""What changes scores before they become probabilities."""


@pytest.mark.parametrize("name", ["plain", "top-k", "top-p", "min-p", "all three", "hot"])
def test_draws_follow_the_distribution(name: str) -> None:
    logits = np.float32(rng_for(5).normal(0, 1.5, SMALL))
    check_frequencies(Row(logits, replace(FILTERS[name], seed=12345)), 4000)


@pytest.mark.parametrize("name", CHANGES)
def test_draws_follow_the_distribution_of_changed_scores(name: str) -> None:
    check_frequencies(changed(name), 4000)


@pytest.mark.full
@pytest.mark.parametrize("name", CHANGES)
def test_many_draws_follow_the_distribution_of_changed_scores(name: str) -> None:
    check_frequencies(changed(name), 40_000)


@pytest.mark.full
@pytest.mark.parametrize("name", ORDINARY)
@pytest.mark.parametrize("shape", ["peaked", "flat", "tied"])
def test_many_draws_follow_the_distribution(shape: str, name: str) -> None:
    check_frequencies(Row(SHAPES[shape](SMALL, 8), replace(FILTERS[name], seed=6)), 40_000)


def changed(name: str) -> Row:
    """A row with tokens of a prompt and of an answer, some of them several times."""
    logits = np.float32(rng_for(5).normal(0, 1.5, SMALL))
    return Row(logits, replace(CHANGES[name], seed=99), rng_for(11).poisson(1.5, SMALL))


def check_frequencies(row: Row, count: int) -> None:
    counts = np.zeros(len(row.logits)) if row.counts is None else row.counts
    p = distribution(row.logits, counts, row.request)
    assert_follow(np.bincount(draws(row, BEST, count), minlength=len(p)), p)


@pytest.mark.parametrize("name", ORDINARY)
def test_the_reference_keeps_what_the_textbook_keeps(name: str) -> None:
    request = FILTERS[name]
    for seed in range(5):
        logits = peaked(LARGE, seed)
        p = distribution(logits, np.zeros(LARGE), request)
        masses = weights(logits, request.temperature)
        masses = np.where(kept(logits, masses, request), masses, 0)
        np.testing.assert_allclose(masses / masses.sum(), p, rtol=0, atol=3e-6)


IN_PROMPT, SAMPLED_ONCE = 1, 2

PENALTIES = {
    "repetition": Request(temperature=1.0, repetition=1.3),
    "encouraged repetition": Request(temperature=1.0, repetition=0.6),
    "presence": Request(temperature=1.0, presence=0.7),
    "frequency": Request(temperature=1.0, frequency=0.3),
    "negative": Request(temperature=1.0, presence=-0.7, frequency=-0.2),
    "all": Request(temperature=0.8, repetition=1.2, presence=0.4, frequency=0.1, top_p=0.95),
    "all, greedy": Request(repetition=1.2, presence=0.4, frequency=0.1),
}


@pytest.mark.parametrize("name", PENALTIES)
def test_penalties_weaken_tokens_that_have_occurred(name: str, isa: str) -> None:
    rng = rng_for(11)
    rows = []
    for i in range(B):
        counts = rng.poisson(1.0, LARGE)
        logits = SHAPES["holes" if i % 2 else "peaked"](LARGE, i)
        rows.append(Row(logits, replace(PENALTIES[name], seed=i), counts, kv_len=i))
    assert run(B, rows, isa) == [
        reference(row.logits, row.counts, row.request, row.kv_len) for row in rows
    ]


@pytest.mark.parametrize(
    ("seen", "request_", "expected"),
    [
        (IN_PROMPT, Request(presence=2.0), 3),
        (IN_PROMPT, Request(frequency=2.0), 3),
        (IN_PROMPT, Request(repetition=2.0), 7),
        (SAMPLED_ONCE, Request(presence=2.0), 7),
        (SAMPLED_ONCE, Request(frequency=2.0), 7),
        (SAMPLED_ONCE, Request(frequency=0.6), 3),
        (2 * SAMPLED_ONCE, Request(frequency=0.6), 7),
        (SAMPLED_ONCE, Request(repetition=2.0), 7),
    ],
)
def test_presence_and_frequency_look_at_the_answer_and_repetition_at_the_prompt_too(
    seen: int, request_: Request, expected: int
) -> None:
    logits, counts = np.zeros(SMALL), np.zeros(SMALL, int)
    logits[[3, 7]] = 5.0, 4.0
    counts[3] = seen
    assert run(B, [Row(logits, request_, counts)], BEST) == [expected]


@pytest.mark.parametrize("name", PENALTIES)
def test_the_reference_penalizes_as_the_textbook_does(name: str) -> None:
    request = replace(PENALTIES[name], temperature=1.0, top_p=1.0)
    logits, counts = peaked(LARGE, 2), rng_for(3).poisson(1.0, LARGE)
    masses = weights(scores(logits, counts, request), 1.0)
    p = distribution(logits, counts, request)
    np.testing.assert_allclose(masses / masses.sum(), p, rtol=0, atol=3e-6)


def test_counts_do_nothing_while_no_penalty_is_on() -> None:
    logits = peaked(SMALL, 0)
    assert run(B, [Row(logits, counts=np.full(SMALL, 9))], BEST) == [int(logits.argmax())]


def test_biases_ban_force_and_shift() -> None:
    logits = np.float32(np.linspace(0, 1, SMALL))
    biases = [
        ((SMALL - 1, -np.inf),),
        ((7, 1e9),),
        ((3, 0.6), (3, 0.6)),
        ((SMALL, 100.0), (-1, 100.0), (SMALL + 3, 100.0)),
    ]
    rows = [Row(logits, Request(biases=entries)) for entries in biases]
    assert run(B, rows, BEST) == [SMALL - 2, 7, 3, SMALL - 1]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_biases_that_are_not_numbers_ban(temperature: float) -> None:
    logits = np.float32([0.0, 1e30, 1.0] + [-50.0] * (SMALL - 3))
    entries = [((1, -np.inf),), ((1, np.nan),), ((1, -np.inf), (1, np.inf))]
    rows = [Row(logits, Request(temperature, seed=4, biases=e)) for e in entries]
    expected = [reference(row.logits, np.zeros(SMALL), row.request, 0) for row in rows]
    assert run(B, rows, BEST) == expected
    assert 1 not in expected


def test_as_many_biases_as_fit_are_applied(isa: str) -> None:
    rng = rng_for(9)
    tokens = rng.choice(LARGE, 320, replace=False)
    entries = tuple((int(t), float(v)) for t, v in zip(tokens, rng.normal(3, 3, 320), strict=True))
    row = Row(peaked(LARGE, 1), Request(temperature=1.0, seed=2, biases=entries), kv_len=5)
    expected = reference(row.logits, np.zeros(LARGE), row.request, 5)
    assert run(B, [row], isa) == [expected]


def test_a_row_does_not_depend_on_its_batch() -> None:
    rows = [
        Row(SHAPES[shape](LARGE, 1), replace(request, seed=17), kv_len=i)
        for i, (shape, request) in enumerate(zip(SHAPES, FILTERS.values(), strict=False))
    ]
    alone = [run(B, [row], BEST)[0] for row in rows]
    for size in range(2, B + 1):
        for start in range(len(rows) - size):
            batch = slice(start, start + size)
            assert run(B, rows[batch], BEST) == alone[batch]


def test_draws_at_other_positions_seeds_and_sequences_differ() -> None:
    row = Row(np.zeros(LARGE, np.float32), Request(temperature=1.0, seed=1 << 40))
    others = [
        replace(row, kv_len=1),
        replace(row, request=replace(row.request, seed=1 << 40 | 1)),
        replace(row, request=replace(row.request, seed=1 << 41)),
        replace(row, request=replace(row.request, sequence=1)),
    ]
    tokens = run(B, [row], BEST) + run(B, others, BEST)
    assert len(set(tokens)) == 5
    assert run(B, [row], BEST) == tokens[:1]


def test_decode_draws_for_the_position_after_the_token_it_has_just_processed() -> None:
    row = Row(peaked(LARGE, 4), Request(temperature=2.0, seed=3), kv_len=9)
    after_prefill = run(B, [replace(row, kv_len=10)], BEST)
    assert run(B, [row], BEST, advance=True) == after_prefill


def test_stopped_rows_are_left_alone() -> None:
    row = Row(peaked(SMALL, 4), Request(temperature=1.0))
    rows = [replace(row, stop=1), row, replace(row, stop=2), row]
    tokens = run(B, rows, BEST)
    assert tokens == [UNTOUCHED, tokens[1], UNTOUCHED, tokens[1]]
    assert tokens[1] != UNTOUCHED


def test_a_large_vocabulary_takes_more_passes_and_gives_the_reference_s_tokens() -> None:
    V = 151_936
    names = ["top-p", "hot", "most of top-k", "top-k and top-p", "nearly all top-p"]
    for shape in ("peaked", "flat", "tied"):
        rows = [Row(SHAPES[shape](V, 1), replace(FILTERS[name], seed=5)) for name in names]
        nothing = np.zeros(V, int)
        expected = [reference(row.logits, nothing, row.request, 0) for row in rows]
        assert run(len(rows), rows, BEST) == expected
