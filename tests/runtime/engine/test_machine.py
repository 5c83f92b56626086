"""Whatever happens in whatever order, every request gets its own tokens and leaves nothing behind.

Hypothesis drives the engine on the toy program: a page that is wrong, stale, shared and written, or
not copied gives other tokens than the request alone decides. `check` looks for inconsistencies
after every operation. 2,000 operations in the quick profile, 100,000 in the full one.
"""

from __future__ import annotations

import gc
import tempfile
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from edgewise_runtime.engine.sampling import SamplingParams
from edgewise_runtime.engine.sequence import ContextPolicy, Request
from edgewise_runtime.engine.turn import PASSES
from edgewise_runtime.format.abi import PAGE_TOKENS
from tests.runtime.engine.toy import Failure
from tests.runtime.engine.toy_bundle import Bounds
from tests.runtime.engine.toy_constraint import Maze
from tests.runtime.engine.toy_model import VOCAB, mix, text_of
from tests.runtime.engine.world import Setting, World

Prompt = tuple[int, int, list[int]]
"""Which of `TEXTS` it begins with, how many of its tokens, and what follows them. Beyond those: all
of an earlier request and its answer, as the next turn of a conversation does."""

Options = dict[str, Any]

OPERATIONS, STEPS = 50, 75
"""Operations of a run on average, at least, and at most: some runs end early."""

MANY = 8
"""Requests beside which no more arrive, so that they come to their ends."""

DISTURBANCES = [*["preempt"] * 6, *["pin"] * 3, "unpin", "score", "forget", "reload"]

TEXTS = [[mix(text, i) % VOCAB for i in range(256)] for text in range(3)]
"""What prompts begin with."""

tokens = st.integers(0, VOCAB - 1)
which = st.integers(0, 1 << 16)
prompts = st.tuples(
    st.integers(0, len(TEXTS) + 1),
    st.one_of(st.integers(0, 40), st.integers(0, 110)),
    st.lists(tokens, max_size=6),
)
bounds = st.builds(
    Bounds,
    pages=st.one_of(st.integers(4, 12), st.integers(8, 40)),
    rows=st.sampled_from([6, 16, 32]),
    batch=st.sampled_from([1, 2, 4, 4, 6]),
    context=st.sampled_from([64, 100, 160]),
    agrees=st.booleans(),
)
windows = st.sampled_from(
    [(20,), (1,), (None, 20), (33, None), (None, 16, 48), (None, None, 24, 24, 24)]
)
"""Of the state groups of a model that has some."""


@st.composite
def windowed_bounds(draw: st.DrawFn) -> Bounds:
    """A program with windows, whose pages are enough for one sequence of half the context."""
    made = replace(draw(bounds), windows=draw(windows))
    groups = len(made.windows)
    return replace(made, pages=draw(st.integers(9 * groups, 20 * groups)))


stores = st.sampled_from([(0, 0), (4, 0), (100, 0), (3, 8), (2, 100)])
windowed_stores = st.sampled_from([(0, 0), (9, 0), (300, 0), (6, 30), (2, 300)])
"""With room for the pages of several groups."""
drafters = st.sampled_from(["none", "none", "lookup", "oracle"])


@st.composite
def made_settings(draw: st.DrawFn, windowed: bool = False) -> Setting:
    memory_pages, disk_pages = draw(windowed_stores if windowed else stores)
    return Setting(
        draw(windowed_bounds() if windowed else bounds),
        step_tokens=draw(st.sampled_from([None, 0, 3, 40])),
        share_decoded=draw(st.integers(0, 3)) == 0,
        memory_pages=memory_pages,
        disk_pages=disk_pages,
        drafter=draw(drafters),
        max_waiting=draw(st.sampled_from([3, 1024])),
        pace=draw(st.sampled_from([0, 1, 2])),
        kept=draw(st.sampled_from([None, None, 0, 5])),
    )


