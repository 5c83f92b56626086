"""The end of an engine, however it comes: nobody waits for ever, and nothing is left behind."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Thread
from time import sleep
from typing import Any

import pytest

from edgewise import EdgewiseError, Engine, Generation, Settings
from edgewise_runtime.devices.cpu.device import _kernels
from edgewise_runtime.errors import EngineError
from tests.leak.usage import Usage, settled
from tests.sdk.cli.commands import environment
from tests.sdk.gate import PATIENCE, Gate

TEXT = "The quick brown fox"
LONG: dict[str, Any] = {"max_tokens": 240, "ignore_eos": True}


def engine_threads() -> set[Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "edgewise-engine"}


def script(bundle: Path, body: str) -> subprocess.CompletedProcess[str]:
    """Run Python that has an open engine, in a process of its own."""
    return subprocess.run(
        [
            sys.executable,
            "-c",
            f"import os, threading\nfrom edgewise import Engine\nengine = Engine({str(bundle)!r})\n"
            + body,
        ],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=PATIENCE,
        check=False,
    )


def test_who_reads_waits_or_calls_hears_of_the_end(bundle: Path) -> None:
    gate = Gate()
    engine = Engine(bundle, device=gate)
    running = [engine.submit(TEXT, **LONG) for _ in range(8)]
    for generation in running:
        next(generation)
    gate.close()
    gate.wait()
    waiting = [engine.submit(TEXT, **LONG) for _ in range(4)]
    heard: list[str] = []

    def read(generation: Generation) -> None:
        heard.append(generation.result().finish_reason)

    def call(function: Callable[[], object]) -> None:
        with pytest.raises(EngineError) as caught:
            function()
        heard.append(caught.value.code)

    threads = [Thread(target=read, args=(generation,)) for generation in (*running, *waiting)]
    threads += [Thread(target=call, args=(f,)) for f in (lambda: engine.score([1]), engine.forget)]
    for thread in threads:
        thread.start()
    closer = Thread(target=engine.close)
    closer.start()
    while not engine._session.loop.closed:
        sleep(0.001)
    gate.open()
    for thread in (*threads, closer):
        thread.join(PATIENCE)
        assert not thread.is_alive()
    assert sorted(heard) == ["cancelled"] * 12 + ["engine.closed"] * 2


def test_requests_and_calls_race_with_closing_and_all_end(bundle: Path) -> None:
    for _ in range(10):
        engine = Engine(bundle)
        ended: list[str] = []

        def ask(engine: Engine = engine, ended: list[str] = ended) -> None:
            try:
                while True:
                    ended.append(engine.generate(TEXT, max_tokens=2).finish_reason)
                    engine.score([1, 2])
            except EdgewiseError as error:
                ended.append(error.code)

        threads = [Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        engine.close()
        for thread in threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()
        assert ended.count("engine.closed") == 4


def test_a_closed_engine_refuses_everything(bundle: Path, tmp_path: Path) -> None:
    engine = Engine(bundle)
    engine.close()
    engine.close()
    for ask in (
        lambda: engine.generate(TEXT),
        lambda: engine.generate([TEXT, TEXT]),
        lambda: engine.submit(TEXT, n=2),
        lambda: engine.chat([{"role": "user", "content": "Hello"}]),
        lambda: engine.score([1]),
        lambda: engine.pin(TEXT),
        lambda: engine.unpin(TEXT),
        engine.forget,
    ):
        with pytest.raises(EngineError, match="closed") as caught:
            ask()
        assert caught.value.code == "engine.closed"
    assert engine.metrics()["num_requests_running"] == 0


def test_nothing_is_left_of_engines_that_were_closed(bundle: Path, tmp_path: Path) -> None:
    settings = Settings(prefix_disk=1 << 24, prefix_folder=tmp_path, draft="lookup")

    def use() -> None:
        with Engine(bundle, settings=settings) as engine:
            engine.generate([TEXT * 3, "A model"], max_tokens=3)
            engine.choices(TEXT * 3, n=3, max_tokens=3)
            engine.submit(TEXT, **LONG)

    def left() -> Usage:
        return replace(settled(), resident=0)

    use()  # What a process needs once, it keeps.
    before = left()
    for _ in range(5):
        use()
    assert left() == before


def test_a_dropped_engine_ends_its_thread(bundle: Path) -> None:
    before = engine_threads()
    engine = Engine(bundle)
    [thread] = engine_threads() - before
    completion = engine.generate(TEXT, max_tokens=2)
    assert completion.token_ids
    del engine
    gc.collect()
    assert not thread.is_alive()


def test_a_request_keeps_its_engine_until_it_is_dropped_itself(
    bundle: Path, engine: Engine
) -> None:
    before = engine_threads()
    stream = Engine(bundle).generate(TEXT, max_tokens=40, seed=1, ignore_eos=True, stream=True)
    [thread] = engine_threads() - before
    gc.collect()
    expected = engine.generate(TEXT, max_tokens=40, seed=1, ignore_eos=True)
    assert "".join(stream) == expected.text
    assert thread.is_alive()
    del stream
    gc.collect()
    assert not thread.is_alive()


def test_an_engine_may_be_collected_on_the_thread_of_its_kernels(bundle: Path) -> None:
    before = engine_threads()
    engine = Engine(bundle)
    [thread] = engine_threads() - before
    gc.disable()
    try:
        vars(engine)["running"] = engine.submit(TEXT, **LONG)  # which holds the engine
        del engine
        _kernels.call(gc.collect)
    finally:
        gc.enable()
    thread.join(PATIENCE)
    assert not thread.is_alive()


@pytest.mark.quick(cases=1)
@pytest.mark.parametrize(
    "body",
    [
        "",
        "running = engine.submit('A model', max_tokens=240, ignore_eos=True)\nnext(running)",
        "stream = engine.generate('A model', stream=True)\nnext(stream)\ndel engine",
        "engine.me = engine\nrunning = engine.submit('A model', max_tokens=240)\ndel engine",
    ],
)
def test_a_process_ends_whatever_its_engine_does(bundle: Path, body: str) -> None:
    done = script(bundle, body)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_forked_process_is_told_to_load_for_itself(bundle: Path) -> None:
    body = """
running = engine.submit('A model', max_tokens=240, ignore_eos=True)
next(running)
child = os.fork()
if not child:
    for ask in (
        lambda: engine.generate('A model'),
        lambda: engine.score([1]),
        lambda: next(running),
        lambda: running.result(),
    ):
        try:
            ask()
        except Exception as error:
            print(error.code, flush=True)
    running.close()
    running.cancel()
    del running
    engine.close()
    with Engine(engine._session.bundle.path) as own:
        print(len(own.generate('A model', max_tokens=2, ignore_eos=True).token_ids), flush=True)
else:
    status = os.waitpid(child, 0)[1]
    print(status, engine.generate('A model', max_tokens=2).finish_reason)
"""
    done = script(bundle, body)
    assert done.stdout.split() == ["device.fork"] * 4 + ["2", "0", "length"]
    assert done.returncode == 0
