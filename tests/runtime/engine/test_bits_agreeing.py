"""Programs whose decode gives the bits of prefill: no interruption and no draft shows in an answer.

What one of them wrote into KV may be written by the other instead: when a sequence that has lost
its pages is computed again, and when the tokens of a draft are verified together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from edgewise_runtime.devices.base import LoadedProgram
from edgewise_runtime.devices.cpu.device import CpuDevice
from edgewise_runtime.engine.engine import GenerationEngine
from edgewise_runtime.engine.speculate.base import Drafter
from edgewise_runtime.engine.speculate.draft import DraftModel
from edgewise_runtime.engine.speculate.lookup import PromptLookup
from edgewise_runtime.format.abi import PAGE_TOKENS
from edgewise_runtime.format.bundle import Bundle
from edgewise_runtime.kv.spill import MemoryStore
from edgewise_runtime.kv.stored import stored_bytes
from tests.conftest import BundleFactory
from tests.runtime.engine.bits import (
    AGREEING,
    PAGES,
    TOP,
    Said,
    Which,
    alone,
    answers,
    engine_of,
    params,
    request,
    restored,
    silent,
    text,
)

pytestmark = [pytest.mark.sampled(one_in=4), pytest.mark.landing]

OTHER = "llama-gqa2-tied-linear"
"""Another model of the same tokenizer."""

LONG = [
    request(text(1, 7), 40, temperature=0, **TOP),
    request(text(2, 20), 36, temperature=0.8, top_p=0.9, seed=3),
    request(text(3, 14), 42, temperature=1.0, logit_bias={7: 4.0, 200: -3.0}, seed=1 << 63, **TOP),
    request(text(4, 9), 40, temperature=1.2, presence_penalty=0.6, frequency_penalty=0.4, seed=4),
    request(text(5, 5), 44, temperature=0, repetition_penalty=1.4, **TOP),
]
"""They begin with 6 pages and come to need 18; those with penalties give theirs up first."""

LOOPS = [
    request(text(1, 6) * 5, 20, temperature=0, logit_bias={9: 30.0}, **TOP),
    request(text(2, 9) * 4, 18, temperature=0.4, top_k=4, seed=3, **TOP),
    request(text(3, 30), 20, temperature=0.7, top_p=0.8, min_p=0.02, seed=5),
    request(text(4, 3) * 5, 24, temperature=0, repetition_penalty=1.4),
]
"""Some repeat themselves, so that there is something to look up."""


@pytest.fixture(scope="module", params=params(AGREEING))
def which(request: pytest.FixtureRequest) -> Which:
    chosen: Which = request.param
    return chosen


@pytest.fixture(scope="module")
def program(which: Which, bundles: BundleFactory) -> Iterator[LoadedProgram]:
    with which.load(bundles) as loaded:
        yield loaded


@pytest.fixture(scope="module")
def cold(program: LoadedProgram) -> dict[str, list[Said]]:
    """What each request is answered alone by an engine that knows nothing."""
    asked = {"long": LONG, "loops": LOOPS}
    return {name: [alone(program, one) for one in some] for name, some in asked.items()}


def preemptions(engine: GenerationEngine) -> int:
    return int(engine.metrics.snapshot()["num_preemptions_total"])


def test_rows_that_decode_have_the_same_attention_in_both_plans(program: LoadedProgram) -> None:
    """The same kernels, layer by layer; a prefill may have one more, for chunks."""

    def attention(operation: str) -> set[tuple[str, str]]:
        plans = [plan for name, plan in program.plans.items() if name.startswith(operation)]
        steps = [step for plan in plans for step in plan.steps]
        return {(s.label, s.kernel) for s in steps if s.kernel.startswith("attention_")}

    assert attention("decode")
    assert attention("decode") <= attention("prefill")


def test_preemption_changes_nothing(program: LoadedProgram, cold: dict[str, list[Said]]) -> None:
    engine = engine_of(program, pages=10)
    assert answers(engine, LONG) == cold["long"]
    assert preemptions(engine) >= 2


def test_nor_in_the_middle_of_bursts(program: LoadedProgram, cold: dict[str, list[Said]]) -> None:
    engine = engine_of(program, pages=8, step_tokens=24)
    found = answers(engine, map(silent, LONG))
    assert [one.tokens for one in found] == [one.tokens for one in cold["long"]]
    assert preemptions(engine) >= 2


def test_nor_with_pages_that_were_away_meanwhile(
    program: LoadedProgram, cold: dict[str, list[Said]]
) -> None:
    store = MemoryStore(60 * stored_bytes(PAGE_TOKENS, program.page_bytes))
    engine = engine_of(program, pages=8, store=store)
    assert answers(engine, LONG) == cold["long"]
    assert preemptions(engine) >= 2
    assert restored(engine) >= 2


def test_nor_of_one_of_several_choices(program: LoadedProgram) -> None:
    asked = request(text(8, 37), 30, temperature=1.1, frequency_penalty=0.2, seed=8, n=3)
    roomy, narrow = engine_of(program), engine_of(program, pages=7)
    assert answers(narrow, [asked]) == answers(roomy, [asked])
    assert preemptions(narrow) >= 1
    assert preemptions(roomy) == 0


CHEAP = partial(DraftModel, pages=PAGES, cost=0.1)
"""These models are all of one size: as if the one that guesses were much smaller."""


def lookup(which: Which, target: LoadedProgram, bundles: BundleFactory) -> Drafter:
    return PromptLookup()


def itself(which: Which, target: LoadedProgram, bundles: BundleFactory) -> Drafter:
    """The same model: on a CPU, where the target runs on a GPU."""
    which = replace(which, gpu=None)
    return CHEAP(which.load(bundles), target=target.bundle)


def another(which: Which, target: LoadedProgram, bundles: BundleFactory) -> Drafter:
    bundle = Bundle.open(bundles(OTHER))
    program = CpuDevice(threads=2).load(bundle, load_symbols={"pages": PAGES})
    return CHEAP(program, target=target.bundle)


DRAFTERS = [lookup, itself, another]


def drafted(engine: GenerationEngine) -> tuple[int, int]:
    """Tokens verified, and those of them that were right."""
    counts: dict[str, Any] = engine.metrics.snapshot()
    return (
        counts["spec_decode_num_draft_tokens_total"],
        counts["spec_decode_num_accepted_tokens_total"],
    )


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_drafts_change_nothing(
    which: Which,
    program: LoadedProgram,
    cold: dict[str, list[Said]],
    drafter: Callable[..., Drafter],
    bundles: BundleFactory,
) -> None:
    engine = engine_of(program, drafter=drafter(which, program, bundles))
    for asked, expected in zip(LOOPS, cold["loops"], strict=True):
        assert answers(engine, [asked]) == [expected]
    assert answers(engine, LOOPS) == cold["loops"]
    proposed, accepted = drafted(engine)
    # Some were right and some were not.
    assert 10 < accepted < proposed or (drafter is itself and accepted == proposed > 10)
    engine.close()


def test_nor_do_they_where_pages_run_out(
    which: Which, program: LoadedProgram, cold: dict[str, list[Said]], bundles: BundleFactory
) -> None:
    """Preempted in the middle, the drafter's own pages forgotten too."""
    engine = engine_of(program, pages=7, drafter=another(which, program, bundles))
    assert answers(engine, LONG[:3]) == cold["long"][:3]
    assert preemptions(engine) >= 1
    assert drafted(engine)[0] > 0
    engine.close()


def test_nor_for_what_comes_after_them(
    which: Which, program: LoadedProgram, bundles: BundleFactory
) -> None:
    """A prefix whose last tokens were verified, some of them in vain."""
    first = LOOPS[0]
    engine = engine_of(program, drafter=another(which, program, bundles))
    [answer] = answers(engine, [first])
    second = request((*first.prompt, *answer.tokens, 77, 78), 12, temperature=0, **TOP)
    sequence = engine.sequence(second)
    list(engine.run([sequence]))
    assert sequence.cached_tokens == len(first.prompt) + len(answer.tokens) - 1
    assert sequence.tokens == list(alone(program, second).tokens)
    engine.close()
