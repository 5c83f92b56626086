"""Which thread makes an engine's launches: its own, so that a step changes hands nowhere."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from threading import Thread

import pytest

from edgewise import Engine, Settings
from edgewise_runtime.devices.base import LoadedProgram
from edgewise_runtime.devices.cpu.device import CpuDevice, CpuProgram

TEXT = "The quick brown fox"


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[Thread]:
    """The threads on which kernels have run, in order."""
    threads: list[Thread] = []
    bind = CpuDevice.bind

    def watched(function: Callable[[int], None]) -> Callable[[int], None]:
        def call(k: int) -> None:
            threads.append(threading.current_thread())
            function(k)

        return call

    def bind_watched(device: CpuDevice, *args: object) -> CpuProgram:
        program = bind(device, *args)  # type: ignore[arg-type]
        program._calls = {name: watched(call) for name, call in program._calls.items()}
        return program

    monkeypatch.setattr(CpuDevice, "bind", bind_watched)
    return threads


def loop_thread(engine: Engine) -> Thread:
    return engine._session.loop.call(threading.current_thread)


@pytest.mark.parametrize("settings", [Settings(), Settings(draft="lookup")])
def test_no_step_of_an_engine_is_handed_over(
    bundle: Path, launched: list[Thread], settings: Settings
) -> None:
    with Engine(bundle, settings=settings) as engine:
        engine.generate([TEXT, "A model"], max_tokens=20, ignore_eos=True)
        engine.score([1, 2, 3])
        thread = loop_thread(engine)
    assert len(launched) > 6
    assert set(launched) == {thread}


def test_a_draft_model_runs_on_the_thread_of_its_target(
    bundle: Path, launched: list[Thread]
) -> None:
    with Engine(bundle, draft=bundle) as engine:
        engine.generate(TEXT, max_tokens=20, ignore_eos=True, temperature=0)
        assert set(launched) == {loop_thread(engine)}


def test_engines_side_by_side_launch_on_their_own_threads_and_answer_as_alone(
    bundle: Path, engine: Engine, launched: list[Thread]
) -> None:
    alone = engine.generate(TEXT, max_tokens=60, seed=5, ignore_eos=True)
    with ExitStack() as stack:
        engines = [stack.enter_context(Engine(bundle, threads=n)) for n in (1, 2, 1)]
        asked = [one.submit(TEXT, max_tokens=60, seed=5, ignore_eos=True) for one in engines]
        assert [one.result().token_ids for one in asked] == [alone.token_ids] * 3
        assert set(launched) == set(map(loop_thread, engines))


def test_a_program_that_is_run_directly_takes_turns_with_an_engine(
    bundle: Path, launched: list[Thread]
) -> None:
    with Engine(bundle) as engine:
        program: LoadedProgram = engine._session.program
        generation = engine.submit(TEXT, max_tokens=200, ignore_eos=True)
        next(generation)
        with CpuDevice().load(program.bundle, load_symbols={"pages": 16}) as own:
            own.write("step", program.read("step") * 0)
            own.run(next(name for name in own.plans if name.startswith("embed")))
        generation.result()
        names = {thread.name for thread in launched}
    assert names == {"edgewise-engine", "edgewise-kernels"}


def test_the_workers_of_an_engine_are_gone_when_it_is_closed(bundle: Path) -> None:
    def threads() -> set[str]:
        return {task.name for task in Path("/proc/self/task").iterdir()}

    Engine(bundle, threads=3).close()  # of another number's, what is there ends
    for _ in range(5):
        before = threads()
        with Engine(bundle, threads=3) as engine:
            engine.generate(TEXT, max_tokens=2)
            made = threads() - before
            assert len(made) >= 3
        assert not made & threads()
