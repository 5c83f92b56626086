"""A device that fails in the middle: who hears of it, and what goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edgewise import Engine, Settings
from edgewise_runtime.errors import DeviceError, EdgewiseError, EngineError
from tests.sdk.gate import Gate

TEXT = "The quick brown fox"
OPTIONS: dict[str, Any] = {"max_tokens": 40, "ignore_eos": True, "temperature": 0}


@pytest.mark.parametrize("launches", [0, 1, 2, 5, 9])
def test_requests_that_ran_end_with_the_error_and_the_engine_goes_on(
    bundle: Path, engine: Engine, launches: int
) -> None:
    gate = Gate()
    with Engine(bundle, device=gate) as failing:
        gate.close()
        running = [failing.submit(prompt, **OPTIONS) for prompt in (TEXT, "A model")]
        gate.wait()
        gate.fail(launches, "device.kernel")
        gate.open()
        ended = []
        for generation in running:
            try:
                ended.append(generation.result().finish_reason)
            except DeviceError as error:
                ended.append(error.code)
        assert "device.kernel" in ended
        for prompt in (TEXT, "A model", TEXT * 10):
            found = failing.generate(prompt, **OPTIONS)
            assert found.token_ids == engine.generate(prompt, **OPTIONS).token_ids
        assert failing.metrics()["num_requests_running"] == 0


@pytest.mark.parametrize("launches", [0, 3, 8])
def test_a_lost_device_ends_everything_and_every_later_call_says_so(
    bundle: Path, tmp_path: Path, launches: int
) -> None:
    gate = Gate()
    settings = Settings(prefix_disk=1 << 24, prefix_folder=tmp_path)
    with Engine(bundle, device=gate, settings=settings) as engine:
        gate.close()
        running = [engine.submit(TEXT, **OPTIONS) for _ in range(12)]
        gate.wait()
        gate.fail(launches, "device.lost")
        gate.open()
        for generation in running:
            with pytest.raises(DeviceError, match="has failed") as caught:
                generation.result()
            assert caught.value.code == "device.lost"
        for ask in (
            lambda: engine.generate(TEXT),
            lambda: engine.generate(TEXT),
            lambda: engine.submit(TEXT, n=2),
            lambda: engine.score([1]),
            lambda: engine.pin(TEXT),
            engine.forget,
        ):
            with pytest.raises(DeviceError) as caught:
                ask()
            assert caught.value.code == "device.lost"
    with Engine(bundle) as another:
        assert another.generate(TEXT, **OPTIONS).token_ids


def test_an_error_raised_again_does_not_grow(bundle: Path) -> None:
    gate = Gate()

    def frames(error: EdgewiseError) -> int:
        count, trace = 0, error.__traceback__
        while trace is not None:
            count, trace = count + 1, trace.tb_next
        return count

    with Engine(bundle, device=gate) as engine:
        gate.fail(0, "device.lost")
        found = []
        for _ in range(4):
            with pytest.raises(DeviceError) as caught:
                engine.generate(TEXT)
            found.append(frames(caught.value))
    assert found[1] == found[2] == found[3]


def test_a_program_that_breaks_its_promises_ends_the_engine(bundle: Path) -> None:
    class Broken(Gate):
        def pass_through(self) -> None:
            raise ZeroDivisionError("oops")

    with Engine(bundle, device=Broken()) as engine:
        for _ in range(2):
            with pytest.raises(EngineError, match="unexpected ZeroDivisionError: oops") as caught:
                engine.generate(TEXT)
            assert caught.value.code == "engine.broken"
            assert isinstance(caught.value.__cause__, ZeroDivisionError)
