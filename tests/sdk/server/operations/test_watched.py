"""What models answer is noted, and what agents change in their prompts is made to stay."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
from collections.abc import Callable, Coroutine
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from edgewise import AsyncEngine
from edgewise.hosting.base import Ask, Ended, Hosted, Models
from edgewise.hosting.loading import Loading
from edgewise.hosting.local import LocalModel
from edgewise.hosting.process import Limits
from edgewise.hosting.worker import Worker
from edgewise.server.operations import metrics
from edgewise.server.operations.entry import CURRENT, LEFT, Entry
from edgewise.server.operations.exposition import text_of
from edgewise.server.operations.logs import Log
from edgewise.server.operations.metrics import of_models, snapshots
from edgewise.server.operations.operations import Operations
from edgewise_runtime.errors import BundleError, EngineError, InputError
from tests.sdk.server.models import Some
from tests.sdk.server.operations.prometheus import read

CANARY = "canary-51c7"
HEADER = "x-anthropic-billing-header: cc_version=2.1.101.e51; cc_entrypoint=cli; cch={};\n"
REST = "You are an agent that reads files, writes files and says what it did."

UNREAD = Limits(unread=16384)
"""More than an answer has: none is dropped because whoever asked reads slowly."""

Scenario = Callable[[Models, Operations], Coroutine[Any, Any, None]]
Play = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def play(bundle: Path) -> Play:
    """``play(scenario, **operations)``: with a model ``tiny``; gives the lines of the log."""

    def run(scenario: Scenario, **options: Any) -> list[dict[str, Any]]:
        lines = io.StringIO()
        operations = Operations(log=Log("json", lines), **options)

        async def loaded() -> None:
            models = Some({"tiny": LocalModel("tiny", await AsyncEngine.load(bundle))})
            try:
                await asyncio.wait_for(scenario(operations.watch(models), operations), 60)
            finally:
                await models.close()

        asyncio.run(loaded())
        return [json.loads(line) for line in lines.getvalue().splitlines()]

    return run


@contextmanager
def request(socket: bool = False) -> Any:
    """A request whose answer the block is."""
    entry = Entry("req_1", "WS" if socket else "POST", socket=socket, route="/v1/x")
    token = CURRENT.set(entry)
    try:
        yield entry
    finally:
        CURRENT.reset(token)


def chat(cch: str = "a5145", **options: Any) -> Ask:
    messages = [
        {"role": "system", "content": HEADER.format(cch) + REST},
        {"role": "user", "content": CANARY},
    ]
    return Ask(messages=messages, options={"max_tokens": 4, "ignore_eos": True, **options})


async def answered(hosted: Hosted, ask: Ask) -> list[Ended]:
    return [event async for event in hosted.ask(ask) if isinstance(event, Ended)]


def test_tokens_and_why_it_ended_are_noted_and_nothing_that_was_said(play: Play) -> None:
    entries: list[Entry] = []

    async def scenario(models: Models, _: Operations) -> None:
        with request() as entry:
            (choice,) = await answered(await models.get("tiny"), chat())
            entries.append(entry)
            assert entry.prompt_tokens == choice.usage.prompt_tokens
            assert choice.text not in json.dumps(entry.to_json())

    assert play(scenario) == []  # the line is of who set the entry
    said = entries[0].to_json()
    assert said["model"] == "tiny"
    assert said["completion_tokens"] == 4
    assert said["ended"] == "length"
    assert 0 < said["ttft_s"] <= said["duration_s"]
    assert said["agent_lines"] == "claude-code"
    assert CANARY not in json.dumps(said)


def test_texts_that_are_embedded_count_their_tokens(play: Play) -> None:
    async def scenario(models: Models, operations: Operations) -> None:
        hosted = await models.get("tiny")
        with request() as entry:
            found = await hosted.embed([CANARY, "other"], pooling="mean", normalize=False)
        assert entry.prompt_tokens == sum(one.tokens for one in found) > 0
        assert list(entry.ended) == ["embedded"]
        assert CANARY not in json.dumps(entry.to_json())
        with request() as entry, pytest.raises(InputError):
            await hosted.embed([""])
        assert list(entry.ended) == ["input.empty"]
        with request() as entry:
            task = asyncio.create_task(hosted.embed([REST] * 400))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert list(entry.ended) == [LEFT]
        assert operations.counts.streams == 0

    play(scenario)


def test_choices_count_their_tokens_and_their_prompt_once(play: Play) -> None:
    async def scenario(models: Models, _: Operations) -> None:
        with request() as entry:
            choices = await answered(await models.get("tiny"), chat(n=2))
            assert len(choices) == 2
            assert entry.prompt_tokens == choices[0].usage.prompt_tokens
            assert entry.completion_tokens == 8

    play(scenario)


def test_prompts_of_an_agent_are_found_again_although_a_line_changed(play: Play) -> None:
    async def scenario(models: Models, operations: Operations) -> None:
        hosted = await models.get("tiny")
        asks = chat("a5145"), chat("0fae1")
        with request():
            (_,), (again,) = [await answered(hosted, ask) for ask in asks]
        assert again.usage.cached_tokens >= again.usage.prompt_tokens - 32
        assert operations.counts.steadied == {"claude-code": 2}
        assert await hosted.render(asks[0]) == await hosted.render(asks[1])
        assert await hosted.count(asks[0]) == again.usage.prompt_tokens

    play(scenario)


def test_lines_of_agents_are_kept_where_that_was_asked_for(play: Play) -> None:
    async def scenario(models: Models, operations: Operations) -> None:
        hosted = await models.get("tiny")
        assert "cch=a5145;" in await hosted.render(chat("a5145"))
        assert not operations.counts.steadied

    play(scenario, keep_agent_lines=True)


def test_whoever_closes_a_stream_has_left(play: Play) -> None:
    async def scenario(models: Models, operations: Operations) -> None:
        with request() as entry:
            hosted = await models.get("tiny")
            async with aclosing(hosted.ask(chat(max_tokens=100))) as events:
                await anext(events)
                assert operations.counts.streams == 1
                operations.drain.begin()
                assert not operations.drain.over
        assert operations.drain.over
        assert operations.counts.streams == 0
        assert list(entry.ended) == ["left"]

    play(scenario)


def test_whoever_closes_an_answer_that_is_whole_has_not_left(play: Play) -> None:
    async def scenario(models: Models, _: Operations) -> None:
        with request() as entry:
            hosted = await models.get("tiny")
            async with aclosing(hosted.ask(chat())) as events:
                async for event in events:
                    if isinstance(event, Ended):
                        break
        assert list(entry.ended) == ["length"]

    play(scenario)


def test_a_refusal_of_the_engine_is_noted_by_its_code(play: Play) -> None:
    async def scenario(models: Models, _: Operations) -> None:
        with request() as entry:
            hosted = await models.get("tiny")
            with pytest.raises(InputError):
                await answered(hosted, chat(temperature=-1))
        (code,) = entry.ended
        assert code.startswith("input.")
        assert CANARY not in json.dumps(entry.to_json())

    play(scenario)


def test_requests_over_a_websocket_have_lines_of_their_own(play: Play) -> None:
    async def scenario(models: Models, operations: Operations) -> None:
        with request(socket=True) as entry:
            hosted = await models.get("tiny")
            for _ in range(2):
                await answered(hosted, chat())
            assert "model" not in entry.to_json()
            operations.drain.begin()
            with pytest.raises(EngineError) as error:
                await models.get("tiny")
            assert error.value.code == "engine.draining"

    lines = play(scenario)
    assert [(line["route"], line["ended"]) for line in lines] == [("/v1/x", "length")] * 2
    assert [line["completion_tokens"] for line in lines] == [4, 4]


def test_requests_that_began_before_the_end_still_get_their_model(play: Play) -> None:
    async def scenario(models: Models, operations: Operations) -> None:
        with request():
            operations.drain.begin()
            assert (await models.get("tiny")).facts.name == "tiny"

    play(scenario)


def test_a_model_that_does_not_load_makes_the_server_not_ready(play: Play) -> None:
    class Torn(Some):
        async def get(self, name: str, *, keep_alive_s: float | None = None) -> Hosted:
            raise BundleError("Torn.", code="bundle.checksum")

    async def scenario(models: Models, operations: Operations) -> None:
        with pytest.raises(BundleError):
            await operations.watch(Torn({})).get("tiny")
        assert operations.readiness.why_not(models) == ["cannot load: bundle.checksum"]
        await models.get("tiny")
        assert operations.readiness.why_not(models) == []

    play(scenario, wanted=["tiny"])


def test_the_numbers_of_a_model_that_was_closed_do_not_fail_the_page(play: Play) -> None:
    async def scenario(models: Models, _: Operations) -> None:
        await answered(await models.get("tiny"), chat())
        (hosted,) = [loaded.hosted for loaded in models.loaded()]
        page = text_of(of_models(await snapshots([hosted])))
        assert read(page)["vllm:generation_tokens_total"].of(model_name="tiny") == [4]
        await models.close()
        read(text_of(of_models(await snapshots([hosted]))))

    play(scenario)


def test_a_model_whose_process_died_does_not_fail_the_page(long_bundle: Path) -> None:
    async def scenario() -> None:
        log = io.StringIO()
        operations = Operations(log=Log("json", log), wanted=["tiny"])
        # Room for an answer that is far from its end whenever its process is killed.
        loading = Loading(name="tiny", bundle=str(long_bundle), context=16384)
        worker = await Worker.load(loading, limits=UNREAD)
        try:
            models = operations.watch(Some({"tiny": worker}))
            hosted = await models.get("tiny")
            with request(socket=True):
                async with aclosing(hosted.ask(chat(max_tokens=16000))) as events:
                    await anext(events)
                    os.kill(worker.process, signal.SIGKILL)
                    with pytest.raises(EngineError) as error:
                        [event async for event in events]
            assert error.value.code == "engine.gone"
            assert await snapshots([hosted]) == {"tiny": None}
            await answered(hosted, chat())  # another process answers
            said = await snapshots([hosted])
            assert read(text_of(of_models(said)))["edgewise:steps_total"].of(model_name="tiny")
        finally:
            await worker.close()
        assert [json.loads(line)["ended"] for line in log.getvalue().splitlines()] == [
            "engine.gone",
            "length",
        ]

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_a_model_that_does_not_say_its_numbers_in_time_is_left_out(
    bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Hanging(LocalModel):
        async def metrics(self) -> Any:
            await asyncio.Event().wait()

    async def scenario() -> None:
        async with await AsyncEngine.load(bundle) as engine:
            there, hanging = LocalModel("there", engine), Hanging("hanging", engine)
            said = await snapshots([there, hanging])
        assert said["there"] is not None
        assert said["hanging"] is None

    monkeypatch.setattr(metrics, "PATIENCE", 0.2)
    asyncio.run(scenario())
