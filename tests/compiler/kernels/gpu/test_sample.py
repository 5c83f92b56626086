"""Sampling on the GPU: the tokens that the CPU's rules name, from any logits and parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pytest

from edgewise_compiler.kernels.gpu.sampling.layout import THREADS, Layout
from edgewise_compiler.kernels.gpu.sampling.sample import (
    SamplingLaunch,
    sample_scratch,
    sampling,
)
from edgewise_compiler.kernels.numbers import FLOAT_MAX
from edgewise_runtime.engine.step_buffers import step_array
from edgewise_runtime.format.abi import MAX_BIASES, NOT_FINITE, mask_words
from tests import gpu
from tests import subgroups as emulated
from tests.compiler.kernels.cpu.test_sample import FILTERS, LARGE, SHAPES, SMALL, unsound_rows
from tests.compiler.kernels.sampling_batch import PAGES, UNTOUCHED, Array, Row, padded, spec
from tests.compiler.kernels.sampling_reference import Request
from tests.compiler.kernels.sampling_reference import sample as reference

# Each of these pipelines takes a software GPU five seconds or more.
pytestmark = [pytest.mark.sampled(one_in=12, covering=False), pytest.mark.quick(cases=0)]

B = 6
each_variant = pytest.mark.parametrize("subgroups", [False, True], ids=["plain", "subgroups"])


@dataclass
class Batch:
    """Rows and all that the launches of a step read and write; what is around them is poisoned.

    Slots are not row numbers.
    """

    rows: Sequence[Row]
    threads: int = THREADS
    arrays: dict[str, Array] = field(init=False)

    def __post_init__(self) -> None:
        rows, V = self.rows, len(self.rows[0].logits)
        arrays = {
            "logits": np.full((B, padded(V)), np.inf, np.float32),
            "table": np.full((B, 8 + PAGES), -1, np.int32),
            "counts": np.full((B, V), 10**6, np.int32),
            "sampling_f": np.full((B, 8), np.nan, np.float32),
            "sampling_i": np.full((B, 8), -1, np.int32),
            "biases": np.full((B, 2, MAX_BIASES), -1, np.int32),
            "grammar_mask": np.zeros((B, mask_words(V)), np.int32),
            "sampled": np.full(B, UNTOUCHED, np.int32),
            "step": step_array(len(rows), len(rows), len(rows), 0),
        }
        for arg in sample_scratch(spec(B, V), threads=self.threads):
            arrays[arg.name] = np.full(arg.shape, 0x7F7F7F7F, np.int32)
        for i, row in enumerate(rows):
            slot = (i + 1) % B
            arrays["logits"][i, :V] = row.logits
            arrays["table"][i, :8] = [row.kv_len, 0, 1, row.stop, 10**6, 0, slot, 0]
            arrays["counts"][slot] = 0 if row.counts is None else row.counts
            arrays["sampling_f"][i] = row.request.floats()
            arrays["sampling_i"][i] = row.request.integers()
            arrays["biases"][i] = row.request.listed()
            arrays["grammar_mask"][i] = row.request.mask(V)
        self.arrays = arrays

    def run(self, step: SamplingLaunch, width: int | None = None) -> None:
        """One launch; with ``width`` as on a device whose subgroups have so many threads."""
        launch = gpu.run if width is None else partial(emulated.run, width=width)
        names = [name for name, _ in step.arguments]
        after = launch(step.launch, [self.arrays[name] for name in names], b=len(self.rows))
        self.arrays |= dict(zip(names, after, strict=True))

    @property
    def tokens(self) -> list[int]:
        """The tokens of the rows."""
        sampled = self.arrays["sampled"]
        assert (sampled[len(self.rows) :] == UNTOUCHED).all()
        return [int(token) for token in sampled[: len(self.rows)]]


def run(
    rows: Sequence[Row],
    *,
    subgroups: bool = False,
    advance: bool = False,
    width: int | None = None,
    threads: int = THREADS,
) -> list[int]:
    """The tokens of ``rows``."""
    after = after_sampling(rows, subgroups=subgroups, advance=advance, width=width, threads=threads)
    return after.tokens


def after_sampling(
    rows: Sequence[Row],
    *,
    subgroups: bool = False,
    advance: bool = False,
    width: int | None = None,
    threads: int = THREADS,
) -> Batch:
    """A batch after all launches but the last, which records."""
    batch = Batch(rows, threads)
    V = len(rows[0].logits)
    steps = sampling(spec(B, V), advance=advance, subgroups=subgroups, threads=threads)
    for step in steps[:-1]:
        batch.run(step, width)
    return batch


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
    expected = [int(row.logits.argmax()) for row in rows]
    found = [t for i in range(0, len(rows), B) for t in run(rows[i : i + B], subgroups=subgroups)]
    assert found == expected


@pytest.mark.quick(cases=1)
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


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("V", [SMALL, LARGE])
def test_a_row_with_a_logit_that_is_not_finite_has_no_token(V: int, value: float) -> None:
    sound = Row(SHAPES["peaked"](V, 1))
    rows = [row for one in unsound_rows(V, value) for row in (one, sound)]
    found = [token for i in range(0, len(rows), B) for token in run(rows[i : i + B])]
    assert found == [NOT_FINITE, int(sound.logits.argmax())] * (len(rows) // 2)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_row_with_nothing_above_minus_infinity_has_no_token(temperature: float) -> None:
    logits = np.full(SMALL, -np.inf, np.float32)
    assert run([Row(logits, Request(temperature=temperature))]) == [NOT_FINITE]


def test_penalties_and_biases_do_not_make_large_logits_infinite() -> None:
    logits = SHAPES["peaked"](SMALL, 5)
    logits[9] = FLOAT_MAX
    requests = [Request(repetition=0.5), Request(biases=((9, 1e38),)), Request(presence=-1e38)]
    rows = [Row(logits, request, counts=np.full(SMALL, 3)) for request in requests]
    assert run(rows) == [9, 9, 9]


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


DEFAULTS = Request(temperature=0.6, top_k=20, top_p=0.95)
"""What models' own files ask for."""


