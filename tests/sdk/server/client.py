"""A client that sends what it is told to and shows what came back."""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPMessage, HTTPSConnection
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
    """Asks one server; by https, what accepts its certificate is given."""

    def __init__(self, url: str, context: ssl.SSLContext | None = None) -> None:
        self.url = url
        self.context = context
        parts = urlsplit(url)
        self.host = parts.hostname or ""
        self.port = parts.port or 0

    def get(
        self, path: str, headers: Mapping[str, str] | None = None, method: str = "GET"
    ) -> Answer:
        return self.send(method, path, None, headers)

    def post(self, path: str, value: object, headers: Mapping[str, str] | None = None) -> Answer:
        """Send a value as JSON."""
        said = {"Content-Type": "application/json", **(headers or {})}
        return self.send("POST", path, json.dumps(value).encode(), said)

    def send(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        connection = self._connection()
        try:
            connection.request(method, path, body, headers=dict(headers or {}))
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read())
        finally:
            connection.close()

    def _connection(self) -> HTTPConnection:
        if self.context is None:
            return HTTPConnection(self.host, self.port, timeout=SECONDS)
        return HTTPSConnection(self.host, self.port, timeout=SECONDS, context=self.context)

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
