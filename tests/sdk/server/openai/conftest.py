"""A server of tiny models, and the official client that asks it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from openai import AsyncOpenAI, OpenAI

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


@dataclass(frozen=True)
class Served:
    """A server of a model that writes nonsense, knows tools and may think.

    Attributes:
        bundle: of the model, for an engine to compare with.
    """

    url: str
    bundle: Path
    engine: AsyncEngine

    @property
    def base_url(self) -> str:
        return f"{self.url}v1"

    @asynccontextmanager
    async def asynchronous(self) -> AsyncIterator[AsyncOpenAI]:
        async with AsyncOpenAI(base_url=self.base_url, api_key=KEY, max_retries=0) as client:
            yield client


@pytest.fixture(scope="session")
def served(
    bundles: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("openai") / MODEL
    texts = {
        "chat_template.jinja": TEMPLATE,
        "vectors.json": json.dumps({"prompts": {"query": "Find: ", "document": ""}}),
    }
    bundle = with_texts(bundles("llama-gqa2-tied-linear"), folder, texts)
    engine = asyncio.run(AsyncEngine.load(bundle))
    app = make_app({}, {}, models=Some({MODEL: LocalModel(MODEL, engine)}), api_key=KEY)
    with listen("127.0.0.1", 0) as listening, in_background(app, listening) as url:
        yield Served(url, bundle, engine)
    asyncio.run(engine.close())


@pytest.fixture(scope="session")
def client(served: Served) -> Iterator[OpenAI]:
    with OpenAI(base_url=served.base_url, api_key=KEY, max_retries=0) as client:
        yield client


@pytest.fixture(scope="session")
def raw(served: Served) -> Client:
    """For what the official client does not send."""
    return Client(served.url)


@pytest.fixture(scope="session")
def engine(served: Served) -> Iterator[Engine]:
    """The same model, asked directly."""
    with Engine(served.bundle) as engine:
        yield engine
