"""Nobody waits behind a long prompt, and a long prompt does not wait for everybody else.

Steps and tokens are counted, on the toy program: no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import count

import pytest

from edgewise_runtime.engine.config import EngineOptions
from edgewise_runtime.engine.engine import GenerationEngine
from edgewise_runtime.engine.pace import MIN_CHUNK, Pace, Unpaced
from edgewise_runtime.engine.sampling import SamplingParams
from edgewise_runtime.engine.sequence import Request, Sequence
from edgewise_runtime.engine.turn import PASSES
from edgewise_runtime.errors import EngineError
from edgewise_runtime.format.abi import PAGE_TOKENS
from tests.runtime.counting import instructions
from tests.runtime.engine.toy import ToyProgram
from tests.runtime.engine.toy_bundle import Bounds, tokenizer
from tests.runtime.engine.toy_model import VOCAB, mix

LONG, SHORT = 8192, 20
WITHIN = 3
"""Steps until a short prompt's first token."""


class Sparing(Unpaced):
    """A pace that lets so many prompt tokens into every n-th step; none with 0."""

    def __init__(self, tokens: int, every: int) -> None:
        self._tokens, self._every, self._steps = tokens, every, count()

    def tokens(self, most: int, decoding: int, prefilling: int) -> int:
        return min(self._tokens, most) if next(self._steps) % self._every == 0 else 0


@dataclass
class Counted:
    """An engine whose steps, and the prompt tokens in them, are counted."""

    core: GenerationEngine
    steps: int = 0

    def ask(self, prompt: Iterable[int], max_tokens: int = 1, priority: int = 0) -> Sequence:
        """Submit a request for tokens that come whatever they are."""
        params = SamplingParams(temperature=0.0, ignore_eos=True, max_tokens=max_tokens)
        sequence = self.core.sequence(Request(tuple(prompt), params, priority=priority))
        self.core.submit([sequence])
        return sequence

    def step(self, times: int = 1) -> None:
        for _ in range(times):
            self.core.step()
            self.steps += 1
            assert self.core.check() == []

    def until(self, sequence: Sequence, most: int = 1000) -> int:
        """Steps until its first token."""
        before = self.steps
        while not (sequence.tokens or sequence.ended) and self.steps - before < most:
            self.step()
        return self.steps - before

    @property
    def prefilled(self) -> int:
        """Prompt tokens computed so far."""
        tokens: int = self.core.metrics.snapshot()["prefill_tokens_total"]
        return tokens


def engine(
    rows: int = 512, batch: int = 16, pages: int = 1200, pace: Pace | None = None
) -> Counted:
    bounds = Bounds(pages=pages, rows=rows, batch=batch, context=LONG + 1000)
    options = EngineOptions(pace=pace or Unpaced())
    program = ToyProgram(bounds)
    return Counted(
        GenerationEngine(program, tokenizer(), pages=pages, context=bounds.context, options=options)
    )


def text(which: int, length: int) -> list[int]:
    """A text that begins like no other."""
    return [mix(which, i) % VOCAB for i in range(length)]


@pytest.mark.parametrize("rows", [512, 128, 32])
@pytest.mark.parametrize("begun", [0, 1, 5])
@pytest.mark.parametrize(
    ("longs", "priority"), [(1, 0), (4, 0), (1, -3), (1, 3)], ids=["one", "four", "better", "worse"]
)
def test_a_short_prompt_does_not_wait_for_long_ones(
    rows: int, begun: int, longs: int, priority: int
) -> None:
    engines = engine(rows)
    ahead = [engines.ask(text(which, LONG), priority=priority) for which in range(longs)]
    engines.step(begun)
    short = engines.ask(text(9, SHORT))
    assert engines.until(short) <= WITHIN
    assert not any(long.tokens for long in ahead)


@pytest.mark.parametrize("rows", [512, 128])
def test_nor_do_several_that_come_together(rows: int) -> None:
    engines = engine(rows)
    engines.ask(text(0, LONG))
    engines.step(2)
    shorts = [engines.ask(text(which, SHORT)) for which in range(1, 8)]
    assert max(engines.until(short) for short in shorts) <= WITHIN
    assert engines.steps <= 2 + WITHIN


