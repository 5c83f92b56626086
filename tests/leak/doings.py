"""What a process does again and again, which must not leave anything behind.

Run as a process of its own: python -m tests.leak.doings NAME BUNDLE WARM COUNT
prints what was held after the first WARM times and after COUNT more.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from edgewise import AsyncEngine, Engine
from edgewise.server.app import make_app
from edgewise.server.resource import in_memory
from edgewise.server.run import in_background, listen
from edgewise_runtime.errors import EdgewiseError
from tests.leak.usage import settled
from tests.sdk.server.client import Client

Doing = Callable[[Path], Iterator[None]]
"""Does its thing once for each value that is taken from it."""

TEXTS = ("The quick brown fox", "A model", "def add(a, b):\n", "Zürich 🙂", "1 " * 60, "7")


def loads(bundle: Path) -> Iterator[None]:
    """An engine, one answer, and its end."""
    while True:
        with Engine(bundle) as engine:
            engine.generate("Hi", max_tokens=2)
        yield


def gpu_loads(bundle: Path) -> Iterator[None]:
    """The same on a GPU."""
    while True:
        with Engine(bundle, device="wgpu") as engine:
            engine.generate("Hi", max_tokens=2)
        yield


def dropped_loads(bundle: Path) -> Iterator[None]:
    """An engine that nobody closes, in an event loop of its own."""

    async def once() -> None:
        engine = await AsyncEngine.load(bundle)
        await engine.generate("Hi", max_tokens=2)

    while True:
        asyncio.run(once())
        yield


def refused_loads(bundle: Path) -> Iterator[None]:
    """Engines that do not come about."""
    while True:
        for options in ({"program": "nothing"}, {"context": 1 << 40}, {"draft": "nowhere"}):
            with suppress(EdgewiseError), Engine(bundle, **options):
                raise RuntimeError(f"{options} were taken")
        yield


def requests(bundle: Path) -> Iterator[None]:
    """Requests of every kind to one engine, some of which nobody waits for."""
    with Engine(bundle) as engine:
        while True:
            for at, text in enumerate(TEXTS):
                kind, size = at % 4, 1 + at
                if kind == 0:
                    engine.generate(text, max_tokens=size, temperature=0.7, seed=at)
                elif kind == 1:
                    next(engine.generate(text, max_tokens=40, stream=True), None)
                elif kind == 2:
                    engine.submit(text, max_tokens=40).cancel()
                else:
                    engine.choices(text, n=2, max_tokens=size, temperature=1.0)
                yield
            with suppress(EdgewiseError):
                engine.generate("x" * 5000, max_tokens=1)


def served(bundle: Path) -> Iterator[None]:
    """Files that are asked for, and clients that leave before they are answered."""
    app = make_app(
        {}, {"": in_memory(b"hello", ".txt"), "large": in_memory(bytes(1 << 20), ".bin")}
    )
    with listen("127.0.0.1", 0) as listening, in_background(app, listening) as url:
        client = Client(url)
        while True:
            client.get("/")
            yield
            client.get("/nothing")
            yield
            for ask in (b"GET /lar", b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n"):
                with socket.create_connection((client.host, client.port)) as connection:
                    connection.sendall(ask)
                yield


DOINGS: dict[str, Doing] = {
    doing.__name__: doing
    for doing in (loads, gpu_loads, dropped_loads, refused_loads, requests, served)
}


def main(name: str, bundle: str, warm: str, count: str) -> None:
    """Do it, and say what was held before and after."""
    doing = DOINGS[name](Path(bundle))
    for _ in range(int(warm)):
        next(doing)
    before = settled()
    for _ in range(int(count)):
        next(doing)
    print(json.dumps([before.to_json(), settled().to_json()]))
    sys.stdout.flush()
    doing.close()  # type: ignore[attr-defined]


if __name__ == "__main__":
    main(*sys.argv[1:])
