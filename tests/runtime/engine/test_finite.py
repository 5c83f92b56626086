"""Logits that are not finite end the request that has them, and no other, with the reason."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from edgewise_runtime.devices.base import LoadedProgram
from edgewise_runtime.devices.cpu.device import CpuDevice
from edgewise_runtime.devices.wgpu.device import WgpuDevice
from edgewise_runtime.engine import sequence as running
from edgewise_runtime.engine.engine import GenerationEngine
from edgewise_runtime.engine.faults import not_finite
from edgewise_runtime.engine.sampling import SamplingParams
from edgewise_runtime.engine.sequence import Request
from edgewise_runtime.engine.speculate.base import DraftView
from edgewise_runtime.engine.speculate.lookup import PromptLookup
from edgewise_runtime.errors import EdgewiseError
from edgewise_runtime.format.abi import PAGE_TOKENS
from edgewise_runtime.format.bundle import Bundle
from edgewise_runtime.kv.spill import MemoryStore
from tests.conftest import BundleFactory
from tests.parity.outliers import OVERFLOWING
from tests.runtime.engine.bits import PAGES, answers, engine_of, request, text

TARGETS = ("cpu", "webgpu")
PROGRAMS = [
    "cpu",
    *(
        pytest.param(name, marks=pytest.mark.landing)
        for name in ("webgpu-f16-subgroups", "webgpu-f32")
    ),
    *(
        pytest.param(name, marks=pytest.mark.full)
        for name in ("webgpu-f16", "webgpu-f32-serial", "webgpu-a8-subgroups")
    ),
]
BANNED = {OVERFLOWING: -1e4}
FORCED = {OVERFLOWING: 1e4}


def load(bundle: Bundle, name: str) -> LoadedProgram:
    if name == "cpu":
        return CpuDevice(threads=2).load(bundle, load_symbols={"pages": PAGES})
    return WgpuDevice().load(bundle, name, load_symbols={"pages": PAGES})


@pytest.fixture(scope="module", params=PROGRAMS)
def program(bundles: BundleFactory, request: pytest.FixtureRequest) -> Iterator[LoadedProgram]:
    """A program whose pages of float16 cannot hold the keys of the token `OVERFLOWING`."""
    bundle = Bundle.open(bundles("overflowing", targets=TARGETS))
    with load(bundle, request.param) as loaded:
        yield loaded


def sound(seed: int, count: int) -> tuple[int, ...]:
    """A prompt without that token."""
    return tuple(7 if token == OVERFLOWING else token for token in text(seed, count))


def overflowing(seed: int, before: int, after: int) -> tuple[int, ...]:
    """A prompt that has it after so many others and before as many."""
    return (*sound(seed, before), OVERFLOWING, *sound(seed + 1, after))


def run(engine: GenerationEngine, asked: Sequence[Request]) -> list[running.Sequence]:
    """Answer requests together, whatever becomes of each."""
    sequences = [one for each in asked for one in engine.sequences(each)]
    engine.submit(sequences)
    while engine.busy:
        engine.step()
    assert engine.check() == []
    return sequences


def assert_named(error: EdgewiseError | None, tokens: int) -> None:
    assert error is not None
    assert error.code == "engine.not_finite"
    assert f"after token {tokens} are not finite" in error.message
    assert "the keys of layer 1 are beyond what KV pages of float16 hold" in error.message
    assert "--kv f32" in error.remedy


@pytest.mark.quick(cases=4)
@pytest.mark.parametrize("before", [0, 16, 40])
@pytest.mark.parametrize(
    "sampling",
    [
        {"temperature": 0.0},
        {"temperature": 1.0, "top_p": 0.9, "seed": 1},
        {"temperature": 0.8, "repetition_penalty": 1.2, "logprobs": True, "top_logprobs": 3},
    ],
    ids=["greedy", "sampled", "penalized"],
)
def test_a_prompt_that_overflows_ends_with_the_layer_and_the_way_out(
    program: LoadedProgram, sampling: dict[str, Any], before: int
) -> None:
    asked = request(overflowing(before, before, 6), **sampling)
    [sequence] = run(engine_of(program), [asked])
    assert sequence.finish_reason == "error"
    assert sequence.tokens == []
    assert_named(sequence.failure, before + 7)


@pytest.mark.quick(cases=1)
def test_an_answer_that_overflows_is_told_as_far_as_it_came(program: LoadedProgram) -> None:
    asked = request(sound(1, 30), 20, temperature=0, logit_bias=FORCED)
    [sequence] = run(engine_of(program), [asked])
    assert sequence.tokens == [OVERFLOWING]
    assert_named(sequence.failure, 31)


@pytest.mark.quick(cases=1)
def test_a_burst_stops_where_it_overflows_and_others_go_on(program: LoadedProgram) -> None:
    plain = [
        request(sound(seed, 20 + seed), 24, temperature=0, logit_bias=BANNED) for seed in range(3)
    ]
    expected = [answers(engine_of(program), [one])[0].tokens for one in plain]
    # It has that token among its likeliest, and draws it at some step of a burst.
    loud = request(sound(9, 25), 24, temperature=2.5, seed=2, logit_bias={OVERFLOWING: 10.0})
    engine = engine_of(program)
    *found, last = run(engine, [*plain, loud])
    assert [tuple(sequence.tokens) for sequence in found] == expected
    assert last.tokens[-1] == OVERFLOWING
    assert 1 < len(last.tokens) < 24
    assert_named(last.failure, 25 + len(last.tokens))


@pytest.mark.quick(cases=1)
def test_each_choice_ends_by_itself(program: LoadedProgram) -> None:
    asked = request(sound(3, 20), 10, temperature=2.0, seed=6, n=4, logit_bias={OVERFLOWING: 5.0})
    sequences = run(engine_of(program), [asked])
    for sequence in sequences:
        drew = OVERFLOWING in sequence.tokens[:9]
        assert (sequence.failure is not None) == drew
        assert len(sequence.tokens) == 10 or drew
    assert len({sequence.failure is None for sequence in sequences}) == 2


@pytest.mark.quick(cases=1)
def test_a_wrong_draft_that_overflows_ends_nobody(program: LoadedProgram) -> None:
    asked = request(sound(5, 25), 16, temperature=0, logit_bias=BANNED)
    plain = answers(engine_of(program), [asked])[0].tokens
    drafted = []

    class Overflowing(PromptLookup):
        """Drafts the token that comes next, then one that overflows and never comes."""

        def propose_all(self, wanted: Sequence[tuple[DraftView, int]]) -> list[tuple[int, ...]]:
            return [self._draft(len(view.tokens) - len(asked.prompt), k) for view, k in wanted]

        def _draft(self, given: int, k: int) -> tuple[int, ...]:
            drafted.append((*plain[given : given + 1], OVERFLOWING, 3)[:k])
            return drafted[-1]

    [sequence] = run(engine_of(program, drafter=Overflowing()), [asked])
    assert sequence.failure is None
    assert len(sequence.tokens) == 16
    if program.program.decode_agrees:
        assert tuple(sequence.tokens) == plain
    assert any(OVERFLOWING in draft for draft in drafted)


@pytest.mark.quick(cases=1)
def test_scores_of_a_text_that_overflows_are_refused(program: LoadedProgram) -> None:
    engine = engine_of(program)
    prompt = overflowing(2, 19, 5)
    with pytest.raises(EdgewiseError) as caught:
        engine.score(prompt)
    assert_named(caught.value, 20)
    assert np.isfinite(engine.score(prompt[:19])).all()
    assert engine.check() == []


def test_pages_that_are_not_finite_are_neither_found_nor_stored(program: LoadedProgram) -> None:
    prompt, store = overflowing(4, 20, 40), MemoryStore(1 << 26)
    engine = engine_of(program, store=store, step_tokens=16)
    for found in (0, PAGE_TOKENS):
        [sequence] = run(engine, [request(prompt, temperature=0)])
        assert_named(sequence.failure, len(prompt))
        # The first page is as it should be, and stays.
        assert sequence.cached_tokens == found
    # Nobody has looked at the pages of one that is cancelled before a token could be drawn.
    hasty = engine.sequence(request((3, *prompt), temperature=0))
    engine.submit([hasty])
    while hasty.computed < 2 * PAGE_TOKENS:
        engine.step()
    hasty.cancelled = True
    engine.close()
    snapshot = engine.metrics.snapshot()
    assert snapshot["kv_pages_spilled_total"] == 2
    assert store.bytes_used == 0


def test_a_prefix_that_has_gone_bad_names_the_layer_that_was_given_it(
    program: LoadedProgram,
) -> None:
    prompt, engine = sound(6, 20), engine_of(program)
    [first] = run(engine, [request(prompt, 4, temperature=0, logit_bias=BANNED)])
    assert first.failure is None
    # Every number of the first page: what no key or value by itself comes to.
    program.write_page(0, b"\xff" * program.page_bytes)
    [second] = run(engine, [request(prompt, 4, temperature=0, logit_bias=BANNED)])
    assert second.cached_tokens > 0
    assert second.failure is not None
    assert "what layer 0 is given, or makes of it, has overflowed" in second.failure.message
    assert "--quant f32" in second.failure.remedy
    # Nobody finds that page any more.
    [third] = run(engine, [request(prompt, 4, temperature=0, logit_bias=BANNED)])
    assert (third.cached_tokens, third.tokens) == (0, first.tokens)


def test_where_pages_are_finite_the_error_names_what_comes_after_them(
    program: LoadedProgram,
) -> None:
    error = not_finite(program.program, None, 5)
    assert "after token 5 are not finite" in error.message
    assert "what comes after the keys and values of the last layer" in error.message


@pytest.mark.parametrize(
    "name", ["cpu", pytest.param("webgpu-f16-subgroups-kv32", marks=pytest.mark.full)]
)
def test_pages_of_float32_hold_what_float16_cannot(bundles: BundleFactory, name: str) -> None:
    targets = ("cpu",) if name == "cpu" else TARGETS
    bundle = Bundle.open(bundles("overflowing", targets=targets, kv="f32"))
    prompt = overflowing(2, 19, 5)
    with load(bundle, name) as program:
        assert program.program.id.endswith("-kv32")
        assert program.program.state_dtype == "float32"
        engine = engine_of(program)
        [found] = answers(engine, [request(prompt, 24, temperature=0)])
        assert len(found.tokens) == 24
        assert OVERFLOWING in (*prompt, *found.tokens)
        assert np.isfinite(engine.score(prompt)).all()


def test_hidden_states_that_are_not_finite_fail_their_sequence_alone(
    program: LoadedProgram,
) -> None:
    asked = [
        Request(prompt, SamplingParams(max_tokens=0), pooling="last")
        for prompt in (sound(1, 20), overflowing(2, 20, 3), sound(3, 40))
    ]
    first, wrong, last = run(engine_of(program), asked)
    assert wrong.failure is not None
    assert wrong.failure.code == "engine.not_finite"
    assert "hidden states are not finite: the keys of layer 1" in wrong.failure.message
    for one in (first, last):
        assert one.pooled is not None
        assert one.pooled.finite
