"""The engine's own thread: whoever asks from whichever thread gets their own tokens, and an end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from edgewise_runtime.engine.loop import EngineLoop
from edgewise_runtime.engine.sampling import SamplingParams
from edgewise_runtime.engine.sequence import Request
from edgewise_runtime.errors import EdgewiseError
from tests.runtime.engine.toy import Failure
from tests.runtime.engine.toy_bundle import Bounds
from tests.runtime.engine.toy_model import VOCAB
from tests.runtime.engine.world import Asked, Setting, World

CLIENTS, REQUESTS = 6, 10
LONG_S = 120
"""Seconds after which something hangs."""

SETTING = Setting(Bounds(pages=14, rows=16, batch=3, context=100), drafter="oracle", memory_pages=9)
TEXT = [(7 * i * i + 3) % VOCAB for i in range(60)]


class Clients:
    """Threads that ask one request after the other."""

    def __init__(self, world: World, loop: EngineLoop, seed: int) -> None:
        self.asked: list[Asked] = []
        self.refused: list[EdgewiseError] = []
        self._world, self._loop = world, loop
        self._wrong: list[BaseException] = []
        self._threads = [
            threading.Thread(target=self._work, args=(Random(100 * seed + client),))
            for client in range(CLIENTS)
        ]
        for thread in self._threads:
            thread.start()

    def wait(self) -> None:
        """Wait for all of them."""
        for thread in self._threads:
            thread.join(LONG_S)
            assert not thread.is_alive()

    def join(self) -> None:
        """Wait for all of them; what they got is right."""
        self.wait()
        for error in self._wrong:
            raise error
        for asked in self.asked:
            self._world.judge(asked)

    def _work(self, random: Random) -> None:
        try:
            for _ in range(REQUESTS):
                self._ask(random)
        except EdgewiseError as error:
            self.refused.append(error)
        except BaseException as error:
            self._wrong.append(error)

    def _ask(self, random: Random) -> None:
        params = SamplingParams(
            max_tokens=random.randint(1, 30),
            temperature=random.choice([0.0, 1.0]),
            seed=random.randrange(1000),
            n=random.choice([1, 1, 2]),
            presence_penalty=random.choice([0.0, 0.0, 0.5]),
        )
        prompt = (*TEXT[: random.randint(1, 60)], random.randrange(VOCAB))
        choices = self._world.make(Request(prompt, params))
        self._loop.submit([asked.sequence for asked in choices])
        self.asked += choices
        if random.random() < 0.2:
            self._loop.cancel([asked.sequence for asked in choices[:1]])
        if random.random() < 0.2:
            assert self._loop.call(self._world.engine.check) == []
        assert all(asked.ended.wait(LONG_S) for asked in choices)


@pytest.fixture
def started(tmp_path: Path) -> Callable[[], tuple[World, EngineLoop]]:
    def start() -> tuple[World, EngineLoop]:
        world = World(SETTING, tmp_path)
        return world, EngineLoop(world.engine, world.program.close)

    return start


@pytest.fixture(autouse=True)
def no_threads_left() -> Iterator[None]:
    before = threading.active_count()
    yield
    assert threading.active_count() == before


@pytest.mark.parametrize("seed", range(4))
def test_requests_come_from_any_thread(
    started: Callable[[], tuple[World, EngineLoop]], seed: int
) -> None:
    world, loop = started()
    clients = Clients(world, loop, seed)
    clients.join()
    assert not clients.refused
    assert loop.call(world.engine.check) == []
    loop.close()
    loop.close()
    assert world.engine.check() == []
    assert world.memory.free + world.memory.kept == SETTING.bounds.pages


@pytest.mark.parametrize("steps", [0, 3, 10])
def test_everybody_hears_that_the_engine_is_closed(
    started: Callable[[], tuple[World, EngineLoop]], steps: int
) -> None:
    world, loop = started()
    clients = Clients(world, loop, 9)
    for _ in range(steps):
        loop.call(lambda: None)
    loop.close()
    clients.join()
    assert {error.code for error in clients.refused} <= {"engine.closed"}
    assert len(clients.refused) == CLIENTS
    assert world.engine.check() == []


@pytest.mark.parametrize("late", [False, True])
def test_everybody_hears_that_the_device_is_lost(
    started: Callable[[], tuple[World, EngineLoop]], late: bool
) -> None:
    world, loop = started()
    loop.call(lambda: world.fail(Failure("device.lost", calls=90, late=late)))
    clients = Clients(world, loop, 3)
    clients.join()
    assert {error.code for error in clients.refused} == {"device.lost"}
    assert len(clients.refused) == CLIENTS
    with pytest.raises(EdgewiseError, match=r"lost|failed"):
        loop.call(lambda: None)
    loop.close()
    assert world.engine.check() == []


def test_a_kernel_that_fails_ends_only_those_it_ran_for(
    started: Callable[[], tuple[World, EngineLoop]],
) -> None:
    world, loop = started()
    loop.call(lambda: world.fail(Failure("device.kernel", calls=60, pieces=1)))
    clients = Clients(world, loop, 5)
    clients.join()
    assert not clients.refused
    failed = [asked for asked in clients.asked if asked.sequence.failure is not None]
    assert 0 < len(failed) <= SETTING.bounds.batch
    loop.close()
    assert world.engine.check() == []


def test_a_fault_of_our_own_ends_everything_and_says_so(
    started: Callable[[], tuple[World, EngineLoop]],
) -> None:
    world, loop = started()
    world.program.guard(lambda page: False)
    clients = Clients(world, loop, 6)
    clients.wait()
    assert {error.code for error in clients.refused} == {"engine.broken"}
    assert all(asked.ends == 1 for asked in clients.asked)
    loop.close()
