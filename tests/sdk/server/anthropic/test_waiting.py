"""A prompt that takes long: what its stream says meanwhile."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import pytest
from starlette.applications import Starlette
from starlette.routing import Route

from edgewise import AsyncEngine
from edgewise.hosting.local import LocalModel
from edgewise.server.anthropic.failing import failed
from edgewise.server.anthropic.messages import MessagesApi
from edgewise.server.failing import answering
from edgewise.server.run import in_background, listen
from tests.sdk.gate import PATIENCE, Gate
from tests.sdk.server.anthropic.conftest import MODEL, QUESTION, Served
from tests.sdk.server.client import Client
from tests.sdk.server.models import Some

PING_S = 0.01
STREAM: dict[str, Any] = {"model": MODEL, "messages": QUESTION, "max_tokens": 2, "stream": True}


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def slow(served: Served, gate: Gate) -> Iterator[Client]:
    """A server whose model stands still while the gate is closed, and that is soon impatient."""
    model = LocalModel(MODEL, asyncio.run(AsyncEngine.load(served.bundle, device=gate)))
    api = MessagesApi(Some({MODEL: model}), PING_S)
    app = Starlette(routes=[Route("/v1/messages", answering(api.create, failed), methods=["POST"])])
    with listen("127.0.0.1", 0) as listening, in_background(app, listening) as url:
        yield Client(url)
    gate.open()
    asyncio.run(model.close())


def events(url: str) -> Iterator[str]:
    """The types of the events of a stream, as they come."""
    address = urlsplit(url)
    connection = HTTPConnection(address.hostname or "", address.port, timeout=PATIENCE)
    try:
        body = json.dumps(STREAM)
        connection.request("POST", "/v1/messages", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        assert response.status == 200
        for line in response:
            if line.startswith(b"event: "):
                yield line.decode().split()[1]
    finally:
        connection.close()


def test_a_stream_that_has_nothing_to_tell_says_that_it_is_there(slow: Client, gate: Gate) -> None:
    gate.close()
    said = events(slow.url)
    assert [next(said) for _ in range(5)] == ["message_start", "ping", "ping", "ping", "ping"]
    gate.open()
    rest = [kind for kind in said if kind != "ping"]
    assert rest[-2:] == ["message_delta", "message_stop"]
    assert "message_start" not in rest


def test_what_fails_after_that_is_an_event(slow: Client, gate: Gate) -> None:
    gate.close()
    gate.fail(0, "device")
    said = events(slow.url)
    assert [next(said), next(said)] == ["message_start", "ping"]
    gate.open()
    assert [kind for kind in said if kind != "ping"] == ["error"]


def test_what_fails_at_once_is_a_status(slow: Client, gate: Gate) -> None:
    answer = slow.post("/v1/messages", {**STREAM, "temperature": 101})
    assert answer.status == 400
    assert json.loads(answer.body)["type"] == "error"