def rows_of(shape: str, requests: Sequence[Request], V: int = LARGE) -> list[Row]:
    logits = SHAPES[shape](V, 3)
    return [Row(logits, replace(r, seed=i), kv_len=i) for i, r in enumerate(requests)]


def references(rows: Sequence[Row]) -> list[int]:
    nothing = np.zeros(len(rows[0].logits), int)
    return [reference(row.logits, nothing, row.request, row.kv_len) for row in rows]


FEW = [
    DEFAULTS,
    Request(temperature=1.0, top_p=0.9),
    Request(temperature=0.9, top_k=224),
    Request(temperature=1.0),
    Request(temperature=3.0, min_p=0.01),
]
"""What is answered without a second look at the whole row."""

MANY = [
    Request(temperature=2.0, top_p=0.9999999),
    Request(temperature=1.0, top_k=5000),
    Request(temperature=50.0, top_p=0.7),
]


def test_rows_are_searched_whole_only_where_best_tokens_do_not_tell() -> None:
    rows = rows_of("peaked", FEW)
    few = after_sampling(rows)
    assert few.tokens == references(rows)
    assert few.arrays["left"][: len(rows)].tolist() == [0] * len(FEW)

    rows = rows_of("peaked", MANY)
    many = after_sampling(rows)
    assert many.tokens == references(rows)
    assert many.arrays["left"][: len(rows)].tolist() == [1] * len(MANY)


def test_rows_left_and_rows_answered_stand_side_by_side() -> None:
    rows = [*rows_of("peaked", MANY), *rows_of("peaked", FEW[:2]), *rows_of("tied", [Request()])]
    together = after_sampling(rows, subgroups=True)
    assert together.arrays["left"].tolist() == [1, 1, 1, 0, 0, 0]
    assert together.tokens == references(rows)
    assert [run([row], subgroups=True)[0] for row in rows] == together.tokens


