"""A model that two processes of a cluster serve, asked by the official clients."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from anthropic import Anthropic
from openai import APIStatusError, OpenAI

import edgewise.ray
from edgewise import Engine
from edgewise.hosting.base import Ask, Ended, Hosted
from edgewise_runtime.errors import InputError
from edgewise_runtime.format.bundle import Bundle
from tests.processes import eventually
from tests.sdk.ray.conftest import KEY, MODEL
from tests.sdk.ray.counting import numbers
from tests.sdk.server.client import Client

QUESTION: list[Any] = [{"role": "user", "content": "1 + 2?"}]
HOT: dict[str, Any] = {"model": MODEL, "messages": QUESTION, "temperature": 1.0, "seed": 3}


@pytest.fixture(scope="module")
def openai(url: str) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0) as client:
        yield client


@pytest.fixture(scope="module")
def raw(url: str) -> Client:
    return Client(url)


@asynccontextmanager
async def asked_here(tiny: Path) -> AsyncIterator[Hosted]:
    """The model as a door of the cluster has it."""
    # Here: every process of the suite imports this file, and Ray takes seconds.
    from ray import serve

    from edgewise.ray.model import RayModel
    from edgewise.ray.replica import Way
    from edgewise.ray.serving import MODEL as DEPLOYMENT

    handle = serve.get_deployment_handle(DEPLOYMENT, MODEL)
    model = RayModel(await handle.facts.remote(Way()), Bundle.open(tiny), handle)
    try:
        yield model
    finally:
        await model.close()


def test_openais_client_gets_what_the_engine_says(openai: OpenAI, engine: Engine) -> None:
    done = openai.chat.completions.create(**HOT, max_tokens=24)
    said = engine.chat(QUESTION, temperature=1.0, seed=3, max_tokens=24)
    assert done.choices[0].message.content == said.text
    assert done.usage is not None
    assert done.usage.prompt_tokens == said.usage.prompt_tokens
    assert done.usage.completion_tokens == said.usage.completion_tokens


def test_openais_client_streams_the_same(openai: OpenAI, engine: Engine) -> None:
    # Long enough not to be all there before anybody asks what there is, whatever is drawn.
    said = engine.chat(QUESTION, temperature=1.0, seed=3, max_tokens=1500, ignore_eos=True)
    stream = openai.chat.completions.create(
        **HOT,
        max_tokens=1500,
        stream=True,
        stream_options={"include_usage": True},
        extra_body={"ignore_eos": True},
    )
    chunks = list(stream)
    text = [c.choices[0].delta.content or "" for c in chunks if c.choices]
    assert "".join(text) == said.text
    assert sum(map(bool, text)) > 1
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == said.usage.completion_tokens == 1500


@pytest.mark.parametrize("stream", [False, True])
def test_anthropics_client_gets_what_the_engine_says(
    url: str, engine: Engine, stream: bool
) -> None:
    said = engine.chat(QUESTION, temperature=0.0, max_tokens=24)
    asked: dict[str, Any] = {
        "model": MODEL,
        "messages": QUESTION,
        "max_tokens": 24,
        "extra_body": {"temperature": 0.0},
    }
    with Anthropic(base_url=url, api_key=KEY, max_retries=0) as client:
        if stream:
            with client.messages.stream(**asked) as events:
                message = events.get_final_message()
        else:
            message = client.messages.create(**asked)
    assert [block.text for block in message.content if block.type == "text"] == [said.text]
    assert message.usage.output_tokens == said.usage.completion_tokens


def test_texts_have_the_vectors_that_the_engine_gives(openai: OpenAI, engine: Engine) -> None:
    found = openai.embeddings.create(model=MODEL, input=["One.", "Two."])
    rows = [row.embedding for row in found.data]
    assert rows == [pytest.approx(row, abs=1e-6) for row in engine.embed(["One.", "Two."])]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": f"Bearer {KEY}", "Host": "elsewhere.example"}, 421),
        ({"Authorization": f"Bearer {KEY}", "Origin": "https://elsewhere.example"}, 403),
        ({"Authorization": f"Bearer {KEY}"}, 200),
    ],
)
def test_the_guard_of_the_server_stands_behind_rays_proxy(
    raw: Client, headers: dict[str, str], status: int
) -> None:
    assert raw.get("/v1/models", headers).status == status


def test_errors_are_said_in_the_words_of_the_api(openai: OpenAI) -> None:
    with pytest.raises(APIStatusError) as none:
        openai.chat.completions.create(**{**HOT, "model": "another"})
    assert (none.value.status_code, none.value.code) == (404, "model_not_found")
    with pytest.raises(APIStatusError) as long:
        openai.completions.create(model=MODEL, prompt=[5] * 5000, max_tokens=4)
    assert (long.value.status_code, long.value.code) == (400, "context_length_exceeded")


def test_numbers_are_those_of_all_replicas_together(
    url: str, openai: OpenAI, engine: Engine
) -> None:
    openai.completions.create(model=MODEL, prompt=[7] * 40, max_tokens=4)
    before = numbers(url)
    openai.completions.create(model=MODEL, prompt=[7] * 40, max_tokens=4)
    after = numbers(url)
    assert after["prompt_tokens_total"] == before["prompt_tokens_total"] + 40
    assert after["prefix_cache_hits_total"] == before["prefix_cache_hits_total"] + 39


def test_an_engine_stops_where_its_client_has_left(url: str, openai: OpenAI) -> None:
    before = numbers(url)["generation_tokens_total"]
    stream = openai.completions.create(
        model=MODEL, prompt=[9] * 8, max_tokens=4000, stream=True, extra_body={"ignore_eos": True}
    )
    next(iter(stream))
    stream.close()
    assert eventually(lambda: numbers(url)["num_requests_running"] == 0)
    assert numbers(url)["generation_tokens_total"] - before < 3000


def test_closing_an_answer_cancels_it_and_time_ends_one(url: str, tiny: Path) -> None:
    long = {"max_tokens": 4000, "ignore_eos": True}

    async def ask() -> None:
        async with asked_here(tiny) as model:
            async with aclosing(model.ask(Ask(prompt=[9] * 9, options=long))) as events:
                await anext(events)
            while numbers(url)["num_requests_running"]:
                await asyncio.sleep(0.05)
            late = Ask(prompt=[9] * 9, options={**long, "timeout_s": 0.05})
            [ended] = [one async for one in model.ask(late) if isinstance(one, Ended)]
            assert ended.finish_reason == "timeout"
            assert len(ended.token_ids) < 4000

    asyncio.run(asyncio.wait_for(ask(), 30))


def test_what_is_wrong_with_a_request_is_said_before_a_replica_is_asked(
    url: str, tiny: Path
) -> None:
    async def ask() -> None:
        async with asked_here(tiny) as model:
            with pytest.raises(InputError, match="temperature"):
                await anext(model.ask(Ask(prompt="Once", options={"temperature": -1})))

    asyncio.run(ask())


def test_tenants_do_not_find_each_others_prompts(url: str, tiny: Path) -> None:
    async def cached(model: Hosted, salt: str | None) -> int:
        options = {"max_tokens": 1, "cache_salt": salt}
        events = [e async for e in model.ask(Ask(prompt=[11] * 40, options=options))]
        [ended] = [one for one in events if isinstance(one, Ended)]
        return ended.usage.cached_tokens

    async def ask() -> None:
        async with asked_here(tiny) as model:
            found = [await cached(model, salt) for salt in ("us", "them", None, "us", "them")]
            assert found == [0, 0, 0, 39, 39]

    asyncio.run(ask())


def test_a_node_runs_what_the_deployment_vouches_for(url: str, tiny: Path) -> None:
    """Its user has another key: without digests it would have refused what answers here."""
    assert len(edgewise.ray.vouched(tiny)) == 1
    assert json.loads(Client(url).get("/ready").text)["status"] == "ready"
