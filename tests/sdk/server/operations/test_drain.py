"""A server that ends answers what it began, and tells others to come back."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys

import pytest
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from edgewise.server.operations.drain import DENIAL, Drain, Draining
from edgewise.server.operations.operations import Operations
from tests.processes import eventually
from tests.sdk.cli.commands import ROOT, environment
from tests.sdk.server.client import Answer, Client
from tests.sdk.server.operations.serving import Slow, apart, serving

PROGRAM = "tests.sdk.server.operations.drained_process"


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_it_is_over_once_nothing_is_open() -> None:
    drain = Drain(30)
    with drain:
        assert not drain.over
        drain.begin()
        assert drain.draining
        assert not drain.over
    assert drain.over


def test_nothing_is_over_before_it_began() -> None:
    drain = Drain(30)
    assert not drain.draining
    assert not drain.over
    assert drain.left_s == 0


def test_it_is_over_when_the_time_is_up_and_beginning_again_does_not_prolong_it() -> None:
    clock = Clock()
    drain = Drain(30, clock)
    with drain:
        drain.begin()
        clock.now += 20
        drain.begin()
        assert drain.left_s == 10
        assert not drain.over
        clock.now += 10
        assert drain.over
        assert drain.left_s == 0


def test_the_refusal_says_when_to_come_back() -> None:
    clock = Clock()
    drain = Drain(30, clock)
    drain.begin()
    clock.now += 12.5
    refused = drain.refusal({})
    assert refused.status_code == 503
    assert refused.headers["Retry-After"] == "18"
    assert json.loads(bytes(refused.body))["error"]["code"] == "engine.draining"


def test_a_stream_goes_on_and_new_requests_are_refused() -> None:
    operations, slow = Operations(), Slow()
    received: list[Answer] = []
    with (
        serving(operations, Route("/slow", slow.answer)) as client,
        apart(lambda: received.append(client.get("/slow"))),
    ):
        assert slow.begun.wait(20)
        operations.drain.begin()
        refused = client.get("/plain/x")
        assert refused.status == 503
        assert int(refused.headers["Retry-After"]) > 0
        assert refused.headers["Connection"] == "close"
        assert client.get("/health").status == 200
        assert client.get("/metrics").status == 200
        ready = client.get("/ready")
        assert (ready.status, json.loads(ready.body)["status"]) == (503, "draining")
        assert not operations.drain.over
        slow.go_on.set()
        assert eventually(lambda: operations.drain.over)
    assert received[0].text == "begun and over"


@pytest.mark.parametrize(
    ("extensions", "first"),
    [({DENIAL: {}}, f"{DENIAL}.start"), ({}, "websocket.close")],
    ids=["by a status", "by closing it"],
)
def test_a_websocket_that_comes_too_late_is_denied(extensions: Scope, first: str) -> None:
    asked: list[Scope] = []
    sent: list[Message] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        asked.append(scope)

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "websocket", "path": "/v1/ws", "headers": [], "extensions": extensions}
    drain = Drain()
    asyncio.run(Draining(app, drain)(scope, receive, send))
    assert asked == [scope]
    drain.begin()
    asyncio.run(Draining(app, drain)(scope, receive, send))
    assert asked == [scope]
    assert sent[0]["type"] == first
    assert sent[0].get("status", 503) == 503


class Process:
    """A server of its own process, in which one stream has begun."""

    def __init__(self, seconds: float) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", PROGRAM, str(seconds)],
            env=environment(),
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.client = Client(self.process.stdout.readline().strip())
        self.connection = self.client.connect()
        self.connection.settimeout(20)
        self.connection.sendall(b"GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n")
        self.received = b""
        while b"begun" not in self.received:
            self.received += self.connection.recv(1 << 16)

    def rest(self) -> bytes:
        while piece := self.connection.recv(1 << 16):
            self.received += piece
        return self.received

    def draining(self) -> bool:
        return self.client.get("/ready").status == 503

    def end(self) -> int:
        self.connection.close()
        self.process.communicate(timeout=30)
        return self.process.returncode


def test_sigterm_lets_a_stream_finish_and_then_ends_the_process() -> None:
    server = Process(seconds=60)
    server.process.send_signal(signal.SIGTERM)
    assert eventually(server.draining)
    assert server.process.stdin is not None
    server.process.stdin.write("go on\n")
    server.process.stdin.flush()
    assert b"and over" in server.rest()
    assert server.end() == -signal.SIGTERM


def test_a_second_signal_ends_it_at_once() -> None:
    server = Process(seconds=600)
    server.process.send_signal(signal.SIGTERM)
    assert eventually(server.draining)
    server.process.send_signal(signal.SIGTERM)
    assert b"and over" not in server.rest()
    assert server.end() == -signal.SIGTERM


def test_a_stream_that_takes_too_long_is_left() -> None:
    server = Process(seconds=0)
    server.process.send_signal(signal.SIGTERM)
    assert b"and over" not in server.rest()
    assert server.end() == -signal.SIGTERM
