"""A tab that lends what it has not: it speaks the protocol, and says what it is told to."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, build_opener

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

SECONDS = 60
Json = dict[str, Any]


def lent(url: str, **other: Any) -> Json:
    """What a tab of the only bundle at this address says of itself."""
    opener = build_opener(ProxyHandler({}))

    def get(path: str) -> bytes:
        data: bytes = opener.open(f"{origin(url)}{path}", timeout=SECONDS).read()
        return data

    name = json.loads(get("/api/bundles"))["bundles"][0]["name"]
    manifest = json.loads(get(f"/bundles/{name}/bundle.json"))
    tokenizer = get(f"/bundles/{name}/tokenizer.json")
    return {
        "type": "lend",
        "model": name,
        "bundle": manifest["digest"],
        "tokenizer": hashlib.sha256(tokenizer).hexdigest(),
        "program": "webgpu-f32-serial",
        "device": "a script",
        "context": manifest["model"]["context"],
        "slots": 2,
        **other,
    }


def origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


@dataclass
class Tab:
    """One socket that lends."""

    connection: ClientConnection
    heard: list[Json] = field(default_factory=list)

    def send(self, **message: Any) -> None:
        self.connection.send(json.dumps(message))

    def next(self, *kinds: str) -> Json:
        """The next message of one of these kinds; beats that come before it are answered."""
        while True:
            message: Json = json.loads(self.connection.recv(SECONDS))
            self.heard.append(message)
            if message["type"] in kinds:
                return message
            if message["type"] == "beat":
                self.send(type="alive", beat=message["beat"])

    def say(self, run: str, text: str) -> None:
        self.send(type="said", run=run, deltas=[{"type": "content", "text": text}])

    def end(self, run: str, text: str = "", reason: str = "stop", **other: Any) -> None:
        self.send(type="ended", run=run, choice=choice(text, reason=reason, **other))

    def closed(self) -> tuple[int, str]:
        """Read up to the end; code and reason of the close frame."""
        try:
            while True:
                self.next("nothing")
        except ConnectionClosed as closed:
            if closed.rcvd is None:
                raise
            return closed.rcvd.code, closed.rcvd.reason


def choice(text: str, **other: Any) -> Json:
    timings = ("ttft_s", "prefill_s", "decode_s", "prefill_tokens_per_s", "decode_tokens_per_s")
    return {
        "reason": "stop",
        "stop": None,
        "text": text,
        "reasoning": "",
        "calls": [],
        "token_ids": [5, 6],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2, "cached_tokens": 0},
        "timings": dict.fromkeys(timings, 0.5),
        "seed": "7",
        "context_full": False,
        "dropped_turns": 0,
        **other,
    }


@contextmanager
def opened(url: str) -> Iterator[Tab]:
    """A tab that has opened a server's address and lends nothing yet."""
    address = origin(url)
    with connect(
        f"{address.replace('http', 'ws', 1)}/v1/ws",
        subprotocols=[Subprotocol("edgewise.v1")],
        origin=address,  # type: ignore[arg-type]  # as pages have it
        compression=None,
        proxy=None,
        max_queue=None,
        max_size=None,
    ) as connection:
        yield Tab(connection)


@contextmanager
def lending(url: str, **other: Any) -> Iterator[Tab]:
    """A tab that lends its GPU."""
    with opened(url) as tab:
        tab.send(**lent(url, **other))
        tab.next("lent")
        yield tab


def answers(tab: Tab, said: Callable[[Json], list[str]]) -> None:
    """Answer every request with these pieces, until the socket is closed."""
    with suppress(ConnectionClosed, TimeoutError):
        while True:
            message = tab.next("run")
            pieces = said(message)
            for piece in pieces:
                tab.say(message["run"], piece)
            tab.end(message["run"], "".join(pieces))


@contextmanager
def answering(url: str, said: Callable[[Json], list[str]], **other: Any) -> Iterator[Tab]:
    """A tab in a thread that answers every request with these pieces."""
    with lending(url, **other) as tab:
        thread = threading.Thread(target=answers, args=(tab, said), daemon=True)
        thread.start()
        try:
            yield tab
        finally:
            tab.connection.close()
            thread.join(SECONDS)


def opens(show: Callable[..., None]) -> Callable[..., None]:
    """A person: opens in a tab what is shown of addresses that end with ?lend."""

    def shown(*values: object, **options: Any) -> None:
        show(*values, **options)
        words = [word for value in values for word in str(value).split()]
        for url in (word for word in words if word.endswith("?lend")):
            threading.Thread(target=_visit, args=(url,), daemon=True).start()

    return shown


def _visit(url: str) -> None:
    with lending(url) as tab:
        answers(tab, lambda _: ["Hello", " there."])
