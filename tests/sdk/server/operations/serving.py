"""Applications that are watched, with endpoints that answer when a test says so."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from edgewise.server.operations.operations import Operations
from edgewise.server.run import in_background, listen
from tests.sdk.server.client import Client
from tests.sdk.server.models import Some

SECONDS = 20


class Slow:
    """A stream that begins, waits until it is told to go on, and ends."""

    def __init__(self) -> None:
        self.begun, self.go_on = threading.Event(), threading.Event()

    async def answer(self, request: Request) -> Response:
        return StreamingResponse(self._pieces())

    async def late(self, request: Request) -> Response:
        """Leaves without an answer where the client has left."""
        self.begun.set()
        await asyncio.to_thread(self.go_on.wait, SECONDS)
        while not await request.is_disconnected():
            await asyncio.sleep(0)
        raise ClientDisconnect

    async def _pieces(self) -> AsyncIterator[str]:
        yield "begun"
        self.begun.set()
        await asyncio.to_thread(self.go_on.wait, SECONDS)
        yield " and over"


async def plain(request: Request) -> Response:
    return PlainTextResponse("fine")


async def failing(request: Request) -> Response:
    raise RuntimeError(f"about {request.query_params}")


def app_of(operations: Operations, routes: Sequence[BaseRoute] = ()) -> Starlette:
    return Starlette(
        routes=[
            *routes,
            *operations.api(Some({})).routes(),
            Route("/plain/{word}", plain, methods=["GET", "POST"]),
            Route("/failing", failing),
        ],
        middleware=[*operations.outer(), *operations.inner()],
    )


@contextmanager
def serving(operations: Operations, *routes: BaseRoute) -> Iterator[Client]:
    app = app_of(operations, routes)
    with listen("127.0.0.1", 0) as listening, in_background(app, listening) as url:
        yield Client(url)


@contextmanager
def apart(work: Callable[[], object]) -> Iterator[None]:
    """Run something in a thread beside the block, and wait for it."""
    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        thread.join(SECONDS)
