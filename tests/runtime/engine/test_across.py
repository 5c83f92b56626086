"""Programs whose decode differs from prefill: what preemption, drafts and shared decoding may move.

What one of the two would have written into KV may then be written by the other, so that logits
move as far as two correct programs are apart. The rule for that is teacher-forced: given the text
that came out, prefill's logits are within a bound of those that it was drawn from, and the
likeliest token is the same wherever the two best differ by more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pytest

from edgewise_runtime.devices.base import LoadedProgram
from edgewise_runtime.engine.engine import GenerationEngine
from edgewise_runtime.engine.sequence import Request
from edgewise_runtime.engine.sequence import Sequence as Running
from edgewise_runtime.engine.speculate.lookup import PromptLookup
from tests.conftest import BundleFactory
from tests.runtime.engine.bits import DIFFERING, TOP, Which, engine_of, params, request, text

pytestmark = pytest.mark.sampled(one_in=4)

FLOAT_BOUND = 1e-3
"""Absolute, on logits of deviation about 4: what the order of float32 sums can move, and a float16
key or value that falls to the other side (as tests/parity has it; 2e-5 seen)."""

CODE_BOUND = 0.08
"""With int8 keys and values one that falls to the other side is 1/127 of a head's largest number:
a few of them at most move logits as far as all that codes round away does, 0.02 of their deviation
(tests/parity; 9e-4 seen). A wrong page would move them by several units."""

GROWING = [
    request(text(1, 7), 34, temperature=0, **TOP),
    request(text(3, 14), 36, temperature=1.0, seed=5, **TOP),
    request(text(5, 5), 30, temperature=0, **TOP),
]
"""They begin with 3 pages and come to need 10."""

LOOPS = [
    request(text(1, 6) * 5, 20, temperature=0, **TOP),
    request(text(2, 9) * 4, 20, temperature=0.5, top_k=4, seed=3, **TOP),
    request(text(4, 3) * 9, 20, temperature=0, logit_bias={9: 8.0}, **TOP),
]


@pytest.fixture(scope="module", params=params(DIFFERING))
def which(request: pytest.FixtureRequest) -> Which:
    chosen: Which = request.param
    return chosen


@pytest.fixture(scope="module")
def program(which: Which, bundles: BundleFactory) -> Iterator[LoadedProgram]:
    with which.load(bundles) as loaded:
        yield loaded


@pytest.fixture
def bound(which: Which) -> float:
    return CODE_BOUND if which.kv == "int8" else FLOAT_BOUND


def answered(engine: GenerationEngine, asked: Iterable[Request]) -> list[Running]:
    sequences = [engine.sequence(one) for one in asked]
    list(engine.run(sequences))
    assert engine.check() == []
    return sequences


def assert_near(program: LoadedProgram, sequences: Sequence[Running], bound: float) -> None:
    """Every token was drawn from logits that prefill has too, up to the bound."""
    engine = engine_of(program)
    for sequence in sequences:
        scored = engine.score(sequence.known[:-1])
        logits = scored[sequence.prompt_len - 1 :].astype(np.float64)
        logprobs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        biased = logits.copy()
        for token, bias in sequence.params.logit_bias.items():
            biased[:, token] += bias
        best = np.sort(biased, -1)
        clear = best[:, -1] - best[:, -2] > 2 * bound
        assert clear.sum() > len(clear) // 2
        for row, one in enumerate(sequence.logprobs):
            ids = [one.token_id, *(token for token, _ in one.top)]
            told = [one.logprob, *(value for _, value in one.top)]
            # The logarithm of their sum moves by as much as logits do.
            assert np.abs(told - logprobs[row, ids]).max() < 2 * bound, row
            if sequence.params.greedy and clear[row]:
                assert one.token_id == biased[row].argmax(), row


def test_preemption(program: LoadedProgram, bound: float) -> None:
    engine = engine_of(program, pages=6)
    sequences = answered(engine, GROWING)
    assert engine.metrics.snapshot()["num_preemptions_total"] >= 1
    assert_near(program, sequences, bound)


def test_drafts(program: LoadedProgram, bound: float) -> None:
    engine = engine_of(program, drafter=PromptLookup())
    sequences = answered(engine, LOOPS)
    counts = engine.metrics.snapshot()
    proposed = counts["spec_decode_num_draft_tokens_total"]
    assert 0 < counts["spec_decode_num_accepted_tokens_total"] < proposed
    assert_near(program, sequences, bound)


def test_decoded_pages_where_they_are_shared(program: LoadedProgram, bound: float) -> None:
    """The next turn of a conversation begins with pages of the answer."""
    engine = engine_of(program, share_decoded=True)
    [first] = answered(engine, [request(text(30, 37), 40, temperature=0.8, seed=2, **TOP)])
    second = request((*first.known, *text(31, 12)), 20, temperature=0, **TOP)
    [sequence] = answered(engine, [second])
    assert sequence.cached_tokens == len(first.known) - 1
    assert_near(program, [first, sequence], bound)
