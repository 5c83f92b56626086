"""The engine's own thread: what reaches it, and what becomes of what no longer does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from threading import Event, Thread, current_thread

import pytest

from edgewise_runtime.engine.engine import GenerationEngine
from edgewise_runtime.engine.loop import EngineLoop
from edgewise_runtime.engine.sampling import SamplingParams
from edgewise_runtime.engine.sequence import Request, Sequence
from edgewise_runtime.errors import DeviceError, EngineError, InputError
from tests.runtime.engine.toy import Failure, ToyProgram
from tests.runtime.engine.toy_bundle import tokenizer

PATIENCE = 60
"""Seconds after which a test that waits has failed."""


@dataclass
class Looped:
    """A loop on a toy program, and what it did."""

    program: ToyProgram = field(default_factory=ToyProgram)
    finished: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.engine = GenerationEngine(
            self.program, tokenizer(), pages=self.program.bounds.pages, context=256
        )
        self.loop = EngineLoop(self.engine, self._finish)

    def _finish(self) -> None:
        self.finished.append(current_thread().name)
        self.program.close()

    def sequence(self, tokens: int = 5) -> tuple[Sequence, Event]:
        """A sequence, and what is set at its end."""
        params = SamplingParams(max_tokens=tokens, ignore_eos=True, temperature=0)
        sequence = self.engine.sequence(Request((1, 2, 3), params))
        ended = Event()
        sequence.on_end = ended.set
        return sequence, ended

    def hold(self) -> Event:
        """Keep the thread busy until what is returned is set."""
        release, held = Event(), Event()

        def wait() -> None:
            held.set()
            assert release.wait(PATIENCE)

        Thread(target=self.loop.call, args=(wait,)).start()
        assert held.wait(PATIENCE)
        return release


@pytest.fixture
def looped() -> Iterator[Looped]:
    looped = Looped()
    yield looped
    looped.loop.close()
    assert looped.finished == ["edgewise-engine"]


def test_what_is_submitted_ends(looped: Looped) -> None:
    sequence, ended = looped.sequence()
    looped.loop.submit([sequence])
    assert ended.wait(PATIENCE)
    assert (sequence.finish_reason, len(sequence.tokens)) == ("length", 5)


def test_a_loop_that_is_interrupted_while_it_begins_leaves_no_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun: list[Thread] = []
    start = Thread.start

    def interrupted(thread: Thread) -> None:
        start(thread)
        begun.append(thread)
        raise KeyboardInterrupt

    monkeypatch.setattr(Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Looped()
    begun[0].join(60)
    assert not begun[0].is_alive()


def test_a_call_returns_or_raises_what_its_function_does(looped: Looped) -> None:
    def fail() -> None:
        raise InputError("No.", code="input.no")

    assert looped.loop.call(lambda: current_thread().name) == "edgewise-engine"
    with pytest.raises(InputError, match="No"):
        looped.loop.call(fail)
    with pytest.raises(ZeroDivisionError):
        looped.loop.call(lambda: 1 // 0)
    sequence, ended = looped.sequence()
    looped.loop.submit([sequence])
    assert ended.wait(PATIENCE)


def test_a_call_from_the_thread_itself_does_not_wait_for_it(looped: Looped) -> None:
    assert looped.loop.call(lambda: looped.loop.call(lambda: 7)) == 7


def test_what_is_submitted_and_not_begun_when_the_loop_closes_is_cancelled(looped: Looped) -> None:
    release = looped.hold()
    sequence, ended = looped.sequence()
    looped.loop.submit([sequence])
    closer = Thread(target=looped.loop.close)
    closer.start()
    while not looped.loop.closed:
        pass
    late, _ = looped.sequence()
    with pytest.raises(EngineError, match="closed"):
        looped.loop.submit([late])
    release.set()
    assert ended.wait(PATIENCE)
    closer.join(PATIENCE)
    assert sequence.finish_reason == "cancelled"
    assert late.finish_reason is None


def test_closing_from_the_thread_itself_ends_it(looped: Looped) -> None:
    looped.loop.call(looped.loop.close)
    looped.loop.close()
    with pytest.raises(EngineError, match="closed"):
        looped.loop.call(lambda: 1)


def test_what_waits_for_a_lost_device_hears_of_it(looped: Looped) -> None:
    release = looped.hold()
    looped.program.fail(Failure("device.lost"))
    sequences = [looped.sequence() for _ in range(9)]
    for sequence, _ in sequences:
        looped.loop.submit([sequence])
    release.set()
    for sequence, ended in sequences:
        assert ended.wait(PATIENCE)
        assert isinstance(sequence.failure, DeviceError)
        assert sequence.failure.code == "device.lost"
    # Who is told twice is told by two objects: an error keeps the frames that it has been through.
    said = []
    for _ in range(2):
        with pytest.raises(DeviceError) as caught:
            looped.loop.call(lambda: 1)
        said.append(caught.value)
    assert [error.code for error in said] == ["device.lost"] * 2
    assert said[0] is not said[1]


def test_a_step_comes_between_calls_however_many_there_are(looped: Looped) -> None:
    sequence, ended = looped.sequence()
    calls = 0

    def again() -> None:
        nonlocal calls
        calls += 1
        if not ended.is_set():
            looped.loop._post(lambda going: again())

    looped.loop.call(again)
    looped.loop.submit([sequence])
    assert ended.wait(PATIENCE)
    assert calls > 1
