"""Answers in pieces: what ends them, and what ends with them."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncGenerator, Iterator

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from edgewise.server.failing import answering, headers_of, status_of
from edgewise.server.run import in_background, listen
from edgewise.server.streaming import begun, json_list, ndjson, sse, while_there
from edgewise_runtime.errors import EdgewiseError, EngineError, InputError
from tests.sdk.server.client import Client

SECONDS = 20


class Source:
    """Pieces of an endless answer, which know whether they are wanted."""

    def __init__(self) -> None:
        self.begun, self.closed = threading.Event(), threading.Event()

    async def pieces(self) -> AsyncGenerator[str, None]:
        self.begun.set()
        try:
            while True:
                yield "data: x\n\n"
                await asyncio.sleep(0)
        finally:
            self.closed.set()

    async def silent(self) -> AsyncGenerator[str, None]:
        self.begun.set()
        try:
            await asyncio.Event().wait()
            yield ""
        finally:
            self.closed.set()

    async def work(self) -> str:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.closed.set()
        return ""


async def told(*pieces: str, end: Exception | None = None) -> AsyncGenerator[str, None]:
    for piece in pieces:
        yield piece
    if end is not None:
        raise end


def failed(error: EdgewiseError) -> Response:
    return PlainTextResponse(str(error), status_of(error), headers_of(error))


BUSY = EngineError("There are too many.", code="engine.busy")


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
def client(source: Source) -> Iterator[Client]:
    async def endless(request: Request) -> Response:
        return sse(await begun(request, source.pieces()))

    async def unbegun(request: Request) -> Response:
        return sse(source.pieces())

    async def silent(request: Request) -> Response:
        return sse(await begun(request, source.silent()))

    async def working(request: Request) -> Response:
        return PlainTextResponse(await while_there(request, source.work()))

    async def lines(request: Request) -> Response:
        return ndjson(await begun(request, told("1\n", "2\n")))

    async def empty(request: Request) -> Response:
        return sse(await begun(request, told()))

    async def refused(request: Request) -> Response:
        return sse(await begun(request, told(end=BUSY)))

    async def ended(request: Request) -> Response:
        events = await begun(request, told("data: 1\n\n", end=BUSY))
        return sse(events, failed=lambda error: f"event: error\ndata: {error.code}\n\n")

    async def broken(request: Request) -> Response:
        events = await begun(request, told("data: 1\n\n", end=KeyError("secret")))
        return sse(events, failed=lambda error: f"data: {error}\n\n")

    async def mute(request: Request) -> Response:
        return sse(told("data: 1\n\n", end=InputError("no")), headers={"X-More": "1"})

    ends = (endless, unbegun, silent, working, lines, empty, refused, ended, broken, mute)
    app = Starlette(routes=[Route(f"/{one.__name__}", answering(one, failed)) for one in ends])
    with listen("127.0.0.1", 0) as listening, in_background(app, listening) as url:
        yield Client(url)


def test_lines_come_as_they_are_and_nobody_keeps_them(client: Client) -> None:
    answer = client.get("/lines")
    assert answer.text == "1\n2\n"
    assert answer.headers["Content-Type"] == "application/x-ndjson"
    assert answer.headers["Cache-Control"] == "no-store"
    assert client.get("/mute").headers["Content-Type"] == "text/event-stream; charset=utf-8"
    assert client.get("/mute").headers["X-More"] == "1"
    assert client.get("/empty").text == ""


def test_an_error_before_the_first_piece_has_a_status(client: Client) -> None:
    answer = client.get("/refused")
    assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
    assert "[engine.busy]" in answer.text


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/ended", "data: 1\n\nevent: error\ndata: engine.busy\n\n"),
        ("/mute", "data: 1\n\n"),
        (
            "/broken",
            "data: 1\n\ndata: The server failed at this request (KeyError). Its log has "
            "the details. [internal]\n\n",
        ),
    ],
)
def test_an_error_later_is_the_last_that_is_said(client: Client, path: str, text: str) -> None:
    answer = client.get(path)
    assert (answer.status, answer.text) == (200, text)


@pytest.mark.parametrize("path", ["/endless", "/unbegun", "/silent", "/working"])
def test_what_nobody_waits_for_is_ended(client: Client, source: Source, path: str) -> None:
    with client.connect() as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        assert source.begun.wait(SECONDS)
    assert source.closed.wait(SECONDS)


def test_who_does_not_read_is_sent_no_more_than_buffers_hold(
    client: Client, source: Source
) -> None:
    with client.connect() as connection:
        connection.sendall(b"GET /endless HTTP/1.1\r\nHost: a\r\n\r\n")
        assert source.begun.wait(SECONDS)
        assert client.get("/lines").text == "1\n2\n"
        connection.close()
    assert source.closed.wait(SECONDS)


@pytest.mark.parametrize("items", [[], [1], [[0.5, 2], "three", {"four": 4}]])
@pytest.mark.parametrize("value", [{}, {"object": "list", "more": {"a": [1]}}])
def test_a_list_written_an_item_at_a_time_is_one_object(
    value: dict[str, object], items: list[object]
) -> None:
    async def whole() -> str:
        pieces = json_list(value, "data", iter(items)).body_iterator
        return "".join([str(piece) async for piece in pieces])

    assert json.loads(asyncio.run(whole())) == {**value, "data": items}
