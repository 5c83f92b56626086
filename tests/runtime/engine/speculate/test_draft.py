"""A draft model: it draws what the target draws, and rolls back what the target decides anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    precondition,
    rule,
    run_state_machine_as_test,
)

from edgewise import Engine
from edgewise_runtime.devices.base import LoadedProgram
from edgewise_runtime.devices.cpu.device import CpuDevice
from edgewise_runtime.devices.wgpu.device import WgpuDevice
from edgewise_runtime.engine.sampling import SamplingParams
from edgewise_runtime.engine.speculate.base import VERIFYING, DraftView
from edgewise_runtime.engine.speculate.draft import PATIENCE, DraftModel
from edgewise_runtime.errors import DeviceError, InputError
from edgewise_runtime.format.bundle import Bundle
from tests.conftest import BundleFactory
from tests.runtime.engine.speculate.conftest import OTHER

PAGES = 40
PROMPT = list(range(10, 30))
SEED = (1 << 63) + 12345
WAYS: list[dict[str, Any]] = [
    {"temperature": 0},
    {"temperature": 1.0, "top_p": 1.0},
    {"temperature": 0.8, "top_k": 30, "top_p": 0.9, "min_p": 0.02},
    {"temperature": 0, "repetition_penalty": 1.3, "frequency_penalty": 0.4},
    {"temperature": 1.2, "presence_penalty": 1.5, "logit_bias": {7: 6.0, 11: -100.0}},
]
"""Ways to draw a token: every rule there is."""
STRICT: list[dict[str, Any]] = [
    {"temperature": 0, "presence_penalty": 100.0},
    {"temperature": 0, "repetition_penalty": 100.0},
]
"""Ways that never draw a token twice."""


class Recorder:
    """A loaded program that also remembers every step: its rows and the reach of its KV."""

    def __init__(self, program: LoadedProgram) -> None:
        self._program = program
        self.rows: list[int] = []
        self.reaches: list[int] = []

    def write(self, buffer: str, array: Any, offset_elems: int = 0) -> None:
        if buffer == "step":
            self.rows.append(int(array[0]))
            self.reaches.append(int(array[3]))
        self._program.write(buffer, array, offset_elems)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._program, name)


Make = Callable[..., tuple[DraftModel, Recorder]]


@pytest.fixture
def make(target: Bundle, smaller: Bundle) -> Iterator[Make]:
    """``make(bundle=target, pages=PAGES)``: a draft model for the target, and its program."""
    with ExitStack() as stack:

        def made(bundle: Bundle = target, pages: int = PAGES) -> tuple[DraftModel, Recorder]:
            program = Recorder(CpuDevice().load(bundle, load_symbols={"pages": pages}))
            stack.callback(program.close)
            return DraftModel(program, pages, target), program

        yield made


def view(tokens: Sequence[int], key: int = 0, index: int = 0, **options: Any) -> DraftView:
    params = SamplingParams(ignore_eos=True, **options)
    return DraftView(key, tokens, min(len(PROMPT), len(tokens)), params, SEED, index)


def drafts_along(
    drafter: DraftModel, text: Sequence[int], known: int, k: int, **options: Any
) -> list[tuple[int, ...]]:
    """The drafts of a sequence all of whose drafts are accepted, with a token after each."""
    found = []
    while known + k < len(text):
        found.append(drafter.propose(view(text[:known], **options), k))
        known += k + 1
    return found


def pieces(text: Sequence[int], known: int, k: int) -> list[tuple[int, ...]]:
    """What those drafts should be."""
    return [tuple(text[i : i + k]) for i in range(known, len(text) - k, k + 1)]


@pytest.mark.parametrize("options", WAYS, ids=str)
@pytest.mark.parametrize("k", [1, 4, 7])
def test_the_same_model_guesses_every_token(
    engine: Engine, make: Make, options: dict[str, Any], k: int
) -> None:
    answer = engine.generate(PROMPT, max_tokens=60, seed=SEED, ignore_eos=True, **options)
    text = [*PROMPT, *answer.token_ids]
    drafter, _ = make()
    assert drafts_along(drafter, text, len(PROMPT) + 1, k, **options) == pieces(
        text, len(PROMPT) + 1, k
    )


@pytest.mark.full  # test_generation has drafts on one
def test_it_does_so_on_a_gpu(bundles: BundleFactory) -> None:
    """Of a program whose decode gives the bits of its prefill."""
    path, name = bundles(OTHER, targets=("webgpu",)), "webgpu-f32-serial"
    device, options = WgpuDevice(), WAYS[-1]
    with Engine(path, device=device, program=name) as engine:
        answer = engine.generate(PROMPT, max_tokens=24, seed=SEED, ignore_eos=True, **options)
    text, bundle = [*PROMPT, *answer.token_ids], Bundle.open(path)
    drafter = DraftModel(device.load(bundle, name, load_symbols={"pages": PAGES}), PAGES, bundle)
    known = len(PROMPT) + 1
    assert drafts_along(drafter, text, known, 5, **options) == pieces(text, known, 5)
    drafter.close()


def test_choices_of_a_request_get_drafts_of_their_own(make: Make) -> None:
    drafter, _ = make()
    first = drafter.propose(view(PROMPT, key=1, temperature=1.0), 7)
    second = drafter.propose(view(PROMPT, key=2, temperature=1.0, index=1), 7)
    again = drafter.propose(view(PROMPT, key=3, temperature=1.0), 7)
    assert first == again != second


def test_a_draft_ends_with_an_end_token(engine: Engine, make: Make, target: Bundle) -> None:
    [end, *_] = target.model.eos
    drafter, _ = make()
    params = SamplingParams(temperature=0, logit_bias={end: 1000.0})
    assert drafter.propose(DraftView(0, PROMPT, len(PROMPT), params, SEED), 7) == (end,)


def test_accepted_tokens_are_not_computed_again(engine: Engine, make: Make) -> None:
    """A prompt of 200 takes two chunks. After that a draft's last token is a row, because it was
    drawn but never put through the model, and the token after it is another."""
    drafter, program = make()
    prompt = (PROMPT * 10)[:200]
    text = [
        *prompt,
        *engine.generate(prompt, max_tokens=20, temperature=0, ignore_eos=True).token_ids,
    ]
    drafter.propose(view(text[:200], temperature=0), 4)
    assert program.rows == [128, 71, 1]
    program.rows.clear()
    drafter.propose(view(text[:205], temperature=0), 4)
    assert program.rows == [1, 1]
    program.rows.clear()
    drafter.propose(view(text[:206], temperature=0), 4)
    assert program.rows == [1]
    assert program.reaches == [128, 199, 203, 204, 208, 209]


def test_only_the_tokens_decided_otherwise_are_rolled_back(make: Make) -> None:
    drafter, program = make()
    draft = drafter.propose(view(PROMPT, temperature=0), 6)
    program.rows.clear()
    other = (draft[2] + 1) % 300
    drafter.propose(view([*PROMPT, *draft[:2], other, 5, 6, 7], temperature=0), 6)
    assert program.rows == [3, 1]


def test_a_text_that_got_shorter_is_taken_for_another(make: Make) -> None:
    drafter, _ = make()
    drafter.propose(view(PROMPT, temperature=0), 6)
    shorter = view(PROMPT[:2:-1], temperature=0)
    assert drafter.propose(shorter, 6) == make()[0].propose(shorter, 6)


@pytest.mark.parametrize("k", [0, -3])
def test_a_draft_of_no_tokens_runs_nothing(make: Make, k: int) -> None:
    drafter, program = make()
    assert drafter.propose(view(PROMPT), k) == ()
    assert drafter.propose(view([]), 4) == ()
    assert program.rows == []


def test_drafts_end_where_the_context_does(make: Make) -> None:
    """After n tokens, n - 1 are in KV; the last one and all drafts but one need room, too."""
    drafter, _ = make()
    prompt = (PROMPT * 13)[:250]
    assert len(drafter.propose(view(prompt), 20)) == 256 - 249
    assert len(drafter.propose(view([*prompt, *PROMPT[:6]]), 20)) == 1
    assert drafter.propose(view([*prompt, *PROMPT[:7]]), 20) == ()
    assert drafter.propose(view(PROMPT * 30, key=2), 20) == ()


def test_a_burst_is_the_longest_draft(make: Make) -> None:
    assert len(make()[0].propose(view(PROMPT), 100)) == 64


def test_drafting_together_is_drafting_alone(make: Make) -> None:
    """Twelve sequences: more than the program's batch. Penalties have much to look at."""
    drafter, _ = make(pages=80)
    params = [SamplingParams(ignore_eos=True, **way) for way in (*WAYS, *STRICT)]
    wanted = [
        (DraftView(key, [*range(key, 40, 2)], 5, params[key % len(params)], SEED), key % 7)
        for key in range(12)
    ]
    together = drafter.propose_all(wanted)
    assert [len(draft) for draft in together] == [k for _, k in wanted]
    alone, _ = make()
    for (asked, k), draft in zip(wanted, together, strict=True):
        assert alone.propose(asked, k) == draft
        alone.forget(asked.key)


