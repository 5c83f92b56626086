"""Vectors through a model's process: the same as in this one, beside what else it answers."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path

import numpy as np
import pytest

from edgewise import AsyncEngine
from edgewise.hosting.base import Ask, Embedded, Ended, Hosted, Said
from edgewise.hosting.local import LocalModel
from edgewise_runtime.errors import EngineError, InputError
from tests.sdk.hosting.asking import LONG, TEXT, ended, events, run, used
from tests.sdk.hosting.test_worker import worker

TEXTS = [TEXT, "A model", [5, 6, 7], TEXT * 12, "1"]


def test_vectors_of_a_child_are_those_of_this_process(bundle: Path) -> None:
    async def scenario() -> None:
        engine = await AsyncEngine.load(bundle)
        here = LocalModel("tiny", engine)
        async with worker(bundle) as there:
            assert there.facts == here.facts
            for options in ({}, {"pooling": "mean"}, {"normalize": False}):
                found = await there.embed(TEXTS, **options)  # type: ignore[arg-type]
                assert found == await here.embed(TEXTS, **options)  # type: ignore[arg-type]
            expected = await engine.embed([TEXT, "A model"])
            vectors = await there.embed([TEXT, "A model"])
            np.testing.assert_array_equal(
                [np.frombuffer(one.data, "<f4") for one in vectors], expected
            )
            assert [one.tokens for one in vectors] == [
                len(engine.tokenizer.encode(text)) for text in (TEXT, "A model")
            ]
            assert await there.embed([]) == []
        await here.close()

    run(scenario())


def test_a_stream_goes_on_while_many_texts_are_embedded(bundle: Path) -> None:
    async def scenario() -> None:
        async with worker(bundle) as model:
            options = {**LONG, "seed": 3}
            [expected] = ended(await events(model, Ask(prompt=TEXT, options=options)))
            async with aclosing(model.ask(Ask(prompt=TEXT, options=options))) as stream:
                await anext(stream)
                embedding = asyncio.create_task(model.embed([TEXT * 12] * 60))
                beside = 0
                async for event in stream:
                    beside += isinstance(event, Said) and not embedding.done()
                    if isinstance(event, Ended):
                        assert event.token_ids == expected.token_ids
            assert beside > 5
            assert len(set(await embedding)) == 1
            assert await used(model) == 0

    run(scenario())


@pytest.mark.parametrize("begun", [False, True])
def test_a_cancelled_task_leaves_nothing_to_compute(bundle: Path, begun: bool) -> None:
    texts = [f"{nth} {TEXT * 12}" for nth in range(500)]  # no text has a beginning of another's

    async def scenario() -> None:
        async with worker(bundle) as model:
            each = len(await model.tokenize(texts[0], special=True))
            task = asyncio.create_task(model.embed(texts))
            while begun and not await computed(model):
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            # It is halted between two steps of the child's.
            while await used(model) or (await model.metrics())["num_requests_waiting"]:
                await asyncio.sleep(0.01)
            assert await computed(model) < len(texts) // 2 * each

    async def computed(model: Hosted) -> float:
        tokens = (await model.metrics())["prefill_tokens_total"]
        assert isinstance(tokens, int)
        return tokens

    run(scenario())


def test_what_is_wrong_is_raised_here_as_it_was_there(bundle: Path) -> None:
    async def refused(model: Hosted, **options: object) -> str:
        with pytest.raises(InputError) as caught:
            await model.embed(**options)  # type: ignore[arg-type]
        return caught.value.code

    async def scenario() -> None:
        async with worker(bundle) as model:
            assert await refused(model, texts=[TEXT, ""]) == "input.empty"
            assert await refused(model, texts=[TEXT * 500]) == "input.context"
            assert await refused(model, texts=[[1 << 20]]) == "input.token"
            assert await refused(model, texts=[{"a": 1}]) == "input.prompt"
            assert await refused(model, texts=["a"], pooling=[]) == "input.pooling"
            assert await refused(model, texts=["," * (40 << 20)] * 2) == "input.size"
            [cut] = await model.embed([TEXT * 500], truncate=True)
            assert isinstance(cut, Embedded)
            assert cut.tokens == model.facts.context
        with pytest.raises(EngineError) as caught:
            await model.embed([TEXT])
        assert caught.value.code == "engine.closed"

    run(scenario())
