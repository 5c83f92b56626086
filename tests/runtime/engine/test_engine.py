"""The generation loop on a real program: who enters when, how bursts grow, what is given back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from edgewise_runtime.devices.base import LoadedProgram
from edgewise_runtime.devices.cpu.device import CpuDevice
from edgewise_runtime.engine.config import EngineOptions
from edgewise_runtime.engine.engine import GenerationEngine
from edgewise_runtime.engine.pace import Unpaced
from edgewise_runtime.engine.sampling import SamplingParams
from edgewise_runtime.engine.sequence import Request, Sequence
from edgewise_runtime.errors import InputError
from edgewise_runtime.format.bundle import Bundle
from edgewise_runtime.text import Tokenizer

PAGES = 40
PROMPT = tuple(range(10, 30))


class Recorder:
    """A loaded program that also remembers which plans ran, how often, and every step written."""

    def __init__(self, program: LoadedProgram) -> None:
        self._program = program
        self.calls: list[tuple[str, int]] = []
        self.steps: list[list[int]] = []

    def write(self, buffer: str, array: Any, offset_elems: int = 0) -> None:
        if buffer == "step" and offset_elems == 0:
            self.steps.append(array.tolist())
        self._program.write(buffer, array, offset_elems)

    def run(self, plan: str, k: int = 1) -> None:
        self.calls.append((plan, k))
        self._program.run(plan, k)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._program, name)

    @property
    def bursts(self) -> list[int]:
        return [k for plan, k in self.calls if plan == "decode"]


@pytest.fixture(scope="module")
def opened(bundles: Callable[..., Path]) -> Bundle:
    return Bundle.open(bundles("llama-gqa2-tied-linear"))


@pytest.fixture
def program(opened: Bundle) -> Iterator[Recorder]:
    with CpuDevice().load(opened, load_symbols={"pages": PAGES}) as loaded:
        yield Recorder(loaded)


@pytest.fixture
def core(opened: Bundle, program: Recorder) -> GenerationEngine:
    tokenizer = Tokenizer.from_folder(opened.path)
    # What is counted here must not depend on how fast the machine is.
    options = EngineOptions(pace=Unpaced())
    return GenerationEngine(program, tokenizer, pages=PAGES, context=256, options=options)


def generated(
    core: GenerationEngine, firsts: tuple[int, ...] = (0,), **options: Any
) -> list[Sequence]:
    """Generate greedily for prompts that begin with each of `firsts`."""
    params = SamplingParams(temperature=0, ignore_eos=True, **options)
    sequences = [core.sequence(Request((first, *PROMPT), params)) for first in firsts]
    for _ in core.run(sequences):
        pass
    return sequences


def test_bursts_grow_and_end_with_the_last_token(core: GenerationEngine, program: Recorder) -> None:
    generated(core, max_tokens=30)
    assert program.bursts == [1, 2, 4, 8, 8, 6]


@pytest.mark.parametrize("max_tokens", [1, 2, 3, 9])
def test_no_step_goes_past_max_tokens(
    core: GenerationEngine, program: Recorder, max_tokens: int
) -> None:
    [sequence] = generated(core, max_tokens=max_tokens)
    assert sum(program.bursts) == max_tokens - 1 == len(sequence.tokens) - 1


@pytest.mark.parametrize("stop", [{"stop": ("never",)}, {"stop_token_ids": (319,)}])
def test_the_host_looks_at_every_token_where_it_decides_the_end(
    core: GenerationEngine, program: Recorder, stop: dict[str, Any]
) -> None:
    generated(core, max_tokens=6, **stop)
    assert set(program.bursts) == {1}


def test_prompts_are_prefilled_in_chunks(core: GenerationEngine, program: Recorder) -> None:
    params = SamplingParams(max_tokens=1)
    list(core.run([core.sequence(Request(PROMPT * 10, params))]))
    plans = [plan for plan, _ in program.calls]
    assert plans == ["embed", "prefill"] * 2 + ["logits", "sample"]


def test_a_step_says_how_many_there_are_and_how_far_kv_can_reach(
    core: GenerationEngine, program: Recorder
) -> None:
    """Rows, sequences, logit rows, tokens in KV after the call: 21 of the prompt, 15 more."""
    generated(core, max_tokens=16)
    assert program.bursts == [1, 2, 4, 8]
    assert program.steps == [
        [21, 1, 0, 21, 0, 0, 0, 0],
        [1, 1, 1, 21, 0, 0, 0, 0],
        *([1, 1, 1, reach, 0, 0, 0, 0] for reach in (22, 24, 28, 36)),
    ]


def test_the_longest_sequence_says_how_far_kv_can_reach(
    core: GenerationEngine, program: Recorder
) -> None:
    params = SamplingParams(max_tokens=2, ignore_eos=True)
    prompts = [(1, *PROMPT), (2, *PROMPT, *PROMPT), PROMPT]
    list(core.run([core.sequence(Request(prompt, params)) for prompt in prompts]))
    assert program.steps[-1][:4] == [3, 3, 3, 42]


def test_kv_cannot_reach_past_the_context(core: GenerationEngine, program: Recorder) -> None:
    """The burst goes on for the short sequence after the long one has reached its end."""
    params = SamplingParams(max_tokens=40, ignore_eos=True)
    prompts = [PROMPT[:15], (PROMPT * 13)[:250]]
    sequences = [core.sequence(Request(prompt, params)) for prompt in prompts]
    list(core.run(sequences))
    assert max(step[3] for step in program.steps) == 256
    assert [len(s.tokens) for s in sequences] == [40, 6]


def test_prompts_that_fit_a_step_are_prefilled_together(
    core: GenerationEngine, program: Recorder
) -> None:
    """128 rows: six prompts of 21 tokens and the first 2 of the seventh."""
    generated(core, tuple(range(7)), max_tokens=1)
    prefills = [step[:2] for step in program.steps if not step[2]]
    assert prefills == [[128, 7], [19, 1]]


def test_bursts_are_single_tokens_while_others_wait(
    core: GenerationEngine, program: Recorder
) -> None:
    """Nine sequences for eight slots: the one that waits gets its slot as soon as there is one."""
    long, short = (SamplingParams(max_tokens=n, ignore_eos=True) for n in (30, 12))
    sequences = [core.sequence(Request((i, *PROMPT), long if i else short)) for i in range(9)]
    core.submit(sequences)
    while not sequences[0].ended:
        core.step()
    assert program.bursts == [1] * len(program.bursts)
    assert not sequences[-1].tokens
    core.step()
    assert len(sequences[-1].tokens) == 1
    waited = len(program.bursts)
    while core.busy:
        core.step()
    # The last to come had one token.
    assert program.bursts[waited:] == [1, 2, 4, 8, 8, 6]


def test_bursts_are_single_tokens_while_a_prompt_is_prefilled(
    core: GenerationEngine, program: Recorder
) -> None:
    [running] = [core.sequence(Request(PROMPT, SamplingParams(max_tokens=100, ignore_eos=True)))]
    core.submit([running])
    while len(program.bursts) < 5:
        core.step()
    assert program.bursts == [1, 2, 4, 8, 8]
    late = core.sequence(Request((7, *PROMPT * 9), SamplingParams(max_tokens=3)))
    core.submit([late])
    before = len(program.bursts)
    while not late.tokens:
        core.step()
    assert set(program.bursts[before:]) <= {1}


def test_pages_are_given_as_a_sequence_grows(core: GenerationEngine) -> None:
    """21 tokens and room for the next; never what the longest answer would take."""
    sequence = core.sequence(Request((*PROMPT, 1), SamplingParams(max_tokens=200)))
    core.submit([sequence])
    held = []
    while not sequence.ended:
        core.step()
        if sequence.holding is not None:
            held.append((sequence.computed, len(sequence.holding.pages)))
    assert held[0] == (21, 2)
    assert all(computed <= 16 * pages < computed + 8 + 16 for computed, pages in held)


def test_who_came_last_gives_up_its_pages_and_gets_the_same_tokens_later(
    core: GenerationEngine, program: Recorder
) -> None:
    """40 pages: each sequence comes to hold 13 for its 21 + 180 tokens, so three can end."""
    waited = generated(core, (0, 1, 2, 3), max_tokens=180)
    assert core.metrics.snapshot()["num_preemptions_total"] >= 1
    assert core.check() == []
    for first, sequence in enumerate(waited):
        assert sequence.tokens == generated(core, (first,), max_tokens=180)[0].tokens


def test_everything_is_given_back(core: GenerationEngine) -> None:
    generated(core, tuple(range(12)), max_tokens=5)
    sequences = [core.sequence(Request(PROMPT, SamplingParams(max_tokens=50))) for _ in range(10)]
    run = core.run(sequences)
    next(run)
    next(run)
    run.close()
    assert {s.finish_reason for s in sequences} == {"cancelled"}
    assert all(s.slot == -1 and s.holding is None for s in sequences)
    assert core.check() == []
    # The whole pool and every row are free again.
    assert all(len(s.tokens) == 40 for s in generated(core, tuple(range(8)), max_tokens=40))


def test_a_pool_smaller_than_the_context_bounds_it(opened: Bundle, program: Recorder) -> None:
    core = GenerationEngine(program, Tokenizer.from_folder(opened.path), pages=2, context=256)
    assert core.context == 32
    with pytest.raises(InputError, match="32"):
        core.sequence(Request(PROMPT * 2, SamplingParams()))
