"""What the host does for a token of a burst: so many calls, however long the context is, and of a
token it keeps its id and its text."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections import Counter
from functools import cached_property
from types import FrameType
from typing import Any

import pytest

from edgewise_runtime.engine.config import EngineOptions
from edgewise_runtime.engine.engine import GenerationEngine
from edgewise_runtime.engine.pace import MAX_BURST, Unpaced
from edgewise_runtime.engine.sampling import SamplingParams
from edgewise_runtime.engine.sequence import Request, Sequence
from edgewise_runtime.format.abi import PAGE_TOKENS, STEP_WIDTH
from edgewise_runtime.format.bundle import Bundle
from tests.runtime.engine.toy import ToyProgram
from tests.runtime.engine.toy_bundle import Bounds, tokenizer
from tests.runtime.engine.toy_model import VOCAB

STEPS = 2 * PAGE_TOKENS // MAX_BURST
"""Steps in which each sequence fills as many pages, wherever it is in one."""


class Uncounted(ToyProgram):
    """A toy whose kernels do not count, and that knows how much it was told.

    Attributes:
        told: numbers written to its buffers.
    """

    told = 0

    @cached_property
    def bundle(self) -> Bundle:
        return super().bundle

    def run(self, plan: str, k: int = 1) -> None:
        counting = sys.getprofile()
        sys.setprofile(None)
        super().run(plan, k)
        sys.setprofile(counting)

    def write(self, buffer: str, array: Any, offset_elems: int = 0) -> None:
        self.told += array.size
        super().write(buffer, array, offset_elems)


def decoding(program: ToyProgram, prompts: int, length: int) -> GenerationEngine:
    """An engine whose sequences decode in whole bursts; it has no time of its own."""
    tokenizer().stream().push(range(VOCAB))  # each is looked up once in a process
    pages = program.bounds.pages
    context = program.bounds.context
    options = EngineOptions(pace=Unpaced())
    core = GenerationEngine(program, tokenizer(), pages=pages, context=context, options=options)
    params = SamplingParams(temperature=0, ignore_eos=True, max_tokens=context)
    sequences: list[Sequence] = []
    for first in range(prompts):
        prompt = tuple((first + at) % 7 for at in range(length))
        sequences.append(core.sequence(Request(prompt, params)))
    core.submit(sequences)
    while min(sequence.bursts for sequence in sequences) < 4:
        core.step()
    return core


def calls_of(core: GenerationEngine) -> Counter[str]:
    """Which functions some steps call, in Python and in C."""
    calls = Counter[str]()

    def note(frame: FrameType, event: str, arg: object) -> None:
        if event in ("call", "c_call"):
            calls[f"{frame.f_code.co_qualname}: {getattr(arg, '__name__', '')}"] += 1

    gc.disable()
    sys.setprofile(note)
    try:
        for _ in range(STEPS):
            core.step()
    finally:
        sys.setprofile(None)
        gc.enable()
    return calls


def test_a_token_of_a_burst_takes_few_calls() -> None:
    for prompts, most in ((1, 50), (8, 25)):
        core = decoding(Uncounted(Bounds(pages=80, rows=64, batch=8)), prompts, length=20)
        assert calls_of(core).total() / (STEPS * MAX_BURST * prompts) < most


def test_no_call_and_no_number_more_is_for_a_longer_context() -> None:
    found = []
    for context, length in ((512, 100), (4096, 1600), (16384, 3200)):
        program = Uncounted(Bounds(pages=280, rows=256, batch=2, context=context))
        core = decoding(program, 1, length)
        before = program.told
        found.append((calls_of(core), program.told - before))
    assert found == [found[0]] * 3
    # Of each step its own buffer, and pages as they come and when they are full.
    assert found[0][1] <= STEPS * STEP_WIDTH + 8


def test_nothing_of_a_token_is_kept_but_its_id_and_its_text() -> None:
    core = decoding(ToyProgram(Bounds(pages=256, batch=2, context=4096)), 1, length=20)
    # Pages are as many as there are, and so is what is known of them.
    ours = [tracemalloc.Filter(True, f"*/edgewise_runtime/{room}/*") for room in ("engine", "text")]

    def held_after(steps: int) -> int:
        for _ in range(steps):
            core.step()
        found = tracemalloc.take_snapshot().filter_traces(ours)
        return sum(trace.size for trace in found.traces)

    tracemalloc.start()
    try:
        before = held_after(140)  # until no more waits are kept
        grown = held_after(60) - before
    finally:
        tracemalloc.stop()
    assert grown / (60 * MAX_BURST) < 16


@pytest.mark.parametrize("batch", [2, 8, 64])
def test_room_for_more_sequences_takes_no_more_calls(batch: int) -> None:
    core = decoding(Uncounted(Bounds(pages=80, rows=64, batch=batch)), 1, length=20)
    alone = decoding(Uncounted(Bounds(pages=80, rows=64, batch=1)), 1, length=20)
    assert calls_of(core) == calls_of(alone)