@pytest.mark.parametrize("length", [SHORT, MIN_CHUNK, 64])
@pytest.mark.parametrize(
    ("pace", "within"),
    [(Unpaced, {}), (lambda: Sparing(MIN_CHUNK, 5), {64: 6}), (lambda: Sparing(0, 1), {64: 6})],
    ids=["unpaced", "sparing", "nothing"],
)
def test_nor_beside_streams(length: int, pace: Callable[[], Pace], within: dict[int, int]) -> None:
    """Any step counts, also those that the pace keeps free of prompts: each `MIN_CHUNK` tokens of a
    short prompt wait for two of these at most."""
    engines = engine(pace=pace())
    streams = [engines.ask(text(which, 30), 500) for which in range(3)]
    for stream in streams:
        engines.until(stream)
    engines.ask(text(5, LONG))
    engines.step(4)
    short = engines.ask(text(9, length))
    assert engines.until(short) <= within.get(length, WITHIN)
    assert not any(stream.ended for stream in streams)


def test_nor_behind_prompts_that_would_just_fill_a_step() -> None:
    """The pace lets nothing of them into any."""
    engines = engine(rows=128, pace=Sparing(0, 1))
    engines.until(engines.ask(text(0, 30), 500))
    engines.ask(text(1, 128))
    engines.step(2)
    assert engines.until(engines.ask(text(2, SHORT))) <= WITHIN


def test_who_leaves_holds_nobody_it_has_waited_for() -> None:
    engines = engine(rows=64)
    long = engines.ask(text(0, LONG))
    engines.step()
    alike = engines.ask([*text(0, LONG - 1), 1])
    engines.step()
    assert alike.turn.awaits is long
    alike.cancelled = True
    engines.step()
    assert alike.turn.awaits is None


