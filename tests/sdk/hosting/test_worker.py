"""A model in a child process: answers as in this one, and what becomes of them when it ends."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from edgewise import AsyncEngine
from edgewise.hosting.base import Ask, Ended, Event, Said
from edgewise.hosting.loading import Loading
from edgewise.hosting.local import LocalModel
from edgewise.hosting.process import Limits
from edgewise.hosting.worker import Worker
from edgewise_runtime.errors import EngineError, InputError
from tests.processes import children, eventually, running
from tests.sdk.hosting.asking import ADD, LONG, MESSAGES, TEXT, ended, events, run, used

CHILD = "edgewise.hosting.child"
LONG_CONTEXT = 4096
LONGEST_CONTEXT = 131072
LONGEST = {**LONG, "max_tokens": 130000}
"""Not at its end before who asked has been scheduled again, on a busy machine too: 4,000 tokens are
through in 0.9 s."""
ALL_UNREAD = Limits(unread=LONGEST["max_tokens"] + 1)
"""Nor dropped before, because whoever asked has not read enough of it meanwhile."""
NOTHING_KEPT = {"prefix_device": 0, "prefix_memory": 0}
ENDLESS: dict[str, Any] = {
    "limits": ALL_UNREAD,
    "context": LONGEST_CONTEXT,
    "settings": NOTHING_KEPT,
}
"""What a worker of ``long_bundle`` has, so that `LONGEST` may be asked of it."""
WRONG = [
    (Ask(prompt=TEXT, options={"temperature": -1}), "input.sampling"),
    (Ask(prompt=TEXT, options={"heat": 1}), "input.option"),
    (Ask(prompt=TEXT, options=[1]), "input.option"),  # type: ignore[arg-type]
    (Ask(messages=[1]), "input.messages"),  # type: ignore[list-item]
    (Ask(messages=MESSAGES, variables=[1]), "input.option"),  # type: ignore[arg-type]
    (Ask(messages=MESSAGES, tools=7), "input.tools"),  # type: ignore[arg-type]
    (Ask(prompt=TEXT, options={"stop": {1, 2}}), "input.json"),
    (Ask(messages=[{"role": "user", "content": "," * (2 << 20)}]), "input.size"),
]


def loading(bundle: Path, **options: Any) -> Loading:
    return Loading(name="tiny", bundle=str(bundle), **options)


@asynccontextmanager
async def worker(
    bundle: Path, limits: Limits | None = None, **options: Any
) -> AsyncIterator[Worker]:
    model = await Worker.load(loading(bundle, **options), limits)
    try:
        yield model
    finally:
        await model.close()


def unlike(one: Event) -> Event:
    """The same without what differs from time to time."""
    if isinstance(one, Said):
        return one
    values = {name: getattr(one, name) for name in Ended.__dataclass_fields__}
    return Ended(**{**values, "timings": {}, "usage": None})


def test_it_answers_as_a_model_in_this_process_does(calling: Path) -> None:
    options = {"max_tokens": 9, "seed": 4, "ignore_eos": True, "temperature": 0}
    asked = [
        Ask(prompt=TEXT, options={**options, "n": 2}),
        Ask(prompt=[5, 6, 7], options={**options, "logprobs": True, "top_logprobs": 2}),
        Ask(messages=MESSAGES, tools=[ADD], options={**options, "logit_bias": {9: 100.0}}),
        Ask(messages=MESSAGES, variables={"enable_thinking": True}, options=options),
    ]

    async def scenario() -> None:
        here = LocalModel("tiny", await AsyncEngine.load(calling))
        async with worker(calling) as there:
            assert there.facts == here.facts
            for ask in asked:
                found, wanted = await events(there, ask), await events(here, ask)
                assert list(map(unlike, ended(found))) == list(map(unlike, ended(wanted)))
                assert await there.count(ask) == await here.count(ask)
            assert await there.render(asked[2]) == await here.render(asked[2])
            for special in (True, False):
                ids = await here.tokenize(TEXT, special=special)
                assert await there.tokenize(TEXT, special=special) == ids
            assert await there.detokenize(ids) == TEXT
            assert (await there.metrics()).keys() == (await here.metrics()).keys()
        await here.close()

    run(scenario())


@pytest.mark.landing
def test_requests_of_one_child_run_beside_each_other(long_bundle: Path) -> None:
    async def scenario() -> None:
        async with (
            worker(long_bundle, **ENDLESS) as model,
            aclosing(model.ask(Ask(prompt=TEXT, options=LONGEST))) as a,
        ):
            await anext(a)
            async with aclosing(model.ask(Ask(prompt="1", options=LONGEST))) as b:
                order = [await anext(stream) for stream in (a, b, a, b, a, b)]
                assert all(isinstance(event, Said) for event in order)
                metrics = await model.metrics()
                assert metrics["num_requests_running"] == 2
            (other,) = ended(await events(model, Ask(prompt="2", options={"max_tokens": 3})))
            assert other.usage.completion_tokens == 3
            whole = (events(model, Ask(prompt=text, options=LONG)) for text in (TEXT, "3"))
            for found in await asyncio.gather(*whole):
                assert ended(found)[0].usage.completion_tokens == LONG["max_tokens"]
            assert isinstance(await anext(a), Said)

    run(scenario())


@pytest.mark.landing
def test_a_killed_child_ends_its_requests_and_the_next_one_has_another(long_bundle: Path) -> None:
    async def scenario() -> None:
        async with worker(long_bundle, **ENDLESS) as model:
            first = model.process
            streams = [model.ask(Ask(prompt=TEXT, options=LONGEST)) for _ in range(3)]
            for stream in streams:
                await anext(stream)
            os.kill(first, signal.SIGKILL)
            for stream in streams:
                with pytest.raises(EngineError) as caught:
                    async for _ in stream:
                        pass
                assert caught.value.code == "engine.gone"
                assert "SIGKILL" in caught.value.message
            assert model.process == 0
            with pytest.raises(EngineError, match="SIGKILL"):
                await model.metrics()
            asked = (events(model, Ask(prompt=TEXT, options={"max_tokens": 2})) for _ in range(2))
            for found in await asyncio.gather(*asked):
                assert ended(found)[0].finish_reason == "length"
            assert model.process not in (0, first)
            assert children(CHILD) == [model.process]

    run(scenario())


@pytest.mark.landing
def test_closing_the_generator_frees_what_the_request_had(long_bundle: Path) -> None:
    async def scenario() -> None:
        async with worker(long_bundle, **ENDLESS) as model:
            before = await used(model)
            async with aclosing(model.ask(Ask(prompt=TEXT, options=LONGEST))) as stream:
                await anext(stream)
                # A step's first token may be here before the step is counted.
                while (await model.metrics())["kv_pages_used"] <= before:
                    await asyncio.sleep(0.01)
            assert await used(model) == before
            metrics = await model.metrics()
            assert metrics["num_requests_running"] == 0
            assert metrics["request_success_total"]["cancelled"] == 1

    run(scenario())


@pytest.mark.landing
def test_a_cancelled_task_cancels_its_request(long_bundle: Path) -> None:
    async def scenario() -> None:
        async with worker(long_bundle, **ENDLESS) as model:
            begun = asyncio.Event()

            async def read() -> None:
                async for _ in model.ask(Ask(prompt=TEXT, options=LONGEST)):
                    begun.set()
                    await asyncio.Event().wait()

            task = asyncio.create_task(read())
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await used(model)
            assert (await model.metrics())["request_success_total"]["cancelled"] == 1

    run(scenario())


def test_who_does_not_read_holds_up_nobody(bundle: Path) -> None:
    async def scenario() -> None:
        async with worker(bundle, Limits(unread=16), settings=NOTHING_KEPT) as model:
            stalled = model.ask(Ask(prompt=TEXT, options=LONG))
            await anext(stalled)
            for _ in range(2):
                (one,) = ended(await events(model, Ask(prompt=TEXT, options=LONG)))
                assert one.usage.completion_tokens == LONG["max_tokens"]
            with pytest.raises(EngineError) as caught:
                await anext(stalled)
            assert caught.value.code == "engine.unread"
            assert await used(model) == 0

    run(scenario())


def test_what_is_wrong_is_refused_as_the_same_error(bundle: Path) -> None:
    async def scenario() -> None:
        async with worker(bundle) as model:
            for ask, code in WRONG:
                with pytest.raises(InputError) as caught:
                    await events(model, ask)
                assert caught.value.code == code

    run(scenario())


def test_what_cannot_be_loaded_leaves_no_child(bundle: Path, tmp_path: Path) -> None:
    async def scenario() -> None:
        for wrong, code in (
            (loading(tmp_path / "none"), "input.model"),
            (loading(bundle, settings={"speed": 1}), "input.option"),
            (loading(bundle, context=1), "input.context"),
        ):
            with pytest.raises(InputError) as caught:
                await Worker.load(wrong)
            assert caught.value.code == code
        assert children(CHILD) == []

    run(scenario())


def test_a_child_that_takes_too_much_memory_is_ended_and_the_error_says_so(bundle: Path) -> None:
    async def scenario() -> None:
        with pytest.raises(EngineError) as caught:
            await Worker.load(loading(bundle), Limits(memory_bytes=8 << 20))
        assert caught.value.code == "engine.gone"
        assert "of memory and may have 8 MiB" in caught.value.message
        assert children(CHILD) == []

    run(scenario())


@pytest.mark.landing
def test_a_child_has_no_more_pages_than_its_limit_has_room_for(long_bundle: Path) -> None:
    limit = 64 << 20

    async def pages(limits: Limits | None, prompts: int) -> tuple[int, int]:
        """How many there are, and bytes of those that are kept once prompts have filled them."""
        async with worker(long_bundle, limits, context=LONG_CONTEXT) as model:
            for number in range(prompts):
                prompt = [5 + number, *(6 + place % 50 for place in range(LONG_CONTEXT - 3))]
                assert ended(await events(model, Ask(prompt=prompt, options={"max_tokens": 2})))
            metrics = await model.metrics()
            return metrics["kv_pages"], metrics["prefix_cache_bytes"]

    async def scenario() -> None:
        few, kept = await pages(Limits(memory_bytes=limit), 8)
        assert 0 < kept < limit // 2
        many, _ = await pages(None, 1)
        assert few < many

    run(scenario())


@pytest.mark.landing
def test_ctrl_c_is_for_the_parent_and_sigterm_for_the_child(long_bundle: Path) -> None:
    async def scenario() -> None:
        async with worker(long_bundle, **ENDLESS) as model:
            first = model.process
            os.kill(first, signal.SIGINT)
            assert ended(await events(model, Ask(prompt="1", options={"max_tokens": 1})))
            assert model.process == first
            stream = model.ask(Ask(prompt=TEXT, options=LONGEST))
            await anext(stream)
            os.kill(first, signal.SIGTERM)
            with pytest.raises(EngineError) as caught:
                async for _ in stream:
                    pass
            assert caught.value.code == "engine.gone"
            assert not running(first)

    run(scenario())


@pytest.mark.landing
def test_no_child_is_left_after_closing(long_bundle: Path) -> None:
    async def scenario() -> None:
        async with worker(long_bundle, **ENDLESS) as model:
            first = model.process
            stream = model.ask(Ask(prompt=TEXT, options=LONGEST))
            await anext(stream)
        assert not running(first)
        with pytest.raises(EngineError) as caught:
            async for _ in stream:
                pass
        assert caught.value.code == "engine.gone"
        with pytest.raises(EngineError, match="closed"):
            await model.count(Ask(prompt=TEXT))
        await model.close()

    run(scenario())


PARENT = """
import asyncio, sys
from edgewise.hosting.loading import Loading
from edgewise.hosting.worker import Worker
from edgewise.hosting.base import Ask

async def main():
    model = await Worker.load(Loading(name="tiny", bundle=sys.argv[1]))
    async for _ in model.ask(Ask(prompt="1", options={"max_tokens": 250, "ignore_eos": True})):
        print(model.process, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


def test_no_child_is_left_after_its_parent_was_killed(bundle: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(bundle)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert running(child)
        parent.kill()
    assert eventually(lambda: not running(child))


@pytest.mark.quick(cases=1)
@pytest.mark.parametrize("sent", [b"\xff\xff\xff\xff", b"\0\0\0\x02[]", b"\0\0\0\x01{", b""])
def test_a_child_leaves_where_what_it_hears_is_no_request(sent: bytes) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        child = subprocess.Popen(
            [sys.executable, "-m", CHILD, str(theirs.fileno()), str(os.getpid())],
            pass_fds=(theirs.fileno(),),
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        theirs.close()
        ours.sendall(sent)
        if not sent:
            ours.close()
        assert child.wait(60) == (1 if sent else 0)