greedy = st.fixed_dictionaries({"temperature": st.just(0.0)})
seeded = st.fixed_dictionaries(
    {"temperature": st.sampled_from([0.7, 2.0]), "seed": st.none() | st.integers(0, (1 << 64) - 1)}
)
ends = st.fixed_dictionaries(
    {
        "max_tokens": st.one_of(st.integers(0, 8), st.integers(20, 90), st.integers(40, 90)),
        "ignore_eos": st.booleans(),
    }
)
extras = st.fixed_dictionaries(
    {},
    optional={
        "n": st.integers(1, 4),
        "min_tokens": st.integers(0, 12),
        "stop": st.lists(st.lists(tokens, min_size=1, max_size=2).map(text_of), max_size=2).map(
            tuple
        ),
        "stop_token_ids": st.lists(tokens, max_size=2).map(tuple),
        "logit_bias": st.dictionaries(tokens, st.sampled_from([-100.0, 1.5]), max_size=2),
        "presence_penalty": st.sampled_from([0.0, 0.75]),
        "repetition_penalty": st.sampled_from([1.0, 1.25]),
        "logprobs": st.just(True),
    },
)


mazes = st.builds(
    Maze,
    seed=st.integers(0, 1 << 16),
    last=st.sampled_from([-1, 0, 1, 2, 3]),
    broken=st.sampled_from([-1, -1, -1, 4]),
)

arrivals = {
    "prompt": prompts,
    "choice": st.one_of(greedy, seeded),
    "end": ends,
    "more": st.one_of(st.just({}), extras),
    "priority": st.sampled_from([0, 0, 1, -1]),
    "policy": st.sampled_from(["stop", "stop", "error", "drop"]),
    "maze": st.none() | mazes,
    "tenant": st.sampled_from([(), (), ("other",)]),
}


