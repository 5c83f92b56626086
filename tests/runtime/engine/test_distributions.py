"""Tokens are drawn from the distribution that is documented: penalties, biases, temperature, top-k,
top-p, min-p.

Draws go through the compiled plan `sample` as the engine runs it, and are compared with the chain
written down in NumPy. See tests/frequencies.py for the test and its level.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from edgewise_runtime.devices.base import LoadedProgram
from edgewise_runtime.engine.batch import Batch, plan_for
from edgewise_runtime.engine.sampling import SamplingParams
from edgewise_runtime.engine.sequence import Request, Sequence
from edgewise_runtime.text import Tokenizer
from tests.compiler.kernels.sampling_reference import Request as Chain
from tests.compiler.kernels.sampling_reference import distribution
from tests.conftest import BundleFactory
from tests.frequencies import SIGNIFICANCE, assert_follow, p_value
from tests.runtime.engine.bits import Which

VOCAB = 320
FEW, MANY = 4000, 40_000
LOGITS = np.random.default_rng(3).normal(0, 1.6, VOCAB).astype(np.float32)
LIKELY = np.argsort(-LOGITS)[:12].tolist()
PROMPT = (LIKELY[1], LIKELY[3], LIKELY[3], LIKELY[5], 319)
ANSWER = (LIKELY[0], LIKELY[2], LIKELY[0], LIKELY[3], LIKELY[0], 17)
"""What has been said before, for penalties: likely tokens, some of them several times."""

Settings = dict[str, Any]
SETTINGS: dict[str, Settings] = {
    "as it is": {},
    "cool": {"temperature": 0.5},
    "hot": {"temperature": 1.8},
    "top-1": {"top_k": 1},
    "top-k": {"top_k": 9},
    "most of top-k": {"top_k": 300},
    "top-p": {"top_p": 0.6},
    "nearly all of top-p": {"top_p": 0.97},
    "min-p": {"min_p": 0.1},
    "little min-p": {"min_p": 0.01, "temperature": 1.4},
    "repetition": {"repetition_penalty": 1.5},
    "encouraged repetition": {"repetition_penalty": 0.8},
    "presence": {"presence_penalty": 1.2},
    "negative presence": {"presence_penalty": -0.8},
    "frequency": {"frequency_penalty": 0.7},
    "negative frequency": {"frequency_penalty": -0.3},
    "biases": {"logit_bias": {LIKELY[0]: -1.5, LIKELY[4]: 1.0, 100: 4.0}},
    "bans": {"logit_bias": dict.fromkeys(LIKELY[:6], -1e4)},
    "filters": {"temperature": 1.3, "top_k": 60, "top_p": 0.9, "min_p": 0.02},
    "penalties": {"repetition_penalty": 1.2, "presence_penalty": 0.5, "frequency_penalty": 0.3},
    "penalty and filters": {"temperature": 0.7, "frequency_penalty": 0.9, "top_p": 0.8},
    "bias and filters": {"logit_bias": {100: 5.0, LIKELY[1]: -2.0}, "top_k": 20, "min_p": 0.03},
    "all": {
        "temperature": 1.2,
        "top_k": 100,
        "top_p": 0.95,
        "min_p": 0.005,
        "repetition_penalty": 1.3,
        "presence_penalty": 0.4,
        "frequency_penalty": 0.2,
        "logit_bias": {100: 5.0, LIKELY[0]: 2.0, LIKELY[1]: -2.0, LIKELY[2]: -1e4},
    },
}


@pytest.fixture(scope="module")
def program(bundles: BundleFactory) -> Iterator[LoadedProgram]:
    with Which("q4").load(bundles) as loaded:
        yield loaded


def params_of(settings: Settings) -> SamplingParams:
    return SamplingParams(**{"temperature": 1.0, "top_p": 1.0, **settings})


def expected(settings: Settings) -> npt.NDArray[np.float64]:
    """The distribution of the next token by the chain as it is documented."""
    p = params_of(settings)
    counts = 2 * np.bincount(ANSWER, minlength=VOCAB)
    counts[list(PROMPT)] |= 1
    chain = Chain(
        p.temperature,
        p.top_k,
        p.top_p,
        p.min_p,
        p.repetition_penalty,
        p.presence_penalty,
        p.frequency_penalty,
        tuple(p.logit_bias.items()),
    )
    found: npt.NDArray[np.float64] = distribution(LOGITS, counts, chain)
    return found


def frequencies(program: LoadedProgram, settings: Settings, count: int) -> npt.NDArray[np.int64]:
    """How often each token is drawn after `ANSWER`, at other positions and with other seeds."""
    rows, positions = 8, 16
    batch, tokens = Batch(program), Tokenizer.from_folder(program.bundle.path)
    program.write("logits", np.tile(LOGITS, (rows, 1)))
    drawn: list[int] = []
    while len(drawn) < count:
        sequences = []
        for row in range(rows):
            request = Request(PROMPT, params_of(settings | {"seed": len(drawn) + row}))
            sequence = Sequence(request, tokens, (), 256)
            sequence.accept(ANSWER)
            sequence.slot = row
            sequences.append(sequence)
        for position in range(positions):
            for sequence in sequences:
                sequence.counted = False  # what is drawn here has not been said
            batch.sample([(s, len(s.known) + position) for s in sequences])
            program.run(plan_for(program, "sample", b=rows))
            drawn += [one for [one] in batch.sampled(rows)]
    return np.bincount(drawn[:count], minlength=VOCAB)


@pytest.mark.parametrize("name", SETTINGS)
def test_draws_follow_the_chain(program: LoadedProgram, name: str) -> None:
    assert_follow(frequencies(program, SETTINGS[name], FEW), expected(SETTINGS[name]))


@pytest.mark.full
@pytest.mark.parametrize("name", SETTINGS)
def test_many_draws_follow_the_chain(program: LoadedProgram, name: str) -> None:
    assert_follow(frequencies(program, SETTINGS[name], MANY), expected(SETTINGS[name]))


NEAR: list[tuple[Settings, Settings]] = [
    ({"temperature": 1.0}, {"temperature": 1.2}),
    ({"top_k": 42}, {"top_k": 40}),
    ({"top_p": 0.92}, {"top_p": 0.9}),
    ({"min_p": 0.1}, {"min_p": 0.12}),
    ({"repetition_penalty": 1.2}, {"repetition_penalty": 1.35}),
    ({"presence_penalty": 0.5}, {"presence_penalty": 1.0}),
    ({"frequency_penalty": 0.5}, {"frequency_penalty": 0.8}),
    ({"logit_bias": {LIKELY[0]: 1.0}}, {"logit_bias": {LIKELY[0]: 1.4}}),
]


@pytest.mark.parametrize(("settings", "other"), NEAR, ids=str)
def test_so_many_draws_tell_close_settings_apart(
    program: LoadedProgram, settings: Settings, other: Settings
) -> None:
    """Draws that passed for those of a setting a little off would show nothing."""
    seen = frequencies(program, settings, FEW)
    assert_follow(seen, expected(settings))
    assert p_value(seen, expected(other)) < SIGNIFICANCE
