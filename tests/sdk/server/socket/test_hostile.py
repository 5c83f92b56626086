"""Clients that send anything, or read nothing, hold up nobody and take little memory."""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.frames import Frame, Opcode

from edgewise.server.socket import transport
from edgewise.server.socket.connection import WRONG, Limits
from edgewise.server.socket.protocol import MAX_MESSAGE
from tests.processes import eventually
from tests.sdk.server.socket.serving import Served, serving
from tests.sdk.server.socket.talk import V1, Talk, talk

SMALL = 4096
"""Bytes of a socket's buffer, so that who does not read is soon noticed."""

HANDSHAKE = (
    "GET /v1/ws HTTP/1.1",
    "Host: localhost",
    "Upgrade: websocket",
    "Connection: Upgrade",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: AAECAwQFBgcICQoLDA0ODw==",
    f"Sec-WebSocket-Protocol: {V1}",
)

VERBOSE: dict[str, Any] = {
    "max_tokens": 200,
    "ignore_eos": True,
    "seed": 3,
    "logprobs": True,
    "top_logprobs": 20,
}


def still_serves(served: Served) -> bool:
    try:
        with talk(served.url) as client:
            client.generate("a", max_tokens=1)
            return client.last("a")["type"] == "done"
    except InvalidStatus:  # another socket still has the place
        return False


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        ("", "input.message"),
        ("hello", "input.message"),
        ("null", "input.type"),
        ("[]", "input.type"),
        ('"ping"', "input.type"),
        ("{}", "input.missing"),
        ('{"type": "piece"}', "input.message"),
        ('{"type": ["ping"]}', "input.message"),
        ('{"type": "ping", "type": "ping"}', "input.message"),
        ('{"type": "ping", "echo": 1}', "input.type"),
        ('{"type": "ping", "url": "http://evil.example"}', "input.unknown_field"),
        ('{"type": "ping", "echo": "' + "x" * 65 + '"}', "input.type"),
        ('{"type": "ping", "echo": "\\ud800"}', "input.message"),
        ('{"type": "generate", "prompt": ' + "[" * 100 + "]" * 100 + "}", "input.message"),
        ("[" * 200_000, "input.message"),
        ("[" * 300_000, "input.size"),
        ('{"type": "generate", "prompt": [' + "0," * 300_000 + "0]}", "input.size"),
        ('{"type": "ping", "echo": ' + "9" * 10_000 + "}", "input.message"),
        ('{"type": "ping", "echo": NaN}', "input.message"),
    ],
)
def test_what_is_no_message_is_answered_with_what_is_wrong(
    served: Served, sent: str, code: str
) -> None:
    with talk(served.url) as client:
        client.connection.send(sent)
        error = client.next()
        assert (error["type"], error["code"]) == ("error", code)
        assert error["remedy"]
        assert len(json.dumps(error)) < 1000
        client.send(type="ping")
        assert client.next()["type"] == "pong"


def test_a_message_that_is_wrong_does_not_end_the_generation_it_names(served: Served) -> None:
    with talk(served.url) as client:
        served.gate.close()
        client.generate("a", max_tokens=2)
        client.send(type="cancel", id="a", why="no")
        error = client.until(lambda one: one["type"] == "error")
        assert (error["code"], "id" in error) == ("input.unknown_field", False)
        client.send(type="generate", id="b", model="tiny", prompt=1.5)
        error = client.until(lambda one: one["type"] == "error")
        assert (error["code"], error["id"], "n" in error) == ("input.type", "b", False)
        served.gate.open()
        assert client.last("a")["type"] == "done"


def binary(client: Talk) -> None:
    client.connection.send(b'{"type": "ping"}')


def huge(client: Talk) -> None:
    client.connection.send("x" * (MAX_MESSAGE + 1))


def huge_in_fragments(client: Talk) -> None:
    client.connection.send("x" * (1 << 20) for _ in range(64))


def tiny_fragments(client: Talk) -> None:
    client.connection.send("" for _ in range(1 << 20))


def no_utf8(client: Talk) -> None:
    raw(client, Frame(Opcode.TEXT, b"\xff\xfe"))


def reserved_bits(client: Talk) -> None:
    client.connection.socket.sendall(b"\xc1\x80\x00\x00\x00\x00")


def lone_continuation(client: Talk) -> None:
    raw(client, Frame(Opcode.CONT, b"{}"))