class EngineMachine(RuleBasedStateMachine):
    """Operations in any order on one engine."""

    operations = 0
    seen: set[str]

    @initialize(setting=made_settings())
    def begin(self, setting: Setting) -> None:
        # The invariant counts this one too.
        EngineMachine.operations -= 1
        self.threads = threading.active_count()
        self.files = _open_files()
        self.folder = tempfile.TemporaryDirectory()
        self.world = World(setting, Path(self.folder.name))

    @rule(**arrivals)
    def arrive(
        self,
        prompt: Prompt,
        choice: Options,
        end: Options,
        more: Options,
        priority: int,
        policy: ContextPolicy,
        maze: Maze | None,
        tenant: tuple[str, ...],
    ) -> None:
        if len(self.world.open) > MANY:
            self.step(8)
            return
        params = SamplingParams(**choice, **end, **more)
        ids = self._prompt(prompt)

        def shorten(room: int) -> tuple[tuple[int, ...], int] | None:
            shorter = ids[max(len(ids) - room, 2) :]
            return (shorter, 1) if shorter else None

        request = Request(
            ids,
            params,
            priority=priority,
            context_policy=policy,
            shorten=shorten if policy == "drop" else None,
            extras=tenant,
            constraint=maze,
        )
        self.world.ask(request)

    @rule(first=st.fixed_dictionaries(arrivals), second=st.fixed_dictionaries(arrivals))
    def arrive_together(self, first: Options, second: Options) -> None:
        self.arrive(**first)
        self.arrive(**second)

    @rule(prompt=prompts, rest=st.integers(1, 12), times=st.integers(1, 3))
    def crowd(self, prompt: Prompt, rest: int, times: int) -> None:
        """Some of a better priority come one after another, and perhaps more than may pass."""
        if len(self.world.open) > MANY:
            self.step(8)
            return
        params = SamplingParams(temperature=0.0, max_tokens=4)
        self.world.ask(Request(self._prompt(prompt), params, priority=2))
        for nth in range(PASSES + 3):
            begin = TEXTS[nth % len(TEXTS)][: rest + nth]
            self.world.ask(Request((*begin, nth, 1), params, priority=-2))
            self.step(times)

    @rule(length=st.integers(20, 100), number=st.integers(2, 4))
    def arrive_alike(self, length: int, number: int) -> None:
        """Some begin with a text that nobody has asked about before."""
        if len(self.world.open) > MANY:
            self.step(8)
            return
        begin = [mix(len(self.world.asked) + len(TEXTS), i) % VOCAB for i in range(length)]
        for nth in range(number):
            params = SamplingParams(temperature=0.0, max_tokens=2 * nth)
            ids = (*begin, nth, 1)[-(self.world.engine.context - 1) :]
            self.world.ask(Request(ids, params))
        self.step(2)

    @rule(times=st.integers(1, 4))
    def step(self, times: int) -> None:
        for _ in range(times):
            self.world.step()
            self.world.check()
            self.seen.update(self.world.seen())

    @rule(times=st.integers(5, 40))
    def step_on(self, times: int) -> None:
        self.step(times)

    @rule(which=which, times=st.integers(1, 20))
    def interrupt(self, which: int, times: int) -> None:
        """Pages are taken away, and the steps go on."""
        self.disturb((0, 0, []), which, "preempt")
        self.step(times)

    @rule(which=which, expired=st.booleans())
    def end(self, which: int, expired: bool) -> None:
        """Somebody does not want to wait any longer."""
        still = self.world.open
        if still:
            sequence = still[which % len(still)].sequence
            if expired:
                sequence.deadline = 0.0
            else:
                sequence.cancelled = True

    @rule(prompt=prompts, which=which, kind=st.sampled_from(DISTURBANCES))
    def disturb(self, prompt: Prompt, which: int, kind: str) -> None:
        """Something else that may come between."""
        world, ids = self.world, self._prompt(prompt)
        running, pinned = world.scheduler.running, list(world.pinned)
        if kind == "preempt" and running:
            world.scheduler.preempt(running[which % len(running)])
        elif kind == "pin" and len(pinned) < 2 and len(world.scheduler.waiting) < 3:
            # Some room must be left for requests.
            world.pin(ids[: PAGE_TOKENS * world.setting.bounds.pages // 4])
        elif kind == "unpin" and pinned:
            world.unpin(pinned[which % len(pinned)])
        elif kind == "score":
            world.score(ids)
        elif kind == "forget":
            world.engine.forget()
        elif kind == "reload":
            world.reload()

    @rule(
        code=st.sampled_from(["", "", "", "", "device.kernel", "device.kernel", "device.lost"]),
        calls=st.one_of(st.integers(0, 8), st.integers(1, 100)),
        pieces=st.integers(0, 4),
        late=st.booleans(),
    )
    def fail(self, code: str, calls: int, pieces: int, late: bool) -> None:
        # Not too often: it ends whatever runs.
        if code:
            self.world.fail(Failure(code, calls, pieces, late))

    @invariant()
    def sound(self) -> None:
        EngineMachine.operations += 1
        self.world.check()

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        with self.folder:
            self.world.finish()
            left = [path for path in Path(self.folder.name).rglob("*") if path.is_file()]
            assert all(path.suffix == ".kv" for path in left)
        assert threading.active_count() == self.threads
        assert _open_files() == self.files

    def _prompt(self, prompt: Prompt) -> tuple[int, ...]:
        text, length, rest = prompt
        asked = self.world.asked
        if text < len(TEXTS) or not asked:
            begin = TEXTS[text % len(TEXTS)][:length]
        else:
            begin = asked[length % len(asked)].sequence.known
        return (*begin, *rest, 1)[-(self.world.engine.context - 1) :]


class WindowedMachine(EngineMachine):
    """The same with windows, behind which pages are given back."""

    @initialize(setting=made_settings(windowed=True))
    def begin(self, setting: Setting) -> None:
        EngineMachine.begin(self, setting)


def _open_files() -> int:
    folder = Path("/proc/self/fd")
    return len(list(folder.iterdir())) if folder.exists() else 0


@pytest.mark.landing
def test_whatever_happens_every_request_gets_its_own_tokens() -> None:
    EngineMachine.operations, EngineMachine.seen = 0, set()
    gc.collect()  # what other tests left open is not closed in the middle of this one
    run_state_machine_as_test(EngineMachine, settings=settings(stateful_step_count=STEPS))
    assert EngineMachine.operations >= OPERATIONS * settings().max_examples
    assert EngineMachine.seen == {"passed", "its turn has come", "waits for pages"}


def test_every_request_gets_its_own_tokens_from_what_is_left_within_windows() -> None:
    EngineMachine.operations, EngineMachine.seen = 0, set()
    gc.collect()
    few = settings(stateful_step_count=STEPS, max_examples=max(settings().max_examples // 6, 4))
    run_state_machine_as_test(WindowedMachine, settings=few)
    assert EngineMachine.operations


def test_what_fails_late_is_not_found_by_others(tmp_path: Path) -> None:
    """The first chunk of a prompt fails, but nobody hears of it before the next."""
    world = World(Setting(Bounds(pages=20, rows=16)), tmp_path)
    params = SamplingParams(temperature=0.0, max_tokens=5, ignore_eos=True)
    request = Request(tuple(TEXTS[0][:60]), params)
    world.ask(request)
    world.fail(Failure("device.kernel", calls=2, late=True))
    world.step()
    assert world.program.failing
    world.step()
    world.ask(request)
    world.finish()
    assert [asked.sequence.finish_reason for asked in world.asked] == ["error", "length"]


def test_what_the_device_has_answered_for_outlives_its_failures(tmp_path: Path) -> None:
    world = World(Setting(Bounds(pages=20, rows=16)), tmp_path)
    params = SamplingParams(temperature=0.0, max_tokens=5, ignore_eos=True)
    for text, failure in ((0, None), (1, Failure("device.kernel", calls=3)), (0, None)):
        if failure is not None:
            world.fail(failure)
        world.ask(Request(tuple(TEXTS[text][:40]), params))
        while world.open:
            world.step()
    assert [asked.sequence.cached_tokens for asked in world.asked] == [0, 0, 39]
    world.finish()


def test_scoring_may_hear_of_what_others_computed(tmp_path: Path) -> None:
    world = World(Setting(Bounds(pages=20, rows=16)), tmp_path)
    params = SamplingParams(temperature=0.0, max_tokens=5, ignore_eos=True)
    world.ask(Request(tuple(TEXTS[0][:60]), params))
    world.fail(Failure("device.kernel", calls=2, late=True))
    world.step()
    world.score(TEXTS[1][:20])
    world.check()
    assert not world.open
    world.finish()


def test_a_choice_does_not_share_a_prompt_that_was_shortened(tmp_path: Path) -> None:
    """The first of two choices has gone on without its oldest turns when the other begins."""
    bounds = Bounds(pages=20, rows=16, batch=2, context=64, eos=())
    world = World(Setting(bounds), tmp_path)
    ids = tuple(TEXTS[0][:40])
    long = SamplingParams(temperature=0.0, max_tokens=36)
    world.ask(Request(tuple(TEXTS[1][:5]), long, priority=-1))
    params = SamplingParams(temperature=0.0, max_tokens=60, n=2)
    world.ask(
        Request(ids, params, context_policy="drop", shorten=lambda room: (ids[-min(room, 38) :], 1))
    )
    world.finish()
    assert [len(asked.shortened) > 0 for asked in world.asked] == [False, True, True]


def test_tenants_do_not_find_each_others_prefixes(tmp_path: Path) -> None:
    world = World(Setting(Bounds(pages=20, rows=16)), tmp_path)
    cached = []
    for extras in [(), ("one",), ("other",), ("one",)]:
        params = SamplingParams(temperature=0.0, max_tokens=5, ignore_eos=True)
        world.ask(Request(tuple(TEXTS[0][:40]), params, extras=extras))
        while world.open:
            world.step()
        cached.append(world.asked[-1].sequence.cached_tokens)
    assert cached == [0, 0, 0, 39]
    world.finish()
