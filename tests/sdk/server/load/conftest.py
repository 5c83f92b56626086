"""A server of a tiny model with a long context and all APIs, in this process."""

from __future__ import annotations

import asyncio
import gc
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from edgewise import AsyncEngine
from edgewise.hosting.local import LocalModel
from edgewise.server.app import make_app
from edgewise.server.patience import PatientProtocol
from edgewise.server.run import in_thread, listen
from edgewise.server.socket.transport import SocketProtocol
from tests.processes import eventually
from tests.sdk.other_texts import with_texts
from tests.sdk.server.client import Client
from tests.sdk.server.models import Some
from tests.sdk.test_constrained import TEMPLATE

MODEL = "tiny"
CONTEXT = 16384
SEND_BUFFER = 1 << 14
"""Bytes that the system takes from the server for a client that does not read, about."""


def protocols() -> list[Any]:
    """This process's, open or not. Objects are told apart by their types: to be asked for its class
    makes a deprecated one of torch's warn."""
    kinds = (PatientProtocol, SocketProtocol)
    return [one for one in gc.get_objects() if issubclass(type(one), kinds)]


@dataclass(frozen=True)
class Served:
    """A server, and what of it is in use."""

    url: str
    engine: AsyncEngine
    loop: asyncio.AbstractEventLoop

    def metric(self, name: str) -> Any:
        return self.engine.metrics()[name]

    def tasks(self) -> int:
        """How many the server's event loop has."""

        async def count() -> int:
            return len(asyncio.all_tasks()) - 1

        return asyncio.run_coroutine_threadsafe(count(), self.loop).result()

    def queued(self) -> list[int]:
        """Bytes that wait in this process to be sent, by connection."""

        async def sizes() -> list[int]:
            open_ones = [one.transport for one in protocols() if not one.transport.is_closing()]
            return [one.get_write_buffer_size() for one in open_ones]

        return asyncio.run_coroutine_threadsafe(sizes(), self.loop).result()

    def connections(self) -> int:
        """How many are open, those included that are closed once their last bytes are taken."""

        async def count() -> int:
            found = [one.transport for one in protocols()]
            numbers = {one.get_extra_info("socket").fileno() for one in found if one is not None}
            return len(numbers - {-1})

        return asyncio.run_coroutine_threadsafe(count(), self.loop).result()

    def idle(self) -> bool:
        """Whether the engine comes to have nothing to do, and no page in use."""
        names = ("num_requests_running", "num_requests_waiting", "kv_pages_used")
        return eventually(lambda: all(self.metric(name) == 0 for name in names))

    def prefixes(self) -> tuple[int, int]:
        """Prompt tokens looked for in the prefix cache, and those found, by ``/metrics``."""
        text = Client(self.url).get("/metrics").text
        found = {"vllm:prefix_cache_queries_total": 0, "vllm:prefix_cache_hits_total": 0}
        for line in text.splitlines():
            name = line.partition("{")[0].partition(" ")[0]
            if name in found:
                found[name] += int(float(line.rsplit(" ", 1)[1]))
        queries, hits = found.values()
        return queries, hits


@pytest.fixture(scope="session")
def served(long_bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("load") / MODEL
    bundle = with_texts(long_bundle, folder, {"chat_template.jinja": TEMPLATE})
    engine = asyncio.run(AsyncEngine.load(bundle, context=CONTEXT))
    app = make_app({}, {}, models=Some({MODEL: LocalModel(MODEL, engine)}))
    with listen("127.0.0.1", 0) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
        with in_thread(app, listening) as background:
            yield Served(background.url, engine, background.loop)
    asyncio.run(engine.close())
