"""Vectors of prompts: the same bits wherever steps were cut, and pages that are nobody else's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
import pytest

from edgewise_runtime.devices.base import LoadedProgram
from edgewise_runtime.engine.engine import GenerationEngine
from edgewise_runtime.engine.pooling import Pooled, Pooling
from edgewise_runtime.engine.sampling import SamplingParams
from edgewise_runtime.engine.sequence import Request
from tests.conftest import BundleFactory
from tests.runtime.engine.bits import REQUESTS, Which, answers, engine_of, params, request, text

LENGTHS = (1, 5, 16, 17, 40, 128, 129, 200)
"""Around pages, and around the 128 rows of a step."""
POOLINGS: tuple[Pooling, ...] = get_args(Pooling)


@pytest.fixture(
    scope="module", params=params([Which("q4"), Which("f32"), Which("q4", gpu="webgpu-f32-serial")])
)
def program(request: pytest.FixtureRequest, bundles: BundleFactory) -> Iterator[LoadedProgram]:
    with request.param.load(bundles) as loaded:
        yield loaded


def pooled(prompt: Sequence[int], pooling: Pooling) -> Request:
    return Request(tuple(prompt), SamplingParams(max_tokens=0), pooling=pooling)


ASKED = [
    pooled(text(length, length), POOLINGS[nth % 2]) for nth, length in enumerate(LENGTHS * 2)
] + [pooled(text(length, length), POOLINGS[(nth + 1) % 2]) for nth, length in enumerate(LENGTHS)]


def vectors(
    engine: GenerationEngine, asked: Sequence[Request], beside: Sequence[Request] = ()
) -> list[npt.NDArray[np.float32]]:
    """The vectors of requests that run together, those of others beside them."""
    sequences = [engine.sequence(one) for one in asked]
    engine.submit([*(engine.sequence(one) for one in beside), *sequences])
    while engine.busy:
        engine.step()
        assert engine.check() == []
    assert {one.finish_reason for one in sequences} == {"length"}
    return [one.pooled.vector for one in sequences if one.pooled is not None]


@pytest.fixture(scope="module")
def alone(program: LoadedProgram) -> list[npt.NDArray[np.float32]]:
    """The vector of each, by an engine that has never seen another one."""
    return [vectors(engine_of(program), [asked])[0] for asked in ASKED]


@pytest.mark.quick(cases=1)
@pytest.mark.parametrize("options", [{}, {"step_tokens": 9}, {"step_tokens": 50}])
def test_together_and_in_chunks_of_any_size(
    program: LoadedProgram, alone: list[npt.NDArray[np.float32]], options: dict[str, Any]
) -> None:
    np.testing.assert_array_equal(vectors(engine_of(program, **options), ASKED), alone)


@pytest.mark.quick(cases=1)
def test_beside_those_that_decode_and_that_share_their_tokens(
    program: LoadedProgram, alone: list[npt.NDArray[np.float32]]
) -> None:
    same = [request(asked.prompt, 9, temperature=0) for asked in ASKED[:6]]
    engine = engine_of(program)
    answers(engine, [*REQUESTS, *same])
    np.testing.assert_array_equal(vectors(engine, ASKED, beside=[*REQUESTS, *same]), alone)


@pytest.mark.quick(cases=1)
def test_after_their_pages_were_taken_away(
    program: LoadedProgram, alone: list[npt.NDArray[np.float32]]
) -> None:
    engine = engine_of(program, pages=20, step_tokens=24)
    beside = [request(text(90 + nth, 10), 100) for nth in range(3)]
    late = [replace(one, priority=1) for one in ASKED]
    np.testing.assert_array_equal(vectors(engine, late, beside=beside), alone)
    assert engine.metrics.snapshot()["num_preemptions_total"] >= 1


@pytest.mark.landing
def test_no_page_of_them_is_kept_or_shared(program: LoadedProgram) -> None:
    engine = engine_of(program)
    prompt = text(7, 100)
    vectors(engine, [pooled(prompt, "last")] * 3)
    assert engine.metrics.snapshot()["prefix_cache_bytes"] == 0
    first = engine.sequence(request(prompt, 2))
    for _ in engine.run([first]):
        pass
    assert first.cached_tokens == 0
    kept = engine.metrics.snapshot()["prefix_cache_bytes"]
    vectors(engine, [pooled(prompt, "last"), pooled(prompt, "mean")])
    assert engine.metrics.snapshot()["prefix_cache_bytes"] == kept > 0


def test_the_mean_adds_rows_in_their_order_however_they_come() -> None:
    states = np.random.default_rng(3).normal(size=(50, 32)).astype(np.float32)
    whole, parts = Pooled("mean"), Pooled("mean")
    whole.add(states)
    parts.add(states[:1] * 2)
    parts.forget()
    for start, end in ((0, 1), (1, 18), (18, 50)):
        parts.add(states[start:end])
    np.testing.assert_array_equal(whole.vector, parts.vector)
    np.testing.assert_allclose(whole.vector, states.mean(axis=0), atol=1e-6)


@pytest.mark.parametrize(
    ("pooling", "last", "rows"),
    [("last", False, []), ("last", True, [6]), ("mean", False, range(7)), ("mean", True, range(7))],
)
def test_rows_that_are_wanted(pooling: Pooling, last: bool, rows: Sequence[int]) -> None:
    assert list(Pooled(pooling).wanted(7, last=last)) == list(rows)
