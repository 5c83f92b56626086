"""A server of a tiny model, and the official client that asks it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from anthropic import Anthropic, AsyncAnthropic

from edgewise import AsyncEngine, Engine
from edgewise.hosting.local import LocalModel
from edgewise.server.app import make_app
from edgewise.server.run import in_background, listen
from tests.sdk.other_texts import with_texts
from tests.sdk.server.client import Client
from tests.sdk.server.models import Some
from tests.sdk.test_constrained import TEMPLATE

MODEL = "tiny"
KEY = "sk-edgewise-0123456789"
QUESTION: list[Any] = [{"role": "user", "content": "1 + 2?"}]
FORECAST: dict[str, Any] = {
    "name": "forecast",
    "description": "Tell the weather.",
    "input_schema": {
        "type": "object",
        "properties": {"sky": {"type": "string", "enum": ["clear", "bewölkt"]}},
        "required": ["sky"],
        "additionalProperties": False,
    },
}


@dataclass(frozen=True)
class Served:
    """A server of a model that writes nonsense, knows tools and may think.

    Attributes:
        bundle: of the model, for an engine to compare with.
    """

    url: str
    bundle: Path
    engine: AsyncEngine

    @asynccontextmanager
    async def asynchronous(self) -> AsyncIterator[AsyncAnthropic]:
        async with AsyncAnthropic(base_url=self.url, api_key=KEY, max_retries=0) as client:
            yield client


@pytest.fixture(scope="session")
def served(long_bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("anthropic") / MODEL
    bundle = with_texts(long_bundle, folder, {"chat_template.jinja": TEMPLATE})
    engine = asyncio.run(AsyncEngine.load(bundle, context=4096))
    app = make_app({}, {}, models=Some({MODEL: LocalModel(MODEL, engine)}), api_key=KEY)
    with listen("127.0.0.1", 0) as listening, in_background(app, listening) as url:
        yield Served(url, bundle, engine)
    asyncio.run(engine.close())


@pytest.fixture(scope="session")
def client(served: Served) -> Iterator[Anthropic]:
    with Anthropic(base_url=served.url, api_key=KEY, max_retries=0) as client:
        yield client


@pytest.fixture(scope="session")
def raw(served: Served) -> Client:
    """For what the official client does not send."""
    return Client(served.url)


@pytest.fixture(scope="session")
def engine(served: Served) -> Iterator[Engine]:
    """The same model, asked directly."""
    with Engine(served.bundle, context=4096) as engine:
        yield engine
