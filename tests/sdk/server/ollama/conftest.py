"""A server of tiny models, and Ollama's own client that asks it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from ollama import Client as OllamaClient

from edgewise import AsyncEngine
from edgewise.hosting.base import Ask, Event
from edgewise.hosting.local import LocalModel
from edgewise.server.app import make_app
from edgewise.server.run import in_background, listen
from tests.sdk.other_texts import with_texts
from tests.sdk.server.client import Client
from tests.sdk.server.models import Some
from tests.sdk.test_constrained import TEMPLATE

MODEL, CALLER, PLAIN = "tiny", "caller:latest", "plain"


class Insisting(LocalModel):
    """A model that has to call tools where there are any: left alone, this one never would."""

    async def ask(self, ask: Ask) -> AsyncGenerator[Event, None]:
        given = {**ask.options, "tool_choice": "required"} if ask.tools else ask.options
        async for event in super().ask(replace(ask, options=given)):
            yield event


@dataclass(frozen=True)
class Served:
    """A server of models that write nonsense: one that thinks and knows of tools, the same that
    calls them, and one without a chat template."""

    url: str
    models: Some
    client: OllamaClient

    @property
    def http(self) -> Client:
        return Client(self.url)


@pytest.fixture(scope="session")
def thinking(bundles: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ollama") / MODEL
    texts = {"chat_template.jinja": TEMPLATE, "generation_config.json": '{"temperature": 0.7}'}
    return with_texts(bundles("llama-gqa2-tied-linear"), folder, texts)


@pytest.fixture(scope="session")
def served(bundles: Callable[..., Path], thinking: Path) -> Iterator[Served]:
    tiny = asyncio.run(AsyncEngine.load(thinking))
    plain = asyncio.run(AsyncEngine.load(bundles("llama-mha")))
    hosted = [LocalModel(MODEL, tiny), Insisting(CALLER, tiny), LocalModel(PLAIN, plain)]
    models = Some({one.facts.name: one for one in hosted})
    app = make_app({}, {}, models=models)
    with (
        listen("127.0.0.1", 0) as listening,
        in_background(app, listening) as url,
        OllamaClient(url) as client,
    ):
        yield Served(url, models, client)
    asyncio.run(models.close())
