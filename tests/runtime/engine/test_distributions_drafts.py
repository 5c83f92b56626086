"""With drafts tokens are drawn from the model's own distribution, whatever is guessed.

The same seed gives the same tokens with and without. That alone would follow from a draft that
decides nothing; so over many seeds the tokens are also held against the distribution that the
model's logits give, worked out token by token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from edgewise_runtime.devices.base import LoadedProgram
from edgewise_runtime.devices.cpu.device import CpuDevice
from edgewise_runtime.engine.engine import GenerationEngine
from edgewise_runtime.engine.speculate.base import Drafter
from edgewise_runtime.engine.speculate.draft import DraftModel
from edgewise_runtime.engine.speculate.lookup import PromptLookup
from edgewise_runtime.format.bundle import Bundle
from tests.compiler.kernels.sampling_reference import Request as Chain
from tests.compiler.kernels.sampling_reference import distribution
from tests.conftest import BundleFactory
from tests.frequencies import assert_follow
from tests.runtime.engine.bits import PAGES, Which, engine_of, request

pytestmark = pytest.mark.landing

OTHER = "llama-gqa2-tied-linear"
"""A model of the same tokenizer that knows nothing of what the target thinks."""

CHOICES = (40, 41, 42, 43)
"""A bias leaves these four, so that there are few enough texts to count."""

PROMPT = (40, 41, 43, 42, 41, 40, 42, 43, 41, 42, 40, 43)
"""All of them, in several orders: there is always something to look up."""

SAMPLING: dict[str, Any] = {
    "temperature": 3.0,
    "top_k": len(CHOICES),
    "top_p": 1.0,
    "logit_bias": dict.fromkeys(CHOICES, 100.0),
}
LENGTH = 3
FEW, MANY = 2000, 20_000
"""Texts. The last two tokens of each are drawn by verifying drafts: 4,000 and 40,000 draws."""

Texts = npt.NDArray[np.int64]


@pytest.fixture(scope="module")
def program(bundles: BundleFactory) -> Iterator[LoadedProgram]:
    with Which("q4").load(bundles) as loaded:
        yield loaded


@pytest.fixture(scope="module")
def expected(program: LoadedProgram) -> npt.NDArray[np.float64]:
    """The probability of each text of `LENGTH` tokens: float64 [4, 4, 4]."""
    engine = engine_of(program)
    chain = Chain(3.0, len(CHOICES), biases=tuple(SAMPLING["logit_bias"].items()))
    found = np.ones((len(CHOICES),) * LENGTH)
    for said in product(range(len(CHOICES)), repeat=LENGTH - 1):
        tokens = (*PROMPT, *(CHOICES[i] for i in said))
        rows = engine.score(tokens)[len(PROMPT) - 1 :]
        for place, logits in enumerate(rows):
            p = distribution(logits, np.zeros(len(logits)), chain)[list(CHOICES)]
            before = said[:place]
            if all(i == 0 for i in said[place:]):
                # Once for each beginning, whatever follows.
                shape = (len(CHOICES),) + (1,) * (LENGTH - 1 - place)
                found[before] *= p.reshape(shape)
    return found


def lookup(bundles: BundleFactory, target: Bundle) -> Drafter:
    return PromptLookup()


def another(bundles: BundleFactory, target: Bundle) -> Drafter:
    bundle = Bundle.open(bundles(OTHER))
    program = CpuDevice(threads=2).load(bundle, load_symbols={"pages": PAGES})
    return DraftModel(program, PAGES, target, cost=0.1)


def texts(engine: GenerationEngine, count: int, together: int) -> Texts:
    """What comes of the seeds from 0 on, as places in `CHOICES`: int64 [count, LENGTH]."""
    found = []
    for first in range(0, count, together):
        seeds = range(first, min(first + together, count))
        # One more than is looked at: the last of an answer is never drafted.
        asked = [request(PROMPT, LENGTH + 1, seed=seed, **SAMPLING) for seed in seeds]
        sequences = [engine.sequence(one) for one in asked]
        list(engine.run(sequences))
        found += [s.tokens[:LENGTH] for s in sequences]
    return np.array(found) - CHOICES[0]


def check(
    program: LoadedProgram, expected: npt.NDArray[np.float64], drafter: Drafter, count: int
) -> None:
    plain = texts(engine_of(program), count, together=8)
    engine = engine_of(program, drafter=drafter)
    # Three at a time: two or one tokens are drafted for each.
    drafted = texts(engine, count, together=3)
    counts = engine.metrics.snapshot()
    engine.close()
    assert np.array_equal(drafted, plain)
    proposed = counts["spec_decode_num_draft_tokens_total"]
    accepted = counts["spec_decode_num_accepted_tokens_total"]
    # Both happened often.
    assert proposed > count // 4
    assert proposed // 20 < accepted < proposed * 19 // 20
    for length in range(1, LENGTH + 1):
        p = expected.sum(axis=tuple(range(length, LENGTH)))
        seen = np.zeros(p.shape, np.int64)
        np.add.at(seen, tuple(drafted[:, :length].T), 1)
        assert_follow(seen.ravel(), p.ravel())
    second = np.bincount(drafted[:, 1], minlength=len(CHOICES))
    assert_follow(second, expected.sum(axis=(0, 2)))


@pytest.mark.parametrize("drafter", [lookup, pytest.param(another, marks=pytest.mark.full)])
def test_tokens_follow_the_model_with_drafts(
    program: LoadedProgram,
    expected: npt.NDArray[np.float64],
    bundles: BundleFactory,
    drafter: Callable[[BundleFactory, Bundle], Drafter],
) -> None:
    check(program, expected, drafter(bundles, program.bundle), FEW)


@pytest.mark.full
@pytest.mark.parametrize("drafter", [lookup, another])
def test_many_tokens_follow_the_model_with_drafts(
    program: LoadedProgram,
    expected: npt.NDArray[np.float64],
    bundles: BundleFactory,
    drafter: Callable[[BundleFactory, Bundle], Drafter],
) -> None:
    check(program, expected, drafter(bundles, program.bundle), MANY)