def test_many_prompts_share_the_rows_of_a_step(make: Make) -> None:
    """15 tokens of eight sequences are 120 rows; of a ninth, they are in another step."""
    drafter, program = make(pages=80)
    drafter.propose_all([(view(PROMPT[:16], key=key), 2) for key in range(9)])
    assert program.rows == [120, 8, 15, 1]


def test_without_pages_there_is_no_draft_until_there_are(make: Make) -> None:
    drafter, _ = make(pages=3)
    held = view(PROMPT, key=1)
    assert drafter.propose(held, 4)
    assert drafter.propose(view(PROMPT, key=2), 4) == ()
    assert drafter.propose(view(PROMPT, key=3), 40) == ()
    drafter.forget(1)
    drafter.forget(1)
    drafter.forget(99)
    assert drafter.propose(view(PROMPT, key=2), 4)


def test_pages_of_a_sequence_long_idle_go_to_others(make: Make) -> None:
    """What was in them is computed again when its turn comes."""
    drafter, _ = make(pages=3)
    one, other = view(PROMPT, key=1, temperature=0), view(PROMPT[::-1], key=2, temperature=0)
    first = drafter.propose(one, 4)
    tries = [drafter.propose(other, 4) for _ in range(PATIENCE + 1)]
    assert tries[:PATIENCE] == [()] * PATIENCE
    assert tries[PATIENCE] == make()[0].propose(other, 4)
    for _ in range(PATIENCE + 1):
        again = drafter.propose(one, 4)
    assert again == first