def test_where_streams_are_to_be_alone_short_prompts_take_one_step_in_three() -> None:
    """A chunk of the smallest size in it, and long prompts none."""
    engines = engine(pace=Sparing(0, 1))
    engines.until(engines.ask(text(0, 30), 500))
    long = engines.ask(text(1, LONG))
    before, shorts = engines.steps, [engines.ask(text(which, 60)) for which in range(2, 12)]
    for short in shorts:
        engines.until(short)
    assert 620 < engines.prefilled <= 30 + 10 * 60  # texts may share a token
    assert 3 * (600 // MIN_CHUNK) <= engines.steps - before <= 3 * (600 // MIN_CHUNK) + 1
    assert long.computed == 0


def test_beside_streams_short_prompts_do_not_stop_a_long_one() -> None:
    """One after another comes, more than a tenth of it: in steps it loses that at most."""
    steps = []
    for shorts in (False, True):
        engines = engine(pace=Sparing(MIN_CHUNK, 4))
        engines.until(engines.ask(text(0, 30), 500))
        long, texts, waits = engines.ask(text(1, 1000)), count(2), [0]
        before = engines.steps
        while not long.tokens:
            if shorts:
                waits.append(engines.until(engines.ask(text(next(texts), SHORT))))
            else:
                engines.step()
        steps.append(engines.steps - before)
        # The last shares its chunk with the end of the long one.
        assert max(waits[:-1], default=0) <= WITHIN
    assert len(waits) * SHORT > 1000 // 10
    assert steps[0] <= steps[1] <= steps[0] * 1.1 + 4


@pytest.mark.parametrize("rows", [512, 128, 32])
@pytest.mark.parametrize("arriving", [1, 3])
def test_a_long_prompt_lets_a_tenth_of_its_tokens_pass(rows: int, arriving: int) -> None:
    """Short ones come with every step, more than that: tokens until its first one, and steps."""
    engines = engine(rows)
    long, texts = engines.ask(text(0, LONG)), count(1)
    while not long.tokens:
        for _ in range(arriving):
            engines.ask(text(next(texts), SHORT))
        engines.step()
    assert LONG * 1.04 < engines.prefilled <= LONG * 1.1 + rows
    assert engines.steps <= LONG / rows * 1.1 + 1


@pytest.mark.parametrize("rows", [512, 128])
def test_short_prompts_pass_until_the_end_of_a_long_one(rows: int) -> None:
    """One comes with every fifth step; as many as are a tenth of it would be one in two."""
    engines = engine(rows)
    long, waits = engines.ask(text(0, LONG)), []
    for which in count(1):
        short = engines.ask(text(which, SHORT))
        waits.append(engines.until(short))
        engines.step(5 - waits[-1])
        if long.tokens:
            break
    assert max(waits) <= WITHIN
    assert len(waits) >= LONG // rows // 5


def test_prompts_that_are_not_shorter_wait_their_turn() -> None:
    engines = engine()
    first, second = engines.ask(text(0, 4096)), engines.ask(text(1, 4096))
    assert engines.until(first) == 8
    assert second.computed == 0
    assert engines.until(second) == 8


def test_the_shortest_go_first_and_equals_in_their_order() -> None:
    """64 of these 118 tokens may pass at once."""
    engines = engine()
    long = engines.ask(text(0, 1200))
    lengths = (50, 30, 30, 8)
    asked = [engines.ask(text(which, n), 2) for which, n in enumerate(lengths, 1)]
    engines.step()
    assert [one.computed for one in (long, *asked)] == [512 - 64, 0, 30, 26, 8]


def test_a_prompt_that_is_mostly_there_is_short() -> None:
    """The next question about a text, behind another text."""
    engines = engine()
    engines.until(engines.ask(text(0, 4096)))
    engines.ask(text(1, LONG))
    engines.step()
    again = engines.ask([*text(0, 4096), *text(2, SHORT)])
    assert engines.until(again) <= WITHIN
    assert again.cached_tokens == 4096


def test_a_better_priority_interrupts_a_prompt() -> None:
    engines = engine()
    long = engines.ask(text(0, LONG), priority=1)
    engines.step(3)
    better = engines.ask(text(1, 2048))
    assert engines.until(better) == 4
    assert not long.tokens


@pytest.mark.parametrize("begun", [0, 1], ids=["waiting", "begun"])
@pytest.mark.parametrize("batch", [1, 4])
def test_a_worse_priority_is_passed_so_many_times_only(begun: int, batch: int) -> None:
    """Others of a better priority always wait, and each takes some steps."""
    engines = engine(rows=64, batch=batch)
    texts = count(1)
    if not begun:
        engines.until(engines.ask(text(0, 100)))
    worse = engines.ask(text(next(texts), 1000), priority=7)
    engines.step(begun)
    better = [engines.ask(text(next(texts), 200)) for _ in range(batch + 1)]
    for _ in range(2000):
        if worse.tokens:
            break
        engines.step()
        better += [
            engines.ask(text(next(texts), 200))
            for _ in range(batch + 1 - sum(not one.ended for one in better))
        ]
    assert worse.tokens
    assert sum(one.ended for one in better) <= PASSES + batch


def test_of_many_of_a_worse_priority_one_at_a_time_has_its_turn() -> None:
    engines = engine(rows=64, batch=2)
    texts = count()
    worse = [engines.ask(text(next(texts), 64), priority=1) for _ in range(20)]
    better = [engines.ask(text(next(texts), 64)) for _ in range(3)]
    while sum(one.ended for one in better) < 5 * PASSES:
        engines.step()
        better += [engines.ask(text(next(texts), 64)) for one in better[-3:] if one.ended]
    assert 3 <= sum(one.ended for one in worse) <= 6
    assert [one.ended for one in worse] == sorted((one.ended for one in worse), reverse=True)


def test_prompts_that_begin_alike_are_computed_once_and_others_pass() -> None:
    engines = engine()
    begin = text(0, 2048)
    alike = [engines.ask([*begin, *text(which, 40)]) for which in range(1, 5)]
    short = engines.ask(text(9, SHORT))
    assert engines.until(short) <= WITHIN
    for one in alike:
        engines.until(one)
    assert [one.cached_tokens for one in alike] == [0, 2048, 2048, 2048]
    assert engines.prefilled == 2048 + 4 * 40 + SHORT
    assert engines.steps <= 7


def test_so_are_short_prompts_that_begin_alike() -> None:
    """48 tokens of 58, beside a long prompt."""
    engines = engine()
    engines.ask(text(0, LONG))
    engines.step()
    begin = text(1, 48)
    alike = [engines.ask([*begin, *text(which, 10)]) for which in range(2, 6)]
    assert max(engines.until(one) for one in alike) <= WITHIN
    assert engines.steps <= 1 + WITHIN
    assert [one.cached_tokens for one in alike] == [0, 48, 48, 48]


def test_others_pass_choices_that_wait_for_the_first() -> None:
    engines = engine()
    params = SamplingParams(temperature=1.0, ignore_eos=True, max_tokens=3, n=3, seed=1)
    choices = engines.core.sequences(Request(tuple(text(0, LONG)), params))
    engines.core.submit(choices)
    engines.step(2)
    assert engines.until(engines.ask(text(1, SHORT))) <= WITHIN
    engines.until(choices[-1])
    assert [choice.cached_tokens for choice in choices] == [0, LONG - 1, LONG - 1]


def test_nobody_waits_for_one_that_is_not_computed_itself() -> None:
    """A better priority comes in between: who would share pages with the long one goes on alone."""
    engines = engine(rows=64)
    begin = text(0, 48)
    engines.ask([*begin, *text(1, 1000)], priority=2)
    engines.core._scheduler.next_step(0.0)  # it has a place, but nothing is computed
    engines.ask(text(2, LONG), priority=1)
    short = engines.ask([*begin, *text(3, 5)], priority=3)
    assert engines.until(short) <= WITHIN


def full(pages: int = 64) -> tuple[Counted, Sequence]:
    """An engine half of whose pages a stream holds, which goes on for some time."""
    engines = engine(rows=64, pages=pages)
    stream = engines.ask(text(0, pages // 2 * PAGE_TOKENS - 40), 60)
    engines.until(stream)
    return engines, stream


@pytest.mark.parametrize("passing", [False, True])
def test_others_pass_one_that_has_no_room_and_it_waits_no_longer(passing: bool) -> None:
    engines, stream = full()
    large, waits = engines.ask(text(1, 40 * PAGE_TOKENS)), [0]
    for which in count(2):
        if passing:
            waits.append(engines.until(engines.ask(text(which, SHORT), 5)))
        engines.step()
        if stream.ended:
            break
        assert large.holding is None
    engines.step()
    assert max(waits) <= WITHIN
    assert large.holding is not None
    assert not passing or len(waits) > 20


def test_who_would_take_its_room_does_not_pass() -> None:
    engines, _ = full()
    large = engines.ask(text(1, 40 * PAGE_TOKENS))
    other = engines.ask(text(2, 4 * PAGE_TOKENS), 22 * PAGE_TOKENS)
    while large.holding is None:
        assert other.holding is None
        engines.step()


def test_one_that_never_has_room_is_told_so_though_others_keep_coming() -> None:
    engines = engine(rows=64, pages=40)
    pinned = engines.core.pin(text(0, 20 * PAGE_TOKENS + 1))
    engines.core.submit([pinned])
    engines.until(pinned)
    assert engines.core.pinned(text(0, 20 * PAGE_TOKENS + 1)) == 20 * PAGE_TOKENS
    engines.ask(text(1, SHORT), 40)
    engines.step()
    large = engines.ask(text(2, 25 * PAGE_TOKENS))
    for which in range(3, 100):
        engines.ask(text(which, SHORT), 40)
        engines.step()
        if large.ended:
            break
    assert isinstance(large.failure, EngineError)
    assert large.failure.code == "engine.memory"


@pytest.mark.parametrize(
    ("alike", "behind"),
    [(True, True), (False, True), (True, False)],
    ids=["for pages", "for their turn", "only for pages"],
)
def test_who_waits_costs_a_step_the_same_however_long_the_prompts_are(
    alike: bool, behind: bool
) -> None:
    """And each that waits as much as any other, however many there are."""

    def work(waiting: int, length: int) -> int:
        engines = engine(rows=64 if behind else LONG, batch=8, pace=Sparing(0, 1))
        engines.until(engines.ask(text(2000, 30), 100))
        engines.ask(text(0, length))
        engines.step()
        for which in range(1, waiting + 1):
            begin = text(0, length - 40) if alike else text(which, length - 40)
            engines.ask([*begin, *text(1000 + which, 40)])
        engines.step(2)
        return instructions(lambda: engines.core._scheduler.next_step(0.0))

    few, some, many = (work(waiting, 1024) for waiting in (8, 16, 24))
    assert work(8, 4096) == few
    assert many - some == some - few