def all_wrong(client: Talk) -> None:
    for _ in range(WRONG):
        client.connection.send("?")


def many_at_once(client: Talk) -> None:
    raw(client, Frame(Opcode.TEXT, b""), 1 << 20)


def raw(client: Talk, frame: Frame, times: int = 1) -> None:
    """Send what a client would not."""
    client.connection.socket.sendall(frame.serialize(mask=True) * times)


@pytest.mark.parametrize(
    ("attack", "code"),
    [
        (binary, 1003),
        (huge, 1009),
        (huge_in_fragments, 1009),
        (tiny_fragments, 1008),
        (no_utf8, 1007),
        (reserved_bits, 1002),
        (lone_continuation, 1002),
        (all_wrong, 1008),
        (many_at_once, 1008),
    ],
)
def test_frames_that_are_no_messages_close_their_socket(
    served: Served,
    caplog: pytest.LogCaptureFixture,
    attack: Callable[[Talk], None],
    code: int,
) -> None:
    with caplog.at_level(logging.WARNING), talk(served.url) as client:
        with suppress(ConnectionClosed, OSError):  # while it is sending
            attack(client)
        assert client.closed()[0] == code
    assert not caplog.records
    assert still_serves(served)


def test_who_sends_pings_and_reads_nothing_is_left(bundle: Path) -> None:
    pings = Frame(Opcode.PING, b"x" * 125).serialize(mask=True) * 8192
    with serving(bundle, send_buffer=SMALL) as served:
        with small(served) as connection:
            connection.sendall("\r\n".join((*HANDSHAKE, "", "")).encode())
            assert connection.recv(1 << 12).startswith(b"HTTP/1.1 101")
            connection.settimeout(20)
            # 256 MiB of them.
            assert any(not taken(connection, pings) for _ in range(256))
        assert still_serves(served)


def test_who_reads_nothing_loses_the_socket_and_others_do_not_notice(bundle: Path) -> None:
    """What the one asks for is more than may wait for it; all that the other gets is less."""
    with serving(bundle, send_buffer=SMALL) as served:
        both_read = steps(served, reads=True)
    with serving(bundle, send_buffer=SMALL, limits=Limits(pieces=250)) as served:
        assert steps(served, reads=False) == both_read


def steps(served: Served, *, reads: bool) -> int:
    """The engine's steps for two clients, of which the first may read nothing until the end."""
    queue = None if reads else 1
    with (
        talk(served.url, sock=small(served), max_queue=queue) as stalled,
        talk(served.url) as healthy,
    ):
        served.gate.close()
        stalled.generate("a", n=4, **VERBOSE)
        served.gate.wait()
        healthy.generate("b", **VERBOSE)
        assert served.arrived()
        served.gate.open()
        done = healthy.last("b")
        assert done["choices"][0]["usage"]["completion_tokens"] == 200
        assert [one["n"] for one in healthy.of("b")] == list(range(201))
        if reads:
            assert stalled.last("a")["type"] == "done"
        else:
            assert stalled.closed() == (4001, "pieces were not read; resume")
            assert 0 < len(stalled.of("a")) < 800
    assert served.idle()
    if not reads:  # it has lost its socket, and nothing else
        with talk(served.url) as again:
            after = stalled.of("a")[-1]["n"]
            again.send(type="resume", id="a", secret=stalled.secret("a"), after=after)
            again.last("a")
        found = stalled.of("a") + again.of("a")
        assert [one["n"] for one in found] == list(range(801))
    return int(served.metric("steps_total"))


def test_who_never_reads_again_is_left_in_the_end(
    bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "STALL_SECONDS", 0.2)
    monkeypatch.setattr(transport, "LEAVE_SECONDS", 0.2)
    limits = Limits(pieces=20)
    with (
        serving(bundle, send_buffer=SMALL, limits=limits, sockets=1) as served,
        talk(served.url, sock=small(served), max_queue=1) as stalled,
    ):
        stalled.generate("a", **VERBOSE)
        assert served.left()
        assert eventually(lambda: still_serves(served))
        stalled.drop()


def taken(connection: socket.socket, data: bytes) -> bool:
    """Whether the server takes what is sent."""
    try:
        connection.sendall(data)
    except ConnectionError:
        return False
    return True


def small(served: Served) -> socket.socket:
    """A connection that holds little of what its client does not read."""
    host, port = served.url.removeprefix("http://").rstrip("/").split(":")
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL)
    connection.connect((host, int(port)))
    return connection
