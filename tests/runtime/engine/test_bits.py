"""The bitwise contract of the engine: what a request is answered depends on the request alone.

Tokens and log-probabilities (float32, of the 21 tokens that a row tells) are the same bits alone
and in any batch, with the prompt cut anywhere, after any prefix, from pages that were away, as one
of several choices. Where decode gives the bits of prefill, also after preemption and with drafts.
`test_across.py` has what holds where it does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from edgewise_runtime.devices.base import LoadedProgram
from edgewise_runtime.engine.sequence import Sequence
from edgewise_runtime.format.abi import PAGE_TOKENS
from edgewise_runtime.kv.keys import producer_of
from edgewise_runtime.kv.spill import DiskStore, MemoryStore, PageStore, Tiered
from edgewise_runtime.kv.stored import stored_bytes
from tests.conftest import BundleFactory
from tests.runtime.engine.bits import (
    AGREEING,
    DIFFERING,
    REQUESTS,
    TOP,
    Said,
    Which,
    alone,
    answers,
    engine_of,
    params,
    request,
    restored,
    said,
    silent,
    text,
)

pytestmark = pytest.mark.sampled(one_in=4)


@pytest.fixture(scope="module", params=params([*AGREEING, *DIFFERING]))
def which(request: pytest.FixtureRequest) -> Which:
    chosen: Which = request.param
    return chosen


@pytest.fixture(scope="module")
def program(which: Which, bundles: BundleFactory) -> Iterator[LoadedProgram]:
    with which.load(bundles) as loaded:
        assert loaded.program.decode_agrees == (which in AGREEING)
        yield loaded


@pytest.fixture(scope="module")
def cold(program: LoadedProgram) -> list[Said]:
    """What each of `REQUESTS` is answered alone by an engine that knows nothing."""
    return [alone(program, asked) for asked in REQUESTS]


def test_in_a_batch_of_any_size(which: Which, program: LoadedProgram, cold: list[Said]) -> None:
    for size in (3, 8) if which.gpu else range(1, 9):
        for first in {0, 8 - size}:
            batch = slice(first, first + size)
            assert answers(engine_of(program), REQUESTS[batch]) == cold[batch], batch


def test_in_bursts(program: LoadedProgram, cold: list[Said]) -> None:
    found = answers(engine_of(program), map(silent, REQUESTS))
    assert [one.tokens for one in found] == [one.tokens for one in cold]


def test_with_neighbours_that_come_and_go(program: LoadedProgram, cold: list[Said]) -> None:
    engine = engine_of(program)
    sequences = [engine.sequence(asked) for asked in REQUESTS]
    passing = [engine.sequence(request(text(90 + i, 30), 100)) for i in range(4)]
    for i, sequence in enumerate(sequences):
        if i % 2:
            engine.submit([passing[i // 2]])
        engine.submit([sequence])
        engine.step()
        passing[i // 2 - 1].cancelled = bool(i % 2)
        engine.step()
    while not all(sequence.ended for sequence in sequences):
        engine.step()
    assert said(sequences) == cold


def test_with_prompts_cut_anyhow(which: Which, program: LoadedProgram, cold: list[Said]) -> None:
    for step_tokens in (13,) if which.gpu else (8, 13, 64, 512):
        engine = engine_of(program, step_tokens=step_tokens)
        assert answers(engine, REQUESTS) == cold, step_tokens
        for asked, expected in () if which.gpu else zip(REQUESTS, cold, strict=True):
            assert answers(engine_of(program, step_tokens=step_tokens), [asked]) == [expected]


def test_with_the_whole_prompt_known(program: LoadedProgram, cold: list[Said]) -> None:
    engine = engine_of(program)
    answers(engine, REQUESTS)
    sequences = [engine.sequence(asked) for asked in REQUESTS]
    list(engine.run(sequences))
    assert said(sequences) == cold
    # All but the last token, from which the answer begins.
    found = [s.cached_tokens for s in sequences]
    assert found == [len(asked.prompt) - 1 for asked in REQUESTS]


def test_with_a_page_that_begins_alike(program: LoadedProgram) -> None:
    """50 of 70 tokens known: three pages shared, two tokens of the fourth copied."""
    asked = request(text(20, 70), 20, temperature=0.9, seed=8, **TOP)
    other = request((*asked.prompt[:50], *text(21, 9)), 2, temperature=0)
    expected = alone(program, asked)
    engine = engine_of(program)
    before = answers(engine, [other])
    sequence = engine.sequence(asked)
    list(engine.run([sequence]))
    assert (sequence.cached_tokens, said([sequence])) == (50, [expected])
    # What was copied is as it was for its first owner.
    assert answers(engine, [other]) == before


def test_in_the_next_turn_of_a_conversation(program: LoadedProgram) -> None:
    """The answer is part of the next prompt; only prefill's own pages stand for prefill."""
    first = request(text(30, 37), 40, temperature=0.8, seed=2, **TOP)
    engine = engine_of(program)
    [answer] = answers(engine, [first])
    second = request((*first.prompt, *answer.tokens, *text(31, 12)), 20, temperature=0, **TOP)
    sequence = engine.sequence(second)
    list(engine.run([sequence]))
    # Of the last token of the answer nothing was computed.
    known = 37 + (39 if program.program.decode_agrees else 0)
    assert sequence.cached_tokens == known
    assert said([sequence]) == [alone(program, second)]


