"""Every API that streams, asked over a bare socket."""

from __future__ import annotations

import base64
import json
import os
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from tests.sdk.server.load.conftest import MODEL

MESSAGES = [{"role": "user", "content": "How is the weather over the sea?"}]


@dataclass(frozen=True)
class Api:
    """How a stream of so many tokens is asked for.

    Attributes:
        ends: what the end of a whole stream has in it.
    """

    path: str
    body: Callable[[int], dict[str, Any]]
    ends: bytes = b"\r\n0\r\n\r\n"


APIS = {
    "chat": Api(
        "/v1/chat/completions",
        lambda tokens: {
            "model": MODEL,
            "messages": MESSAGES,
            "stream": True,
            "max_completion_tokens": tokens,
            "logprobs": True,
            "ignore_eos": True,
        },
    ),
    "completions": Api(
        "/v1/completions",
        lambda tokens: {
            "model": MODEL,
            "prompt": "The sea",
            "stream": True,
            "max_tokens": tokens,
            "logprobs": 3,
            "ignore_eos": True,
        },
    ),
    "responses": Api(
        "/v1/responses",
        lambda tokens: {
            "model": MODEL,
            "input": "The sea",
            "stream": True,
            "max_output_tokens": tokens,
            "store": False,
        },
    ),
    "messages": Api(
        "/v1/messages",
        lambda tokens: {
            "model": MODEL,
            "messages": MESSAGES,
            "stream": True,
            "max_tokens": tokens,
        },
    ),
    "ollama": Api(
        "/api/chat",
        lambda tokens: {
            "model": MODEL,
            "messages": MESSAGES,
            "options": {"num_predict": tokens},
        },
    ),
    "socket": Api(
        "/v1/ws",
        lambda tokens: {
            "type": "chat",
            "id": "g1",
            "model": MODEL,
            "messages": MESSAGES,
            "options": {"max_tokens": tokens, "logprobs": True, "ignore_eos": True},
        },
        b'"type":"done"',
    ),
}


LONG = tuple(APIS[name] for name in ("chat", "completions", "socket"))
"""Those whose answers are as long as they are asked to be."""


def ask(url: str, api: Api, tokens: int, receive_buffer: int = 0) -> socket.socket:
    """A connection that has asked for a stream, and has read nothing of it.

    Args:
        receive_buffer: bytes that the system keeps for it at most, about; 0 for as many as usual.
    """
    parts = urlsplit(url)
    connection = socket.socket()
    connection.settimeout(60)
    if receive_buffer:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    connection.connect((parts.hostname or "", parts.port or 0))
    data = json.dumps(api.body(tokens)).encode()
    if api.path == "/v1/ws":
        _open(connection, parts.netloc)
        connection.sendall(_frame(data))
    else:
        head = f"POST {api.path} HTTP/1.1\r\nHost: {parts.netloc}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
        connection.sendall(head.encode() + data)
    return connection


def read(connection: socket.socket, api: Api, most: int) -> bytes:
    """What comes, up to so many bytes or the end of the stream."""
    found = b""
    while len(found) < most and api.ends not in found:
        chunk = connection.recv(min(4096, most - len(found)))
        if not chunk:
            break
        found += chunk
    return found


def leave(connection: socket.socket) -> None:
    """Lose the connection: what comes is answered with a reset."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def _open(connection: socket.socket, netloc: str) -> None:
    key = base64.b64encode(os.urandom(16)).decode()
    connection.sendall(
        f"GET /v1/ws HTTP/1.1\r\nHost: {netloc}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Protocol: edgewise.v1\r\n\r\n".encode()
    )
    while b"\r\n\r\n" not in (answer := connection.recv(4096)):
        pass
    if b" 101 " not in answer:
        raise ConnectionError(answer[:200])


def _frame(text: bytes) -> bytes:
    """A masked text frame, whose mask is nothing."""
    if len(text) < 126:
        return struct.pack(">BB", 0x81, 0x80 | len(text)) + bytes(4) + text
    return struct.pack(">BBH", 0x81, 0x80 | 126, len(text)) + bytes(4) + text
