"""All at once: requests that come and go, share prefixes, lose their pages, and are drafted for.

Whatever an engine is like and whoever it serves beside a request, the answer is the one that the
request gets alone. Programs whose decode gives the bits of prefill.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from edgewise_runtime.devices.base import LoadedProgram
from edgewise_runtime.engine.sequence import Request, Sequence
from edgewise_runtime.engine.speculate.lookup import PromptLookup
from edgewise_runtime.format.abi import PAGE_TOKENS
from edgewise_runtime.kv.spill import MemoryStore
from edgewise_runtime.kv.stored import stored_bytes
from tests.conftest import BundleFactory
from tests.runtime.engine.bits import (
    REQUESTS,
    TOP,
    Said,
    Which,
    answers,
    engine_of,
    request,
    said,
    silent,
    text,
)

SHARED = text(60, 35)
"""What several prompts begin with, and a page and a bit more."""

EVENTS = (
    "num_preemptions_total",
    "kv_pages_restored_total",
    "spec_decode_num_accepted_tokens_total",
)
ASKED: list[Request] = [
    *REQUESTS,
    *(silent(asked) for asked in REQUESTS[:3]),
    request(SHARED, 24, temperature=0, **TOP),
    request((*SHARED, *text(61, 4)), 24, temperature=1.1, seed=1),
    request((*SHARED, *text(62, 30)), 20, temperature=0, frequency_penalty=0.5),
    request((*SHARED[:20], *text(63, 20)), 24, temperature=0.6, seed=2, n=3),
    request(text(64, 5) * 6, 24, temperature=0, logit_bias={9: 3.0}),
    request(text(65, 9) * 4, 24, temperature=0.3, top_k=5, seed=3, **TOP),
    request(text(66, 4), 30, temperature=1.3, presence_penalty=0.9, seed=4, n=2),
]


@dataclass(frozen=True)
class Setting:
    """What an engine is like; `stored` pages fit its store."""

    pages: int
    step_tokens: int
    stored: int
    lookup: bool


@dataclass(frozen=True)
class Arrival:
    """Request `which` comes after so many steps; its choices are cancelled `leaves` steps later."""

    which: int
    after: int
    leaves: int | None


SETTINGS = st.builds(
    Setting,
    pages=st.sampled_from([7, 8, 10, 13, 20, 64]),
    step_tokens=st.sampled_from([8, 11, 20, 64, 128]),
    stored=st.sampled_from([0, 0, 3, 30]),
    lookup=st.booleans(),
)
ARRIVALS = st.lists(
    st.builds(
        Arrival,
        which=st.integers(0, len(ASKED) - 1),
        after=st.sampled_from([0, 0, 1, 2, 5, 9]),
        leaves=st.sampled_from([None, None, None, 3, 12]),
    ),
    min_size=2,
    max_size=14,
)


PROGRAMS = [
    Which("q4"),
    pytest.param(Which("q8"), marks=pytest.mark.full),
    pytest.param(Which("q4", "int8"), marks=pytest.mark.full),
]


@pytest.fixture(scope="module", params=PROGRAMS, ids=str)
def program(request: pytest.FixtureRequest, bundles: BundleFactory) -> Iterator[LoadedProgram]:
    with request.param.load(bundles) as loaded:
        yield loaded


@pytest.fixture(scope="module")
def cold(program: LoadedProgram) -> list[list[Said]]:
    """What the choices of each request are answered by an engine that knows nothing."""
    return [answers(engine_of(program), [asked]) for asked in ASKED]


@pytest.mark.landing
@settings(max_examples=min(settings.default.max_examples, 400))
@given(setting=SETTINGS, arrivals=ARRIVALS)
def test_answers_depend_on_nothing_else(
    program: LoadedProgram, cold: list[list[Said]], setting: Setting, arrivals: list[Arrival]
) -> None:
    engine = engine_of(
        program,
        pages=setting.pages,
        step_tokens=setting.step_tokens,
        store=MemoryStore(setting.stored * stored_bytes(PAGE_TOKENS, program.page_bytes)),
        drafter=PromptLookup() if setting.lookup else None,
    )
    running: list[tuple[Arrival, list[Sequence], int]] = []
    steps = 0
    for arrival in arrivals:
        for _ in range(arrival.after):
            engine.step()
            steps += 1
        sequences = engine.sequences(ASKED[arrival.which])
        engine.submit(sequences)
        running.append((arrival, sequences, steps))
    while engine.busy:
        for arrival, sequences, since in running:
            if arrival.leaves is not None and steps - since >= arrival.leaves:
                for sequence in sequences:
                    sequence.cancelled = True
        engine.step()
        steps += 1
        assert engine.check() == []
    counts = engine.metrics.snapshot()
    for name in EVENTS:
        event(f"{name} > 0: {counts[name] > 0}")
    for arrival, sequences, _ in running:
        for expected, found, sequence in zip(
            cold[arrival.which], said(sequences), sequences, strict=True
        ):
            if sequence.finish_reason == "cancelled":
                count = len(found.tokens)
                told = replace(expected, tokens=expected.tokens[:count])
                expected = replace(told, logprobs=expected.logprobs[:count])
            assert found == expected, arrival
    engine.close()
