"""A client that sends what it is told to and shows what came back."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPMessage
from urllib.parse import urlsplit

SECONDS = 20


@dataclass(frozen=True)
class Answer:
    status: int
    headers: HTTPMessage
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


class Client:
    """Asks one server."""

    def __init__(self, url: str) -> None:
        self.url = url
        parts = urlsplit(url)
        self.host = parts.hostname or ""
        self.port = parts.port or 0

    def get(
        self, path: str, headers: Mapping[str, str] | None = None, method: str = "GET"
    ) -> Answer:
        connection = HTTPConnection(self.host, self.port, timeout=SECONDS)
        try:
            connection.request(method, path, headers=dict(headers or {}))
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read())
        finally:
            connection.close()

    def raw(self, request: bytes) -> bytes:
        """Send bytes, and read until the server closes the connection."""
        with self.connect() as connection:
            connection.sendall(request)
            received = b""
            while piece := connection.recv(1 << 16):
                received += piece
        return received

    def connect(self) -> socket.socket:
        return socket.create_connection((self.host, self.port), timeout=SECONDS)