def test_of_prompts_that_share_their_beginning_at_once(program: LoadedProgram) -> None:
    """Later ones wait for the pages that the first one computes."""
    shared = text(40, 53)
    asked = [request((*shared, *text(41 + i, 3 * i + 1)), 8, seed=i, **TOP) for i in range(5)]
    engine = engine_of(program)
    sequences = [engine.sequence(one) for one in asked]
    list(engine.run(sequences))
    assert said(sequences) == [alone(program, one) for one in asked]
    assert all(s.cached_tokens >= 48 for s in sequences[1:])


def in_memory(program: LoadedProgram, folder: Path) -> PageStore:
    return MemoryStore(40 * stored_bytes(PAGE_TOKENS, program.page_bytes))


def on_disk(program: LoadedProgram, folder: Path) -> PageStore:
    size = stored_bytes(PAGE_TOKENS, program.page_bytes)
    producer = producer_of(program.bundle, program.program)
    return Tiered(MemoryStore(2 * size), DiskStore(folder, 1 << 24, producer, size))


def test_from_pages_that_were_away(
    which: Which, program: LoadedProgram, cold: list[Said], tmp_path: Path
) -> None:
    """Six pages for one request at a time; the first ones' have left when they come again."""
    for store in (on_disk,) if which.gpu else (in_memory, on_disk):
        engine = engine_of(program, pages=6, store=store(program, tmp_path))
        for i in (1, 3, 4, 1, 7, 3, 4):
            assert answers(engine, [REQUESTS[i]]) == [cold[i]], i
        # Two full pages of each of the two shorter prompts, four of the longest one.
        assert restored(engine) == 2 + 2 + 4
        engine.close()


def test_from_pages_that_another_engine_stored(
    program: LoadedProgram, cold: list[Said], tmp_path: Path
) -> None:
    engine = engine_of(program, store=on_disk(program, tmp_path))
    assert answers(engine, REQUESTS[3:6]) == cold[3:6]
    engine.close()
    engine = engine_of(program, store=on_disk(program, tmp_path))
    assert answers(engine, REQUESTS[3:6]) == cold[3:6]
    assert restored(engine) == 2 + 4
    engine.close()


def test_as_one_of_several_choices(which: Which, program: LoadedProgram) -> None:
    """Choices share the prompt's pages, and are what each would be as a request of its own."""
    for i, length in enumerate((17,) if which.gpu else (1, 2, 16, 17, 33, 64)):
        asked = request(text(50 + i, length), 18, temperature=1.1, top_p=0.95, seed=i, **TOP)
        three = replace(asked.params, n=3)
        forked = answers(engine_of(program), [replace(asked, params=three)])
        engine = engine_of(program)
        separate = [
            Sequence(asked, engine._tokenizer, program.bundle.model.eos, 256, index=index)
            for index in range(3)
        ]
        for sequence in separate:
            list(engine.run([sequence]))
        assert forked == said(separate)
        assert len({one.tokens for one in forked}) == 3