def test_closing_closes_the_program(make: Make) -> None:
    drafter, program = make()
    drafter.propose(view(PROMPT), 2)
    drafter.close()
    drafter.close()
    with pytest.raises(DeviceError) as closed:
        program.run("decode")
    assert closed.value.code == "device.closed"


def test_a_drafted_token_costs_what_both_models_read_for_it(make: Make, smaller: Bundle) -> None:
    own, other = make()[0].cost, make(smaller)[0].cost
    assert own == pytest.approx(1 + VERIFYING)
    assert VERIFYING < other < own


def test_what_a_drafted_token_costs_can_be_said(target: Bundle, make: Make) -> None:
    _, program = make()
    assert DraftModel(program, PAGES, target, cost=0.3).cost == 0.3


def test_a_pool_without_pages_is_refused(target: Bundle, make: Make) -> None:
    _, program = make()
    with pytest.raises(InputError) as refused:
        DraftModel(program, 0, target)
    assert refused.value.code == "input.pages"


class Drafted(RuleBasedStateMachine):
    """Sequences that accept some of a draft and decide the rest otherwise, in any order, beside a
    drafter that begins anew each time. A tight pool may leave a sequence without a draft."""

    drafter: DraftModel
    fresh: DraftModel

    def __init__(self) -> None:
        super().__init__()
        self.texts: dict[int, tuple[list[int], int, SamplingParams]] = {}
        self.keys = 0

    @rule(
        prompt=st.lists(st.integers(0, 319), min_size=1, max_size=70),
        way=st.sampled_from(WAYS),
        seed=st.integers(0, (1 << 64) - 1),
    )
    def begin(self, prompt: list[int], way: dict[str, Any], seed: int) -> None:
        params = SamplingParams(ignore_eos=True, seed=seed, **way)
        self.texts[self.keys] = (prompt, len(prompt), params)
        self.keys += 1

    @precondition(lambda self: self.texts)
    @rule(
        data=st.data(),
        k=st.integers(1, 9),
        accepted=st.integers(0, 9),
        after=st.lists(st.integers(0, 319), min_size=1, max_size=3),
    )
    def go_on(self, data: st.DataObject, k: int, accepted: int, after: list[int]) -> None:
        key = data.draw(st.sampled_from(sorted(self.texts)))
        text, prompt_len, params = self.texts[key]
        asked = DraftView(key, text, prompt_len, params, params.seed or 0)
        expected = self.fresh.propose(asked, k)
        self.fresh.forget(key)
        draft = self.drafter.propose(asked, k)
        assert len(expected) == k
        assert draft in (expected, ())
        text += [*draft[:accepted], *after]

    @precondition(lambda self: self.texts)
    @rule(data=st.data())
    def forget(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.texts)))
        del self.texts[key]
        self.drafter.forget(key)

    def teardown(self) -> None:
        for key in self.texts:
            self.drafter.forget(key)


@pytest.mark.parametrize("pages", [PAGES, 9])
def test_what_was_rolled_back_leaves_no_trace(make: Make, smaller: Bundle, pages: int) -> None:
    class Here(Drafted):
        drafter, _ = make(smaller, pages)
        fresh, _ = make(smaller)

    run_state_machine_as_test(
        Here,
        settings=settings(settings.get_profile("quick"), stateful_step_count=25),
    )
