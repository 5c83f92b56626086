"""Answers that end otherwise: the client leaves, or the device fails."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from threading import Event

import pytest
from ollama import Client as OllamaClient
from ollama import ResponseError

from edgewise import AsyncEngine
from edgewise.deltas import Content
from edgewise.hosting.base import Ask, Said
from edgewise.hosting.base import Event as ModelEvent
from edgewise.hosting.local import LocalModel
from edgewise.server.app import make_app
from edgewise.server.run import in_background, listen
from edgewise_runtime.errors import EngineError
from tests.sdk.gate import PATIENCE, Gate
from tests.sdk.server.client import Client
from tests.sdk.server.models import Some

MODEL = "tiny"
MESSAGES = [{"role": "user", "content": "Hello"}]
LONG = {"num_predict": 100, "seed": 5, "temperature": 1.0}


class Watched(LocalModel):
    """A model that tells when nobody waits for an answer any more, and may end early.

    Attributes:
        lasts: characters after which an answer fails; None for never.
    """

    left = Event()
    lasts: int | None = None

    async def ask(self, ask: Ask) -> AsyncGenerator[ModelEvent, None]:
        self.left.clear()
        try:
            said = 0
            async for event in super().ask(ask):
                if self.lasts is not None and said >= self.lasts:
                    raise EngineError(
                        "The process has ended.", remedy="Ask again.", code="engine.gone"
                    )
                yield event
                if isinstance(event, Said):
                    said += sum(len(one.text) for one in event.deltas if isinstance(one, Content))
        finally:
            self.left.set()


@dataclass(frozen=True)
class Served:
    http: Client
    client: OllamaClient
    gate: Gate
    model: Watched


@pytest.fixture
def served(thinking: Path) -> Iterator[Served]:
    gate = Gate()
    model = Watched(MODEL, asyncio.run(AsyncEngine.load(thinking, device=gate)))
    app = make_app({}, {}, models=Some({MODEL: model}))
    with (
        listen("127.0.0.1", 0) as listening,
        in_background(app, listening) as url,
        OllamaClient(url) as client,
    ):
        yield Served(Client(url), client, gate, model)
    asyncio.run(model.close())


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", ["/api/chat", "/api/generate"])
def test_who_leaves_is_answered_no_further(served: Served, path: str, stream: bool) -> None:
    value = {
        "model": MODEL,
        "messages": MESSAGES,
        "prompt": "Hello",
        "options": LONG,
        "stream": stream,
    }
    body = json.dumps(value).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    served.gate.close()
    with closing(served.http.connect()) as connection:
        connection.sendall(head.encode() + body)
        served.gate.wait()
    assert served.model.left.wait(PATIENCE)
    served.gate.open()
    assert served.client.chat(MODEL, MESSAGES, options={"num_predict": 2}).eval_count == 2
    counts = asyncio.run(served.model.metrics())["request_success_total"]
    assert counts["cancelled"] == 1


def test_a_device_that_fails_at_once_is_a_status(served: Served) -> None:
    served.gate.fail(0, "device")
    with pytest.raises(ResponseError, match="The device has failed") as failed:
        list(served.client.chat(MODEL, MESSAGES, options=LONG, stream=True))
    assert failed.value.status_code == 500


def test_what_fails_later_is_said_by_the_last_line(served: Served) -> None:
    served.model.lasts = 3
    value = {"model": MODEL, "messages": MESSAGES, "options": LONG}
    answer = served.http.post("/api/chat", value)
    *before, last = [json.loads(line) for line in answer.text.splitlines()]
    assert answer.status == 200
    assert before
    assert all(not line["done"] for line in before)
    assert last == {"error": "The process has ended. Ask again.", "code": "engine.gone"}
    with pytest.raises(ResponseError, match="The process has ended"):
        list(served.client.generate(MODEL, "Hello", options=LONG, stream=True))
