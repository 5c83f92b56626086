"""A step's work on the host is what its own sequences need, however many pages there are."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from edgewise_runtime.engine.config import EngineOptions
from edgewise_runtime.engine.engine import GenerationEngine
from edgewise_runtime.engine.pace import MAX_BURST, Unpaced
from edgewise_runtime.engine.sampling import SamplingParams
from edgewise_runtime.engine.sequence import Request
from edgewise_runtime.format.abi import PAGE_TOKENS
from edgewise_runtime.kv.keys import KeyChain
from tests.runtime.counting import instructions
from tests.runtime.engine.toy import ToyProgram
from tests.runtime.engine.toy_bundle import Bounds, tokenizer

ROWS = 64
LONG = 20
"""Pages of a long prompt."""
SIZES = [256, 512, 1024]
OTHERS = b"others"


def ask(engine: GenerationEngine, prompt: tuple[int, ...], tokens: int) -> None:
    params = SamplingParams(max_tokens=tokens, temperature=0.0, ignore_eos=True, seed=1)
    engine.submit(engine.sequences(Request(prompt, params)))


def made(pages: int, kept: int) -> GenerationEngine:
    """An engine with so many pages, of which some are kept for prompts that do not come."""
    bounds = Bounds(pages=pages, rows=ROWS, batch=4, context=1024)
    engine = GenerationEngine(
        ToyProgram(bounds),
        tokenizer(),
        pages=pages,
        context=bounds.context,
        options=EngineOptions(pace=Unpaced()),
    )
    memory = engine._memory
    for nth in range(kept // 2):
        tokens = (nth, *range(2 * PAGE_TOKENS - 1))
        holding = memory.acquire(KeyChain(OTHERS), tokens, len(tokens))
        assert holding is not None
        memory.retire(holding, tokens, len(tokens), len(tokens))
    memory.settle()
    assert memory.kept == kept
    return engine


def full(pages: int) -> GenerationEngine:
    return made(pages, pages)


def roomy(pages: int) -> GenerationEngine:
    return made(pages, SIZES[0] // 2)


def work(engine: GenerationEngine) -> list[int]:
    """The instructions of each step of two streams beside which a long prompt is admitted, whose
    beginning is asked for once more while it is there."""
    counts: list[int] = []

    def steps(most: int = 1 << 10) -> None:
        while engine.busy and most:
            counts.append(instructions(engine.step))
            most -= 1

    long = tuple(range(7, 47)) * (LONG * PAGE_TOKENS // 40)
    for first in (1, 2):
        ask(engine, (first, *range(20)), 100)
    steps(10)
    ask(engine, long, 30)
    steps(10)
    ask(engine, long[:-50], 20)
    steps()
    assert engine.check() == []
    return counts


@pytest.mark.parametrize("engine", [full, roomy])
def test_no_step_takes_longer_where_there_are_more_pages(
    engine: Callable[[int], GenerationEngine],
) -> None:
    work(engine(SIZES[0]))  # how tokens are spelled is looked up once in a process
    few, some, many = (work(engine(pages)) for pages in SIZES)
    assert few == some == many


def test_no_step_takes_longer_after_a_longer_text() -> None:
    engine = roomy(SIZES[0])
    ask(engine, tuple(range(PAGE_TOKENS)), 600)
    counts: list[int] = []
    while engine.busy:
        counts.append(instructions(engine.step))
    # Bursts of a few pages each, early and late.
    bursts = 8 * PAGE_TOKENS // MAX_BURST
    assert sorted(counts[10 : 10 + bursts]) == sorted(counts[-10 - bursts : -10])


def test_a_long_prompt_makes_room_step_by_step() -> None:
    engine = full(SIZES[0])
    memory = engine._memory
    ask(engine, tuple(range(40)) * (LONG * PAGE_TOKENS // 40), 1)
    gone: list[int] = []
    while engine.busy:
        before = memory.kept
        engine.step()
        gone.append(before - memory.kept)
    assert max(gone) <= ROWS // PAGE_TOKENS + 1
    assert sum(gone[:-1]) >= LONG - ROWS // PAGE_TOKENS
