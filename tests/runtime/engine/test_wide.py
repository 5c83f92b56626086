"""What the largest bounds promise: 256 sequences together, contexts of 131,072 tokens."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path

import numpy as np
import pytest

from edgewise_runtime.devices.base import LoadedProgram
from edgewise_runtime.devices.cpu.device import CpuDevice
from edgewise_runtime.engine.config import EngineOptions
from edgewise_runtime.engine.engine import GenerationEngine
from edgewise_runtime.engine.metrics import Metrics
from edgewise_runtime.engine.pace import Unpaced
from edgewise_runtime.engine.sequence import Request
from edgewise_runtime.engine.trace import Trace
from edgewise_runtime.format.abi import PAGE_TOKENS
from edgewise_runtime.format.bundle import Bundle
from edgewise_runtime.text import Tokenizer
from tests.compiler.kernels.attention_cases import same_bits
from tests.parity.driver import Driver, Stream
from tests.runtime.engine.bits import TOP, alone, answers, engine_of, request, text

SEQUENCES = 256
CONTEXT = 131072
PAGES = CONTEXT // PAGE_TOKENS + 64


@pytest.fixture(scope="module")
def program(long_bundle: Path) -> Iterator[LoadedProgram]:
    """The tiny program with pages for one sequence at full length, and some more."""
    bundle = Bundle.open(long_bundle)
    assert (bundle.model.max_batch, bundle.model.context) == (SEQUENCES, CONTEXT)
    with CpuDevice(threads=2).load(bundle, load_symbols={"pages": PAGES}) as loaded:
        yield loaded


def each_its_own() -> list[Request]:
    """Requests of 4 to 40 tokens, sampled in every way."""
    ways = cycle(
        (
            {"temperature": 0, **TOP},
            {"temperature": 0.9, "top_p": 0.9},
            {"temperature": 1.1, "top_k": 20, "frequency_penalty": 0.4},
            {"temperature": 0.7, "logit_bias": {9: 2.0}},
        )
    )
    return [
        request(text(seed, 4 + seed % 37), 24 + seed % 5, seed=seed, **way)
        for seed, way in zip(range(SEQUENCES), ways, strict=False)
    ]


@pytest.mark.landing
@pytest.mark.parametrize("every", [32, pytest.param(1, marks=pytest.mark.full)])
def test_256_sequences_are_answered_together_as_each_is_alone(
    program: LoadedProgram, every: int
) -> None:
    asked, metrics = each_its_own(), Metrics()
    metrics.trace = Trace()
    together = answers(engine_of(program, pages=PAGES, metrics=metrics), asked)
    events = metrics.trace.to_json()["traceEvents"]
    assert max(event.get("args", {}).get("batch", 0) for event in events) == SEQUENCES
    for each, said in list(zip(asked, together, strict=True))[::every]:
        assert alone(program, each) == said


def at_the_end(own: list[int], room: int) -> Stream:
    """A sequence that lacks `room` tokens of the context; the pages before `own` are four, again
    and again, which nobody writes to any more."""
    history = islice(cycle(range(4)), CONTEXT // PAGE_TOKENS - len(own))
    return Stream([*history, *own], kv_len=CONTEXT - room)


def test_the_last_tokens_of_a_long_context_decode_to_the_bits_of_prefill(
    program: LoadedProgram,
) -> None:
    driver = Driver(program, pages=PAGES)
    driver.prefill([(Stream([0, 1, 2, 3]), text(1, 4 * PAGE_TOKENS))])
    tail = text(2, 2 * PAGE_TOKENS)
    [expected] = driver.prefill([(at_the_end([4, 5], len(tail)), tail)])
    alone, beside = at_the_end([6, 7], len(tail)), at_the_end([8, 9], len(tail))
    short = Stream([10, 11])
    for token, row in zip(tail, expected, strict=True):
        same_bits(driver.decode([(alone, token)])[1][0], row)
        _, logits = driver.decode([(short, token), (beside, token)])
        same_bits(logits[1], row)
    assert alone.kv_len == CONTEXT
    # Tokens are where they are said to be: the same ones elsewhere have other logits.
    [elsewhere] = driver.prefill([(Stream([0, 1, 2, 3, 4, 5], kv_len=4 * PAGE_TOKENS), tail)])
    assert not np.isclose(elsewhere, expected, atol=1e-3).all(axis=1).any()


@pytest.mark.full
def test_a_text_of_100_000_tokens_goes_on_from_its_pages_as_it_did_at_first(
    program: LoadedProgram,
) -> None:
    engine = GenerationEngine(
        program,
        Tokenizer.from_folder(program.bundle.path),
        pages=PAGES,
        context=CONTEXT,
        options=EngineOptions(pace=Unpaced()),
    )
    asked = request(text(3, 100_500), 12, temperature=0, **TOP)
    [cold] = answers(engine, [asked])
    [warm] = answers(engine, [asked])
    assert warm == cold
    # Decoded tokens prefilled again, and what follows them.
    [later] = answers(engine, [request((*asked.prompt, *cold.tokens[:5]), 7, temperature=0, **TOP)])
    assert (later.tokens, later.logprobs) == (cold.tokens[5:], cold.logprobs[5:])
    hits = engine.metrics.snapshot()["prefix_cache_hits_total"]
    assert hits["device"] >= 2 * 100_480
