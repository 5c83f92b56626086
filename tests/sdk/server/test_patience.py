"""Clients that hold a connection and do nothing with it keep nobody else out."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from edgewise.server import patience
from edgewise.server.app import make_app
from edgewise.server.resource import in_memory
from edgewise.server.run import MAX_CONNECTIONS, in_background, listen
from tests.processes import eventually
from tests.sdk.server.client import Client

LARGE = bytes(8 << 20)
"""More than the buffers of a connection hold."""


@contextmanager
def serving() -> Iterator[Client]:
    app = make_app({}, {"": in_memory(b"hello", ".txt"), "large": in_memory(LARGE, ".bin")})
    with listen("127.0.0.1", 0) as listening, in_background(app, listening) as url:
        yield Client(url)


def closed(connection: socket.socket) -> bool:
    """Whether the server closes the connection, whatever it sends before."""
    try:
        while connection.recv(1 << 16):
            pass
    except ConnectionError:
        pass
    return True


@pytest.mark.parametrize("begun", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: localhost\r\nX-"])
def test_others_are_answered_again_after_requests_that_never_came(
    monkeypatch: pytest.MonkeyPatch, begun: bytes
) -> None:
    monkeypatch.setattr(patience, "REQUEST_SECONDS", 0.5)
    with serving() as client, ExitStack() as stack:
        for _ in range(MAX_CONNECTIONS):
            stack.enter_context(client.connect()).sendall(begun)
        assert eventually(lambda: client.get("/").status == 200)


@pytest.mark.parametrize("begun", [b"", b"GET "])
def test_a_connection_is_closed_where_no_other_request_follows(
    monkeypatch: pytest.MonkeyPatch, begun: bytes
) -> None:
    monkeypatch.setattr(patience, "REQUEST_SECONDS", 0.5)
    with serving() as client, client.connect() as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200")
        connection.sendall(begun)
        assert closed(connection)


@pytest.mark.landing
def test_a_client_that_takes_nothing_of_its_answer_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(patience, "STALL_SECONDS", 0.5)
    ask = b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with serving() as client, ExitStack() as stack:
        idle = [stack.enter_context(client.connect()) for _ in range(MAX_CONNECTIONS - 1)]
        for connection in idle:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.sendall(ask)
        assert eventually(lambda: client.get("/").status == 200)


def test_a_client_that_reads_slowly_gets_all_of_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "REQUEST_SECONDS", 0.1)
    with serving() as client, client.connect() as connection:
        connection.sendall(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")
        received = 0
        while received < len(LARGE):
            piece = connection.recv(1 << 16)
            assert piece, f"closed after {received} bytes"
            received += len(piece)
