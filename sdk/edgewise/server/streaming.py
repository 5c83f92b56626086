"""Answers that come in pieces, and work that ends where nobody waits for it any more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from edgewise.server.failing import known
from edgewise.server.writing import written
from edgewise_runtime.errors import EdgewiseError

T = TypeVar("T")
Failed = Callable[[EdgewiseError], str]
"""What a stream says last of an error that ended it."""

SSE, NDJSON = "text/event-stream", "application/x-ndjson"
"""Types of streams."""
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
"""Nobody on the way keeps it, or waits for more of it."""


def sse(
    events: AsyncGenerator[str, None],
    *,
    headers: Mapping[str, str] | None = None,
    failed: Failed | None = None,
) -> StreamingResponse:
    """Server-sent events; each text is a whole frame, blank line included.

    Args:
        events: closed when they end, and when the client leaves.
        failed: the frame of an error that ends them; without it they just end.
    """
    return _Stream(events, SSE, headers, failed)


def ndjson(
    lines: AsyncGenerator[str, None],
    *,
    headers: Mapping[str, str] | None = None,
    failed: Failed | None = None,
) -> StreamingResponse:
    """JSON values, one a line; each text is a whole line. Else as `sse`."""
    return _Stream(lines, NDJSON, headers, failed)


def json_list(
    value: Mapping[str, Any],
    key: str,
    items: Iterable[Any],
    *,
    headers: Mapping[str, str] | None = None,
) -> StreamingResponse:
    """One JSON object with a list in it whose items are made and written one at a time, so that a
    long one takes no memory, and holds up nobody.

    Args:
        value: all else of the object.
        key: of the list.
    """
    return _Stream(_items(value, key, items), "application/json", headers, None)


async def _items(
    value: Mapping[str, Any], key: str, items: Iterable[Any]
) -> AsyncGenerator[str, None]:
    before = written({**value, key: []}).removesuffix("]}")
    for item in items:
        yield before + written(item)
        before = ","
        await asyncio.sleep(0)  # whoever reads as fast as this writes is not alone
    yield ("" if before == "," else before) + "]}"


async def while_there(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """The result of work that is cancelled where the client leaves.

    Raises:
        ClientDisconnect: where it has. The request's body has to have been read before.
    """
    working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        for task in (working, leaving):
            task.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


async def begun(request: Request, events: AsyncGenerator[T, None]) -> AsyncGenerator[T, None]:
    """The same events once the first has come: an error before it can still have a status.

    Raises what the generator raises before its first event, and as `while_there`.
    """
    try:
        return _Begun(await while_there(request, _first(events)), events)
    except BaseException:
        await events.aclose()
        raise


async def _first(events: AsyncGenerator[T, None]) -> list[T]:
    async for event in events:
        return [event]
    return []


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


class _Begun(AsyncGenerator[T, None]):
    """Events of which the first was taken already. Closing it closes them, begun or not."""

    def __init__(self, first: list[T], rest: AsyncGenerator[T, None]) -> None:
        self._first = first
        self._rest = rest

    async def __anext__(self) -> T:
        return self._first.pop() if self._first else await anext(self._rest)

    async def asend(self, value: None) -> T:
        return await anext(self)

    async def athrow(
        self,
        kind: type[BaseException] | BaseException,
        value: object = None,
        trace: TracebackType | None = None,
    ) -> T:
        self._first.clear()
        return await self._rest.athrow(kind if isinstance(kind, BaseException) else kind())

    async def aclose(self) -> None:
        self._first.clear()
        await self._rest.aclose()


class _Stream(StreamingResponse):
    """Texts as they come; whatever ends the response closes what they come from.

    Who reads slowly holds up only the own generator: nothing is fetched before the last piece is on
    its way.
    """

    def __init__(
        self,
        pieces: AsyncGenerator[str, None],
        kind: str,
        headers: Mapping[str, str] | None,
        failed: Failed | None,
    ) -> None:
        self._pieces, self._shown = pieces, _ending(pieces, failed)
        super().__init__(self._shown, headers={**HEADERS, **(headers or {})}, media_type=kind)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            # Who has left reads no more: that is no failure of the server.
            with suppress(ClientDisconnect):
                await super().__call__(scope, receive, send)
        finally:
            await self._shown.aclose()
            await self._pieces.aclose()


async def _ending(pieces: AsyncGenerator[str, None], failed: Failed | None) -> AsyncGenerator[str]:
    """The same texts; what an error ends is followed by what is said of it."""
    try:
        async for piece in pieces:
            yield piece
    except Exception as error:  # headers are sent: the stream itself has to say it
        said = known(error)
        if failed is not None:
            yield failed(said)
