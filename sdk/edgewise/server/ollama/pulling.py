"""``POST /api/pull``: fetches a model from the hub into this machine's cache, where allowed."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import AsyncGenerator
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from edgewise.hub.names import HubModel, hub_model
from edgewise.server.ollama.answers import error_of, line
from edgewise.server.ollama.requests import PullRequest
from edgewise.server.reading import read_body
from edgewise.server.streaming import begun, ndjson, while_there
from edgewise.server.writing import json_response
from edgewise_runtime.errors import EngineError, UnsupportedError

MOST_PULLS = 2
"""At once; they share a network and a disk."""
_PLACES = ("hf.co/", "huggingface.co/")
"""What Ollama's clients write before a name of the hub."""


def pulled_name(text: str) -> HubModel:
    """The model at the hub that a name means; there are no other places.

    Raises InputError ``input.model`` for anything else, such as a path or an address.
    """
    place = next((one for one in _PLACES if text.lower().startswith(one)), "")
    return hub_model(text[len(place) :])


class PullApi:
    """Fetches models for clients."""

    def __init__(self, *, allowed: bool) -> None:
        self._allowed = allowed
        self._running = 0

    async def pull(self, request: Request) -> Response:
        """Fetch one, and tell how far it is.

        Raises:
            UnsupportedError: ``unsupported.pull`` where that is not allowed;
                ``unsupported.insecure``.
            InputError: ``input.model`` for what is no name of the hub.
            EngineError: ``engine.busy`` where others are being fetched.
            EdgewiseError: as `edgewise.hub.pull.pull`.
        """
        asked = await read_body(request, PullRequest)
        if not self._allowed:
            raise UnsupportedError(
                "This server fetches no models.",
                remedy=f"On its machine: edgewise pull {asked.model[:80]}; or start it with "
                "--allow-pull.",
                code="unsupported.pull",
            )
        if asked.insecure:
            raise UnsupportedError(
                "Models are only fetched by https from the hub that this machine is set to.",
                remedy="Leave insecure out.",
                code="unsupported.insecure",
            )
        told = self._told(pulled_name(asked.model))
        if asked.stream is False:
            return json_response(await while_there(request, _last(told)))
        lines = await begun(request, _lines(told))
        return ndjson(lines, failed=lambda error: line(error_of(error)))

    async def _told(self, model: HubModel) -> AsyncGenerator[dict[str, Any], None]:
        """How far it is, in Ollama's words, while it is fetched on a thread."""
        if self._running >= MOST_PULLS:
            raise EngineError(
                f"{MOST_PULLS} models are being fetched.",
                remedy="Wait until they are there.",
                code="engine.busy",
            )
        self._running += 1
        fetching = _Fetching(model)
        fetched = asyncio.ensure_future(asyncio.to_thread(fetching.run))
        # Whoever leaves, the thread counts until it has ended.
        fetched.add_done_callback(self._ended)
        try:
            yield {"status": "pulling manifest"}
            async for done, total in fetching.progress(fetched):
                yield {"status": "pulling", **fetching.far(done, total)}
            await fetched
            yield {"status": "success"}
        finally:
            fetching.stop()

    def _ended(self, fetched: asyncio.Future[None]) -> None:
        self._running -= 1
        if not fetched.cancelled():
            fetched.exception()  # whoever has left does not ask for it


class _StoppedError(Exception):
    """Nobody waits for what is being fetched."""


class _Fetching:
    """One model that a thread fetches; of its progress the newest is kept."""

    def __init__(self, model: HubModel) -> None:
        self._model = model
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._newest: tuple[int, int] | None = None
        self._stopped = threading.Event()

    def run(self) -> None:
        """Fetch it, on this thread; what has come is kept where it ends early."""
        # Here: the hub's library takes a while to import.
        from edgewise.hub.pull import pull

        pull(self._model, self._tell)

    def stop(self) -> None:
        """Have the thread end with the next piece that comes."""
        self._stopped.set()

    async def progress(
        self, fetched: asyncio.Future[None]
    ) -> AsyncGenerator[tuple[int, int], None]:
        """Bytes that are here and bytes in all, each time they have changed."""
        fetched.add_done_callback(lambda _: self._changed.set())
        while True:
            await self._changed.wait()
            self._changed.clear()
            newest, self._newest = self._newest, None
            if newest is not None:
                yield newest
            elif fetched.done():
                return
            if fetched.done():
                self._changed.set()

    def far(self, done: int, total: int) -> dict[str, Any]:
        """The fields of progress; all files of a model are one download."""
        digest = hashlib.sha256(str(self._model).encode()).hexdigest()
        return {"digest": f"sha256:{digest}", "total": total, "completed": done}

    def _tell(self, phase: str, done: int, total: int) -> None:
        if self._stopped.is_set():
            raise _StoppedError
        self._loop.call_soon_threadsafe(self._note, (done, total))

    def _note(self, newest: tuple[int, int]) -> None:
        self._newest = newest
        self._changed.set()


async def _lines(told: AsyncGenerator[dict[str, Any], None]) -> AsyncGenerator[str, None]:
    try:
        async for one in told:
            yield line(one)
    finally:
        await told.aclose()


async def _last(told: AsyncGenerator[dict[str, Any], None]) -> dict[str, Any]:
    """What is said in the end. Raises what made it end early."""
    last: dict[str, Any] = {}
    try:
        async for one in told:
            last = one
    finally:
        await told.aclose()
    return last
