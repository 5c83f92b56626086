"""One socket: what its client says, and what its generations send in turn."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from anyio import to_thread
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from edgewise.hosting.tabs import Tabs
from edgewise.server.reading import AT_ONCE
from edgewise.server.socket.generations import Generation, Generations
from edgewise.server.socket.lender import Lender, SocketLine
from edgewise.server.socket.lending import TabMessage
from edgewise.server.socket.protocol import (
    SUBPROTOCOL,
    Accepted,
    Cancel,
    ClientMessage,
    Failed,
    MessageError,
    Ping,
    Pong,
    Resume,
    Start,
    Written,
    read,
    write,
)
from edgewise_runtime.errors import EdgewiseError, EngineError, InputError

REPLIES = 64
"""That wait to be sent at most: while there are as many, nothing more is read."""
WRONG = 16
"""Messages in a row that are none."""


@dataclass(frozen=True)
class Limits:
    """What one socket may have.

    Attributes:
        open: generations.
        pieces, bytes: that came for it and are not sent: who has more does not read.
    """

    open: int = 32
    pieces: int = 1024
    bytes: int = 4 << 20


@dataclass(frozen=True)
class Close:
    """Why a socket is closed, as its close frame says."""

    code: int
    reason: str


TAB_LOST = 4002
"""Closes the socket of a tab that is done without; the reason is the code of the error."""
TEXT_ONLY = Close(1003, "messages are text frames")
TOO_WRONG = Close(1008, f"{WRONG} messages in a row were none")
STALLED = Close(4001, "pieces were not read; resume")


class Connection:
    """A socket and its generations, which outlive it for a while."""

    def __init__(
        self,
        socket: WebSocket,
        generations: Generations,
        limits: Limits | None = None,
        tabs: Mapping[str, Tabs] | None = None,
    ) -> None:
        """Args: tabs: of the models that its client may lend a GPU to."""
        self._socket = socket
        self._lender = Lender(tabs or {}, SocketLine(self._reply, self._hang_up))
        self._generations = generations
        self._limits = limits or Limits()
        self._open: dict[str, Generation] = {}
        # Generations that have something to send, each once.
        self._ready: deque[Generation] = deque()
        self._replies: deque[str] = deque()
        self._to_send = asyncio.Event()
        self._sent = asyncio.Event()
        self._closing: asyncio.Future[Close] = asyncio.get_running_loop().create_future()
        self._wrong = 0

    async def run(self) -> None:
        """Take and send messages until the socket is closed by either side."""
        await self._socket.accept(SUBPROTOCOL)
        tasks = [asyncio.ensure_future(self._receive()), asyncio.ensure_future(self._send())]
        try:
            ends: list[asyncio.Future[None] | asyncio.Future[Close]] = [*tasks, self._closing]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._lender.left()
            self._ready.clear()
            for generation in self._open.values():
                self._generations.leave(generation)
            self._open.clear()
        if self._closing.done() and self._socket.application_state is WebSocketState.CONNECTED:
            close = self._closing.result()
            with suppress(WebSocketDisconnect):
                await self._socket.close(close.code, close.reason)
        for task in tasks:
            _raise_unless_left(task)

    def come(self, generation: Generation) -> None:
        """See `Outlet`. A client that does not read loses its socket, and holds up nobody."""
        if generation not in self._ready:
            self._ready.append(generation)
        self._to_send.set()
        fresh = [one.fresh for one in self._open.values()]
        pieces, size = sum(count for count, _ in fresh), sum(size for _, size in fresh)
        # What ends a generation is one message however long it is.
        if not generation.ended and (pieces > self._limits.pieces or size > self._limits.bytes):
            self._close(STALLED)

    def moved(self, generation: Generation) -> None:
        """See `Outlet`."""
        self._forget(generation)
        error = EngineError(
            f"Generation {generation.id!r} was resumed at another socket.", code="engine.moved"
        )
        self._reply(Failed(error, generation.id))

    async def _receive(self) -> None:
        while True:
            while len(self._replies) >= REPLIES:
                self._sent.clear()
                await self._sent.wait()
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                return
            text = message.get("text")
            if text is None:
                self._close(TEXT_ONLY)
                return
            await self._take(text)

    async def _take(self, text: str) -> None:
        try:
            if len(text) <= AT_ONCE:
                message = read(text)
            else:
                message = await to_thread.run_sync(read, text)
            self._wrong = 0
            self._answer(message)
        except MessageError as error:
            self._wrong += 1
            self._lender.wrong(error)
            # What is wrong with a message is no end of a generation that has its id.
            self._reply(Failed(error, None if error.id in self._open else error.id))
            if self._wrong >= WRONG:
                self._close(TOO_WRONG)

    def _answer(self, message: ClientMessage) -> None:
        match message:
            case Start() | Resume():
                self._begin(message)
            case Cancel(id):
                # Of one that has just ended, perhaps, which its client could not know.
                if generation := self._open.get(id):
                    generation.cancel()
            case Ping(echo):
                self._reply(Pong(echo))
            case _:
                self._lend(message)

    def _lend(self, message: TabMessage) -> None:
        try:
            self._lender.take(message)
        except EdgewiseError as error:
            if self._lender.lends:
                self._lender.wrong(error)
            else:
                self._reply(Failed(error))

    def _hang_up(self, error: EdgewiseError) -> None:
        self._reply(Failed(error))
        self._close(Close(TAB_LOST, error.code))

    def _begin(self, message: Start | Resume) -> None:
        if message.id in self._open:
            error = InputError(
                f"There is a generation {message.id!r} on this socket.",
                remedy="Give each an id of its own.",
                code="input.id",
            )
            self._reply(Failed(error))
            return
        try:
            self._check_room()
            begin = self._generations
            generation = (
                begin.start(self, message)
                if isinstance(message, Start)
                else begin.resume(self, message)
            )
        except EdgewiseError as error:
            self._reply(Failed(error, message.id))
            return
        self._open[generation.id] = generation
        self._reply(Accepted(generation.id, generation.secret, generation.kept.cursor))
        if generation.kept.waiting:
            self._ready.append(generation)
        elif generation.ended:
            self._finish(generation)

    def _check_room(self) -> None:
        if len(self._open) >= self._limits.open:
            raise EngineError(
                f"{len(self._open)} generations are open on this socket.",
                remedy="Wait for one of them to end.",
                code="engine.busy",
            )

    async def _send(self) -> None:
        while True:
            text = self._next()
            if text is None:
                self._to_send.clear()
                await self._to_send.wait()
                continue
            await self._socket.send_text(text)
            self._sent.set()

    def _next(self) -> str | None:
        """What is sent next: replies first, then of each generation a message in turn."""
        if self._replies:
            return self._replies.popleft()
        if not self._ready:
            return None
        generation = self._ready.popleft()
        text = generation.kept.take()
        if generation.kept.waiting:
            self._ready.append(generation)
        elif generation.ended:
            self._finish(generation)
        return text

    def _finish(self, generation: Generation) -> None:
        """All of it is sent. Whether it came nobody knows: it can be resumed for a while."""
        self._forget(generation)
        self._generations.leave(generation)

    def _forget(self, generation: Generation) -> None:
        del self._open[generation.id]
        if generation in self._ready:
            self._ready.remove(generation)

    def _reply(self, message: Written) -> None:
        self._replies.append(write(message))
        self._to_send.set()

    def _close(self, close: Close) -> None:
        if not self._closing.done():
            self._closing.set_result(close)


def _raise_unless_left(task: asyncio.Future[None]) -> None:
    """Raise what a task failed of, except that its client has left."""
    error = None if task.cancelled() else task.exception()
    if error is not None and not isinstance(error, WebSocketDisconnect):
        raise error