@pytest.mark.parametrize("likely", [1, 90, 700])
def test_top_p_is_taken_to_its_last_bit_among_the_best_tokens(likely: int) -> None:
    """So many equal tokens, and others that weigh nothing: every share of them is a number."""
    logits = np.full(LARGE, -100.0, np.float32)
    logits[np.random.default_rng(likely).choice(LARGE, likely, replace=False)] = 1.0
    shares = [barely_above(share, likely) for share in {0, likely // 2, likely - 1}]
    requests = [Request(temperature=1.0, top_p=p, seed=i) for i in range(2) for p in shares]
    rows = [Row(logits, request) for request in requests]
    after = after_sampling(rows)
    assert after.tokens == references(rows)
    assert not after.arrays["left"][: len(rows)].any()


def test_drawing_reads_no_tokens_but_those_beside_the_best() -> None:
    rows = rows_of("peaked", [DEFAULTS, replace(DEFAULTS, top_k=3), replace(DEFAULTS, min_p=0.1)])
    layout, count = Layout(padded(LARGE)), len(rows)
    scores, *others, _ = sampling(spec(B, LARGE), advance=False, subgroups=False)
    batch = Batch(rows)
    batch.run(scores)
    keys = batch.arrays["keys"].view(np.int32)
    groups = keys[:count, layout.maxima : layout.bests]
    of_token = (
        np.arange(layout.columns) // layout.block * 256 + np.arange(layout.columns) // 4 % 256
    )
    for row in range(count):
        near = np.argsort(groups[row])[-64:]
        # The largest key there is: whatever looks at it draws it.
        keys[row, : layout.columns][~np.isin(of_token, near)] = 0x7F7FFFFF
    batch.arrays["keys"] = keys.view(np.uint32)
    for step in others:
        batch.run(step)
    assert batch.tokens == references(rows)
    assert not batch.arrays["left"][:count].any()


@pytest.mark.parametrize("subgroups", [False, True])
def test_a_vocabulary_of_a_real_model(subgroups: bool) -> None:
    V = 151_936
    rows = [
        *rows_of("peaked", [DEFAULTS, *FEW[1:4]], V),
        *rows_of("tied", [Request(), DEFAULTS], V),
    ]
    assert run(rows, subgroups=subgroups) == references(rows)


@pytest.mark.parametrize(
    ("V", "threads"), [(SMALL, 32), (LARGE, 32), pytest.param(LARGE, 64, marks=pytest.mark.full)]
)
@pytest.mark.parametrize("name", SHAPES)
def test_workgroups_of_fewer_threads_draw_the_same(name: str, V: int, threads: int) -> None:
    for requests in (FEW[:B], MANY[:B]):
        rows = rows_of(name, requests, V)
        assert run(rows, threads=threads) == references(rows)


@pytest.mark.quick(cases=1)
@pytest.mark.parametrize("columns", [32, 2048, 2080, 151_936, 262_144, 524_288, 524_320, 1 << 21])
@pytest.mark.parametrize("threads", [32, 64, 256])
def test_a_row_is_blocks_of_whole_groups_and_no_more_than_threads(
    columns: int, threads: int
) -> None:
    layout = Layout(columns, threads)
    assert layout.blocks <= threads
    assert layout.block == 4 * threads * layout.vectors
    assert (layout.blocks - 1) * layout.block < columns <= layout.blocks * layout.block
    assert layout.words == columns + layout.blocks * (threads + 4) + 4


@pytest.mark.full
def test_a_vocabulary_of_more_than_two_vectors_a_thread() -> None:
    rows = rows_of("peaked", [*FEW, MANY[0]], 600_000)
    assert run(rows) == references(rows)
