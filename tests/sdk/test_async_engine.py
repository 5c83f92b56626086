"""The engine for asyncio: what tasks get, and what becomes of requests whose tasks go away."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest

from edgewise import AsyncEngine, Engine, Settings
from edgewise_runtime.errors import DeviceError, EngineError, InputError
from tests.sdk.gate import PATIENCE, Gate
from tests.sdk.test_closing import engine_threads

TEXT = "The quick brown fox"
PROMPTS = [TEXT, "A model", "def add(a, b):\n", "Zürich", TEXT * 12, "1", "on the desk", "🙂"]
MESSAGES = [{"role": "user", "content": "Hello"}]
LONG: dict[str, Any] = {"max_tokens": 240, "ignore_eos": True}

Scenario = Callable[[AsyncEngine, Gate], Coroutine[Any, Any, None]]
Play = Callable[[Scenario], None]


@pytest.fixture
def play(bundle: Path) -> Play:
    """``play(scenario)``: run it on an engine of its own, in an event loop of its own."""

    async def load_and_run(scenario: Scenario) -> None:
        gate = Gate()
        async with await AsyncEngine.load(bundle, device=gate) as engine:
            await asyncio.wait_for(scenario(engine, gate), 60)

    return lambda scenario: asyncio.run(load_and_run(scenario))


@asynccontextmanager
async def standing(gate: Gate) -> AsyncIterator[None]:
    """The device stands still in the block."""
    gate.close()
    await asyncio.to_thread(gate.wait)
    try:
        yield
    finally:
        gate.open()


async def cancelled(engine: AsyncEngine) -> int:
    """How many requests were cancelled, once a later one is through."""
    await engine.generate("1", max_tokens=1)
    count: int = engine.metrics()["request_success_total"]["cancelled"]
    return count


def sampling(index: int) -> dict[str, Any]:
    return {
        "max_tokens": 6 + 5 * (index % 4),
        "temperature": (0, 0.8, 1.7)[index % 3],
        "seed": index,
        "ignore_eos": True,
    }


def test_forty_tasks_get_what_each_gets_alone(play: Play, engine: Engine) -> None:
    asked = [(PROMPTS[i % len(PROMPTS)], sampling(i)) for i in range(40)]
    alone = [engine.generate(prompt, **options) for prompt, options in asked]

    async def scenario(loaded: AsyncEngine, gate: Gate) -> None:
        async def ask(index: int) -> str:
            prompt, options = asked[index]
            if index % 2:
                return (await loaded.generate(prompt, **options)).text
            return "".join([piece async for piece in loaded.stream(prompt, **options)])

        assert await asyncio.gather(*map(ask, range(40))) == [c.text for c in alone]

    play(scenario)


def test_everything_that_an_engine_does(play: Play, engine: Engine, tmp_path: Path) -> None:
    options: dict[str, Any] = {"max_tokens": 9, "seed": 4, "ignore_eos": True}
    whole = engine.generate(TEXT, **options)
    chatted = engine.chat(MESSAGES, **options)
    choices = engine.choices(TEXT, n=3, **options)
    scores = engine.score([5, 6, 7])

    async def scenario(loaded: AsyncEngine, gate: Gate) -> None:
        assert (loaded.name, loaded.context) == (engine.name, engine.context)
        assert (loaded.program, loaded.device) == (engine.program, engine.device)
        assert repr(loaded).startswith("<AsyncEngine ")
        assert loaded.render(MESSAGES) == engine.render(MESSAGES)
        assert loaded.memory() == engine.memory()
        with loaded.trace(tmp_path / "trace.json"):
            assert (await loaded.generate(TEXT, **options)).token_ids == whole.token_ids
        assert (tmp_path / "trace.json").exists()
        assert (await loaded.chat(MESSAGES, **options)).token_ids == chatted.token_ids
        pieces = [piece async for piece in loaded.stream_chat(MESSAGES, **options)]
        assert "".join(pieces) == chatted.text
        found = await loaded.choices(TEXT, n=3, **options)
        assert [c.token_ids for c in found] == [c.token_ids for c in choices]
        generation = await loaded.submit(TEXT, n=3, logprobs=True, **options)
        said = [one.token_id async for piece in generation for one in piece.logprobs]
        assert sorted(said) == sorted(sum((c.token_ids for c in choices), ()))
        assert (await generation.result()).token_ids == whole.token_ids
        assert generation.done
        answer = await (await loaded.submit_chat(MESSAGES, **options)).result()
        assert answer.token_ids == chatted.token_ids
        np.testing.assert_array_equal(await loaded.score([5, 6, 7]), scores)
        assert await loaded.pin([5] * 40) == 32
        await loaded.forget()
        assert (await loaded.generate([5] * 40, max_tokens=1)).usage.cached_tokens == 32
        await loaded.unpin([5] * 40)

    play(scenario)


def test_what_cannot_be_is_refused(play: Play) -> None:
    async def scenario(engine: AsyncEngine, gate: Gate) -> None:
        several: dict[str, Any] = {"n": 2}
        asked: list[tuple[Awaitable[object], str]] = [
            (engine.generate(""), "input.empty"),
            (engine.generate("x", temperature=-1), "input.sampling"),
            (engine.generate("x", **several), "input.n"),
            (engine.chat(MESSAGES, **several), "input.n"),
            (anext(engine.stream("x", **several)), "input.n"),
            (anext(engine.stream_chat([])), "input.messages"),
            (engine.submit(["x", "y"]), "input.stream"),  # type: ignore[list-item]
            (engine.chat([]), "input.messages"),
            (engine.score([]), "input.empty"),
            (engine.pin("x" * 999), "input.context"),
        ]
        for ask, code in asked:
            with pytest.raises(InputError) as caught:
                await ask
            assert caught.value.code == code

    play(scenario)


@pytest.mark.parametrize("waits_in", ["generate", "result", "next", "stream"])
def test_a_cancelled_task_cancels_its_request(play: Play, waits_in: str) -> None:
    async def scenario(engine: AsyncEngine, gate: Gate) -> None:
        async def wait() -> None:
            if waits_in == "generate":
                await engine.generate(TEXT, **LONG)
            elif waits_in == "stream":
                async for _ in engine.stream(TEXT, **LONG):
                    pass
            elif waits_in == "result":
                await (await engine.submit(TEXT, **LONG)).result()
            else:
                generation = await engine.submit(TEXT, **LONG)
                async for _ in generation:
                    pass

        before = await cancelled(engine)
        gate.close()
        task = asyncio.create_task(wait())
        await asyncio.to_thread(gate.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        gate.open()
        assert await cancelled(engine) == before + 1

    play(scenario)


def test_a_time_limit_of_asyncio_cancels_the_request(play: Play) -> None:
    async def scenario(engine: AsyncEngine, gate: Gate) -> None:
        before = await cancelled(engine)
        gate.close()
        generation = await engine.submit(TEXT, **LONG)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(generation.result(), 0.05)
        gate.open()
        assert await cancelled(engine) == before + 1

    play(scenario)


def test_one_failure_of_a_group_cancels_the_others(play: Play) -> None:
    async def scenario(engine: AsyncEngine, gate: Gate) -> None:
        async def group() -> None:
            async with asyncio.TaskGroup() as tasks:
                for generation in running:
                    tasks.create_task(generation.result())
                tasks.create_task(engine.generate(""))

        before = await cancelled(engine)
        gate.close()
        running = [await engine.submit(TEXT, **LONG) for _ in range(3)]
        with pytest.raises(ExceptionGroup):
            await group()
        gate.open()
        assert await cancelled(engine) == before + 3

    play(scenario)


def test_a_dropped_handle_cancels(play: Play) -> None:
    async def scenario(engine: AsyncEngine, gate: Gate) -> None:
        before = await cancelled(engine)
        generation = await engine.submit(TEXT, **LONG)
        await anext(generation)
        async with standing(gate):
            del generation
            gc.collect()
        assert await cancelled(engine) == before + 1
        async for _ in engine.stream(TEXT, **LONG):
            gate.close()
            break
        gc.collect()
        await asyncio.sleep(0)  # asyncio closes iterators that were left
        gate.open()
        assert await cancelled(engine) == before + 2

    play(scenario)


def test_the_end_of_a_block_cancels(play: Play) -> None:
    async def scenario(engine: AsyncEngine, gate: Gate) -> None:
        async with await engine.submit(TEXT, **LONG) as generation:
            await anext(generation)
        assert generation.done
        assert [piece async for piece in generation] == []
        assert (await generation.result()).finish_reason in ("cancelled", "length")

    play(scenario)


def test_another_thread_may_cancel(play: Play) -> None:
    async def scenario(engine: AsyncEngine, gate: Gate) -> None:
        generation = await engine.submit(TEXT, **LONG)
        async with standing(gate):
            thread = Thread(target=generation.cancel)
            thread.start()
            thread.join()
        assert (await generation.result()).finish_reason == "cancelled"

    play(scenario)


def test_several_tasks_may_read_one_generation(play: Play) -> None:
    async def scenario(engine: AsyncEngine, gate: Gate) -> None:
        generation = await engine.submit(TEXT, n=3, max_tokens=30, ignore_eos=True)

        async def read() -> int:
            return sum([len(piece.token_ids) async for piece in generation])

        assert sum(await asyncio.gather(*(read() for _ in range(4)))) == 90

    play(scenario)


def test_the_event_loop_is_never_blocked(play: Play) -> None:
    async def scenario(engine: AsyncEngine, gate: Gate) -> None:
        running = await engine.submit(TEXT, **LONG)
        async with standing(gate):
            # The engine stands still; all of this gets as far as it can without it.
            asked = [
                asyncio.create_task(ask)
                for ask in (
                    engine.generate(TEXT, max_tokens=2),
                    engine.score([1, 2]),
                    engine.pin([5] * 40),
                )
            ]
            waiting = await engine.submit_chat(MESSAGES, max_tokens=2)
            waiting.cancel()
            await asyncio.sleep(0.02)
            assert not any(task.done() for task in asked)
        await asyncio.gather(*asked)
        assert (await waiting.result()).finish_reason == "cancelled"
        running.cancel()

    play(scenario)


def test_a_full_queue_is_refused(bundle: Path) -> None:
    async def scenario() -> None:
        gate = Gate()
        settings = Settings(max_waiting=1)
        async with await AsyncEngine.load(bundle, device=gate, settings=settings) as engine:
            # With log-probabilities a token is a step: none of them ends before the gate is closed.
            full = [await engine.submit(TEXT, logprobs=True, **LONG) for _ in range(8)]
            for generation in full:
                await anext(generation)
            async with standing(gate):
                waiting = await engine.submit(TEXT, timeout_s=0.01, **LONG)
                with pytest.raises(EngineError) as caught:
                    await engine.generate(TEXT)
                assert caught.value.code == "engine.busy"
            assert (await waiting.result()).finish_reason == "timeout"

    asyncio.run(scenario())


def test_closing_ends_what_runs(bundle: Path) -> None:
    async def scenario() -> None:
        gate = Gate()
        engine = await AsyncEngine.load(bundle, device=gate)
        running = [await engine.submit(TEXT, **LONG) for _ in range(2)]
        async with standing(gate):
            ended = [asyncio.create_task(generation.result()) for generation in running]
            closing = asyncio.create_task(engine.close())
            await asyncio.sleep(0.01)
        await closing
        await engine.close()
        reasons = [completion.finish_reason for completion in await asyncio.gather(*ended)]
        assert reasons == ["cancelled", "cancelled"]
        with pytest.raises(EngineError, match="closed"):
            await engine.generate(TEXT)
        with pytest.raises(EngineError, match="closed"):
            await engine.score([1])

    asyncio.run(scenario())


def test_a_device_that_fails_is_heard_of(play: Play, engine: Engine) -> None:
    async def scenario(loaded: AsyncEngine, gate: Gate) -> None:
        for code in ("device.kernel", "device.lost"):
            gate.fail(2, code)
            with pytest.raises(DeviceError) as caught:
                await loaded.generate(TEXT, **LONG)
            assert caught.value.code == code
            if code == "device.kernel":
                found = await loaded.generate(TEXT, max_tokens=5, temperature=0)
        assert found.text == engine.generate(TEXT, max_tokens=5, temperature=0).text
        with pytest.raises(DeviceError) as caught:
            await loaded.generate(TEXT)
        assert caught.value.code == "device.lost"

    play(scenario)


def test_what_was_begun_in_an_event_loop_that_is_gone_ends(bundle: Path) -> None:
    gate, left = Gate(), []

    async def load() -> AsyncEngine:
        return await AsyncEngine.load(bundle, device=gate)

    async def begin(engine: AsyncEngine) -> None:
        gate.close()  # no piece comes before this event loop has gone
        left.append(await engine.submit(TEXT, **LONG))
        await asyncio.to_thread(gate.wait)

    async def after(engine: AsyncEngine) -> dict[str, int]:
        gate.open()
        async with asyncio.timeout(PATIENCE):
            while engine.metrics()["num_requests_running"]:
                await asyncio.sleep(0.01)
        counts: dict[str, int] = engine.metrics()["request_success_total"]
        return counts

    engine = asyncio.run(load())
    asyncio.run(begin(engine))
    counts = asyncio.run(after(engine))
    assert (counts["cancelled"], counts["length"]) == (1, 0)
    asyncio.run(engine.close())


def test_a_dropped_engine_ends_its_thread(bundle: Path) -> None:
    before = engine_threads()

    async def scenario() -> None:
        engine = await AsyncEngine.load(bundle)
        await engine.generate(TEXT, max_tokens=2)

    asyncio.run(scenario())
    gc.collect()
    assert engine_threads() <= before
