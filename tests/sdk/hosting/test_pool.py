"""The models of a server: who is loaded when, and who leaves for whom."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest

from edgewise.hosting.base import Ask, Hosted, Said
from edgewise.hosting.kept import PoolOptions
from edgewise.hosting.named import named_models
from edgewise.hosting.pool import Pool
from edgewise.hosting.room import needed_bytes, target_of
from edgewise_runtime.errors import EngineError, InputError
from tests.processes import children, running
from tests.sdk.hosting.asking import LONG, TEXT, ended, events, run

pytestmark = pytest.mark.landing

CHILD = "edgewise.hosting.child"
SHORT = Ask(prompt=TEXT, options={"max_tokens": 2})


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def nothing_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No bundles in ./dist, nor in the cache, where other tests have some."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@asynccontextmanager
async def pool(bundle: Path, *names: str, **given: Any) -> AsyncIterator[Pool]:
    """A pool of one bundle under several names."""
    clock, available = given.pop("clock", time.monotonic), given.pop("available", lambda: None)
    heard = given.pop("on_restart", lambda name: None)
    made = Pool(
        dict.fromkeys(names, str(bundle)),
        PoolOptions(**given),
        clock=clock,
        available=available,
        on_restart=heard,
    )
    try:
        yield made
    finally:
        await made.close()
        assert children(CHILD) == []


def in_memory(models: Pool) -> list[str]:
    return sorted(one.hosted.facts.name for one in models.loaded())


async def asked(model: Hosted) -> str:
    (one,) = ended(await events(model, SHORT))
    return one.text


def test_a_model_is_loaded_when_it_is_asked_for_and_once(bundle: Path) -> None:
    async def scenario() -> None:
        async with pool(bundle, "a", "b") as models:
            assert models.names() == ["a", "b"]
            assert models.loaded() == []
            found = await asyncio.gather(*(models.get("a") for _ in range(3)))
            assert len({model.process for model in found}) == 1
            assert children(CHILD) == [found[0].process]
            assert found[0].facts.name == "a"
            (one,) = models.loaded()
            assert (one.process, one.running) == (found[0].process, 0)
            assert one.bytes >= needed_bytes(bundle)
            texts = await asyncio.gather(*map(asked, found))
            other = await models.get("b")
            assert await asked(other)
            assert other.process != found[0].process
            assert len(texts) == 3

    run(scenario())


def test_every_question_is_passed_on(bundle: Path) -> None:
    async def scenario() -> None:
        async with pool(bundle, "a") as models:
            model = await models.get("a")
            ids = await model.tokenize(TEXT, special=False)
            assert await model.detokenize(ids) == TEXT
            assert await model.count(Ask(prompt=ids)) == len(ids)
            assert "Hello" in await model.render(
                Ask(messages=[{"role": "user", "content": "Hello"}])
            )
            assert (await model.metrics())["num_requests_running"] == 0

    run(scenario())


def test_what_a_model_is_is_known_before_it_is_loaded(calling: Path, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with pool(calling, "a", context=32) as models:
            before = await models.facts("a")
            assert before is not None
            assert models.loaded() == []
            assert (before.name, before.context, before.program, before.device) == ("a", 32, "", "")
            assert {"completion", "chat", "tools", "thinking"} <= set(before.capabilities)
            loaded = (await models.get("a")).facts
            assert replace(before, program=loaded.program, device=loaded.device) == loaded
            assert await models.facts("a") == loaded

    run(scenario())


def test_nothing_is_known_of_what_is_not_there_and_of_what_is_broken(
    bundle: Path, tmp_path: Path
) -> None:
    shutil.copytree(bundle, tmp_path / "dist" / "broken")
    manifest = tmp_path / "dist" / "broken" / "bundle.json"
    whole = manifest.read_bytes()
    manifest.write_bytes(b"{}")

    async def scenario() -> None:
        async with pool(bundle, "a") as models:
            assert models.names() == ["a", "broken"]
            assert await models.facts("broken") is None
            assert await models.facts("other") is None
            manifest.write_bytes(whole)
            found = await models.facts("broken")
            assert found is not None
            assert found.name == "broken"

    run(scenario())


def test_names_are_no_paths(bundle: Path, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with pool(bundle, "a") as models:
            for name in ("b", str(bundle), bundle.name, "../a", "hf:org/repo", "", "\0"):
                with pytest.raises(InputError) as caught:
                    await models.get(name)
                assert caught.value.code == "input.model"
            assert children(CHILD) == []

    run(scenario())


def test_what_ls_lists_may_be_asked_for(bundle: Path, tmp_path: Path) -> None:
    shutil.copytree(bundle, tmp_path / "dist" / "listed")

    async def scenario() -> None:
        async with pool(bundle, "a") as models:
            assert set(models.names()) >= {"a", "listed"}
            assert (await models.get("listed")).facts.name == "listed"
        async with pool(bundle, "a", listed=False) as models:
            assert models.names() == ["a"]
            with pytest.raises(InputError):
                await models.get("listed")

    run(scenario())


@pytest.mark.parametrize("said", [True, False], ids=["said", "usual"])
def test_a_model_leaves_when_nobody_has_asked_for_its_time(bundle: Path, said: bool) -> None:
    clock = Clock()

    async def scenario() -> None:
        usual, asked_for = (5.0, 300.0) if said else (300.0, None)
        async with pool(bundle, "a", clock=clock, keep_alive_s=usual) as models:
            model = await models.get("a", keep_alive_s=asked_for)
            clock.now += 200
            await asked(model)
            clock.now += 299
            await models.tidy()
            (one,) = models.loaded()
            assert one.expires is not None
            assert 0 < one.expires - time.time() < 2
            first = model.process
            clock.now += 1
            await models.tidy()
            assert models.loaded() == []
            assert not running(first)
            with pytest.raises(EngineError) as caught:
                await model.metrics()
            assert caught.value.code == "engine.gone"
            assert await asked(model)
            assert in_memory(models) == ["a"]

    run(scenario())


@pytest.mark.parametrize("seconds", [-1, inf, 1e12])
def test_a_model_may_stay_for_ever(bundle: Path, seconds: float) -> None:
    clock = Clock()

    async def scenario() -> None:
        async with pool(bundle, "a", clock=clock) as models:
            await asked(await models.get("a", keep_alive_s=seconds))
            clock.now += 1e10
            await models.tidy()
            (one,) = models.loaded()
            assert one.expires is None

    run(scenario())


def test_a_model_may_leave_after_its_request_and_not_before(bundle: Path) -> None:
    clock = Clock()

    async def scenario() -> None:
        async with pool(bundle, "a", clock=clock) as models:
            model = await models.get("a", keep_alive_s=0)
            process = model.process
            await models.tidy()
            async with aclosing(model.ask(Ask(prompt=TEXT, options=LONG))) as stream:
                await anext(stream)
                clock.now += 1000
                await models.tidy()
                (one,) = models.loaded()
                assert (one.running, one.process) == (1, process)
                assert isinstance(await anext(stream), Said)
            await models.tidy()
            assert models.loaded() == []

    run(scenario())


def test_it_leaves_by_itself(bundle: Path) -> None:
    async def scenario() -> None:
        async with pool(bundle, "a") as models:
            await asked(await models.get("a", keep_alive_s=0))
            while models.loaded():
                await asyncio.sleep(0)

    run(scenario())


def test_no_number_of_seconds_is_refused(bundle: Path) -> None:
    async def scenario() -> None:
        async with pool(bundle, "a") as models:
            with pytest.raises(InputError) as caught:
                await models.get("a", keep_alive_s=nan)
            assert caught.value.code == "input.keep_alive"

    run(scenario())


def short_of(models: Callable[[], Pool], each: int, most: int) -> Callable[[], int]:
    """Memory for so many models of one size."""
    return lambda: each * (most - len(models().loaded())) + each // 2


def test_who_was_asked_longest_ago_leaves_for_another(bundle: Path) -> None:
    clock, made = Clock(), list[Pool]()
    room = short_of(lambda: made[0], needed_bytes(bundle), 2)

    async def scenario() -> None:
        async with pool(bundle, "a", "b", "c", clock=clock, available=room) as models:
            made.append(models)
            for name in ("a", "b", "a"):
                clock.now += 1
                await asked(await models.get(name))
            assert in_memory(models) == ["a", "b"]
            clock.now += 1
            await models.get("c")
            assert in_memory(models) == ["a", "c"]
            clock.now += 1
            await models.get("b")
            assert in_memory(models) == ["b", "c"]

    run(scenario())


def test_who_answers_never_leaves_and_the_error_names_who_is_in_the_way(bundle: Path) -> None:
    made = list[Pool]()
    room = short_of(lambda: made[0], needed_bytes(bundle), 1)

    async def scenario() -> None:
        async with pool(bundle, "a", "b", available=room) as models:
            made.append(models)
            model = await models.get("a")
            async with aclosing(model.ask(Ask(prompt=TEXT, options=LONG))) as stream:
                await anext(stream)
                with pytest.raises(EngineError) as caught:
                    await models.get("b")
                assert caught.value.code == "engine.memory"
                assert "beside 'a'" in caught.value.message
                assert "1 request" in caught.value.message
                assert isinstance(await anext(stream), Said)
            assert (await models.get("b")).facts.name == "b"
            assert in_memory(models) == ["b"]

    run(scenario())


def test_nobody_leaves_for_what_has_no_room_anyway(bundle: Path) -> None:
    needed = needed_bytes(bundle)

    async def scenario() -> None:
        room = [needed * 2]
        async with pool(bundle, "a", "b", available=lambda: room[0]) as models:
            await models.get("a")
            room[0] = -(1 << 40)
            with pytest.raises(EngineError) as caught:
                await models.get("b")
            assert caught.value.code == "engine.memory"
            assert in_memory(models) == ["a"]
        async with pool(bundle, "a", memory_bytes=needed - 1) as models:
            with pytest.raises(EngineError) as caught:
                await models.get("a")
            assert caught.value.code == "engine.memory"
            assert "that models may have" in caught.value.message

    run(scenario())


def test_a_limit_holds_for_all_models_together(bundle: Path) -> None:
    clock = Clock()

    async def scenario() -> None:
        async with pool(bundle, "a", clock=clock) as models:
            await asked(await models.get("a"))
            (one,) = models.loaded()
        # One of them fits with room to spare, and two do not.
        most = one.bytes * 3 // 2
        async with pool(bundle, "a", "b", clock=clock, memory_bytes=most) as models:
            await asked(await models.get("a"))
            await asked(await models.get("b"))
            found = in_memory(models)
            assert "b" in found
            assert sum(one.bytes for one in models.loaded()) <= most

    run(scenario())


def test_who_stops_waiting_stops_no_other(bundle: Path) -> None:
    async def scenario() -> None:
        async with pool(bundle, "a") as models:
            impatient = asyncio.create_task(models.get("a"))
            patient = asyncio.create_task(models.get("a"))
            await asyncio.sleep(0)
            impatient.cancel()
            with pytest.raises(asyncio.CancelledError):
                await impatient
            assert await asked(await patient)

    run(scenario())


def test_a_model_that_failed_to_load_may_be_asked_for_again(bundle: Path, tmp_path: Path) -> None:
    async def scenario() -> None:
        copy = tmp_path / "later"
        async with pool(copy, "a") as models:
            for _ in range(2):
                with pytest.raises(InputError) as caught:
                    await models.get("a")
                assert caught.value.code == "input.model"
            shutil.copytree(bundle, copy)
            assert await asked(await models.get("a"))

    run(scenario())


@pytest.mark.landing
def test_a_process_that_ended_is_started_again_and_told(long_bundle: Path) -> None:
    told: list[str] = []

    async def scenario() -> None:
        async with pool(long_bundle, "a", on_restart=told.append, context=8192) as models:
            model = await models.get("a")
            stream = model.ask(Ask(prompt=TEXT, options=LONG | {"max_tokens": 8000}))
            await anext(stream)
            os.kill(model.process, signal.SIGKILL)
            with pytest.raises(EngineError) as caught:
                async for _ in stream:
                    pass
            assert caught.value.code == "engine.gone"
            assert models.loaded() == []
            assert told == []
            assert await asked(model)
            assert told == ["a"]
            assert in_memory(models) == ["a"]

    run(scenario())


def test_a_model_may_be_sent_away(bundle: Path) -> None:
    async def scenario() -> None:
        async with pool(bundle, "a") as models:
            model = await models.get("a")
            await model.close()
            assert children(CHILD) == []
            assert await asked(model)

    run(scenario())


@pytest.mark.landing
def test_closing_ends_what_runs_and_what_loads(long_bundle: Path) -> None:
    async def scenario() -> None:
        async with pool(long_bundle, "a", "b", context=8192) as models:
            long = Ask(prompt=TEXT, options=LONG | {"max_tokens": 8000})
            stream = (await models.get("a")).ask(long)
            await anext(stream)
            waiting = asyncio.create_task(models.get("b"))
            await asyncio.sleep(0)
            await models.close()
            assert children(CHILD) == []
            with pytest.raises((EngineError, asyncio.CancelledError)):
                await waiting
            with pytest.raises(EngineError):
                async for _ in stream:
                    pass
            with pytest.raises(EngineError) as caught:
                await models.get("a")
            assert caught.value.code == "engine.closed"
            await models.close()

    run(scenario())


def test_a_checkpoint_is_compiled_when_it_is_asked_for(checkpoints: Callable[[str], Path]) -> None:
    checkpoint = checkpoints("llama-mha")
    named = named_models([str(checkpoint)])
    assert named == {"llama-mha": str(checkpoint)}

    async def scenario() -> None:
        models = Pool(named, available=lambda: None)
        try:
            assert await asked(await models.get("llama-mha"))
        finally:
            await models.close()

    run(scenario())


def test_what_is_named_has_a_name(bundle: Path, tmp_path: Path) -> None:
    shutil.copytree(bundle, tmp_path / "dist" / "listed")
    shutil.copytree(bundle, tmp_path / "other" / "listed")
    found = named_models([str(bundle), "listed", "hf:org/repo", "hf:org/repo:Q4_K_M"])
    assert found == {
        bundle.name: str(bundle),
        "listed": "dist/listed",
        "org/repo": "hf:org/repo",
        "org/repo:Q4_K_M": "hf:org/repo:Q4_K_M",
    }
    for wrong in (["nowhere"], ["listed", "other/listed"], ["hf:nobody"]):
        with pytest.raises(InputError) as caught:
            named_models(wrong)
        assert caught.value.code == "input.model"


def test_the_target_is_told_without_a_device() -> None:
    assert target_of("cpu", None) == target_of(None, "cpu-w4a8-avx2") == "cpu"
    assert target_of("wgpu:1", None) == "webgpu"
    assert target_of(None, None) is None
    assert target_of("toaster", None) is None
