"""A client of the socket that sends what it is told to, and shows what came."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

SECONDS = 60
V1 = "edgewise.v1"

Json = dict[str, Any]


@dataclass
class Talk:
    """One socket; messages that were read past are kept in `heard`."""

    connection: ClientConnection
    heard: list[Json] = field(default_factory=list)

    def send(self, **message: Any) -> None:
        self.connection.send(json.dumps(message))

    def generate(self, name: str, prompt: Any = "The quick brown fox", **options: Any) -> None:
        self.send(type="generate", id=name, model="tiny", prompt=prompt, options=options)

    def next(self) -> Json:
        message: Json = json.loads(self.connection.recv(SECONDS))
        self.heard.append(message)
        return message

    def until(self, wanted: Callable[[Json], bool]) -> Json:
        """Read up to the first message of which this is true."""
        while not wanted(message := self.next()):
            pass
        return message

    def last(self, name: str) -> Json:
        """The message that ends a generation; reads up to it unless it has come."""
        while not (ends := [one for one in self.of(name) if one["type"] in ("done", "error")]):
            self.next()
        return ends[-1]

    def of(self, name: str) -> list[Json]:
        """What came of a generation so far, but that it was accepted."""
        return [one for one in self.heard if one.get("id") == name and one["type"] != "accepted"]

    def pieces(self, name: str) -> list[Json]:
        return [one for one in self.of(name) if one["type"] == "piece"]

    def secret(self, name: str) -> str:
        (accepted,) = [m for m in self.heard if m["type"] == "accepted" and m["id"] == name]
        return str(accepted["secret"])

    def closed(self) -> tuple[int, str]:
        """Read up to the end; code and reason of the close frame."""
        with pytest.raises(ConnectionClosed) as closed:
            self.until(lambda _: False)
        assert closed.value.rcvd is not None
        return closed.value.rcvd.code, closed.value.rcvd.reason

    def drop(self) -> None:
        """Lose the connection without a word."""
        self.connection.socket.shutdown(socket.SHUT_RDWR)
        self.connection.close()


@contextmanager
def talk(
    url: str,
    *protocols: str,
    headers: Mapping[str, str] | None = None,
    sock: socket.socket | None = None,
    **options: Any,
) -> Iterator[Talk]:
    """A socket to the server at this URL; with ``edgewise.v1`` where no subprotocol is named."""
    parts = urlsplit(url)
    with connect(
        f"{parts.scheme.replace('http', 'ws')}://{parts.netloc}/v1/ws",
        sock=sock,
        subprotocols=[Subprotocol(one) for one in protocols or (V1,)],
        additional_headers=headers,
        # A busy machine takes more than the usual ten seconds.
        open_timeout=60,
        compression=None,
        proxy=None,
        **{"max_queue": None, **options},
    ) as connection:
        yield Talk(connection)


def text_of(messages: list[Json], index: int = 0) -> str:
    """What is said in pieces of a choice."""
    return "".join(
        delta["text"]
        for message in messages
        if message["type"] == "piece" and message["index"] == index
        for delta in message["deltas"]
        if delta["type"] == "content"
    )
