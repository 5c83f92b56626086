"""uvicorn's side of a WebSocket, with bounds for clients that send and do not read.

uvicorn answers pings whether or not anybody takes the answers, joins any number of fragments, and
lets a connection that is closed wait for ever until its last bytes are taken.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame

STALL_SECONDS = 60.0
"""For a client to take some of what waits to be sent."""
LEAVE_SECONDS = 10.0
"""For a client to take the rest once its socket is closed."""
MAX_FRAGMENTS = 1024
"""Of one message."""
MAX_WAITING = 256
"""Messages that came at once and wait to be read."""
MAX_PONGS = 256 << 10
"""Bytes that wait to be sent while pings are still answered."""


class SocketProtocol(WebSocketsSansIOProtocol):
    """A WebSocket whose client takes what it is sent within `STALL_SECONDS`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._stalled: asyncio.TimerHandle | None = None
        self._leaving: asyncio.TimerHandle | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._stalled, self._leaving):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self.handshake_initiated:
            # All of the handshake comes at once: what is none of it is answered, and nothing waits.
            self.transport.write(b"".join(self.conn.data_to_send()))
            self._leave()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stalled = self.loop.call_later(STALL_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._stalled is not None:
            self._stalled.cancel()

    def handle_ping(self) -> None:
        if self.transport.get_write_buffer_size() > MAX_PONGS:
            self.transport.abort()
            return
        super().handle_ping()

    def handle_cont(self, event: Frame) -> None:
        if len(self.frames) >= MAX_FRAGMENTS:
            self._refuse(1008, f"messages have at most {MAX_FRAGMENTS} fragments")
            return
        super().handle_cont(event)

    def send_receive_event_to_app(self) -> None:
        if self.queue.qsize() >= MAX_WAITING:
            self._refuse(1008, f"at most {MAX_WAITING} messages at once")
            return
        if self.curr_msg_data_type == "text":
            self.frames = [b"".join(self.frames)]
            try:
                self.frames[0].decode()
            except UnicodeDecodeError:
                self._refuse(1007, "text is UTF-8")
                return
        super().send_receive_event_to_app()

    def handle_close(self, event: Frame) -> None:
        super().handle_close(event)
        self._leave()

    def handle_parser_exception(self) -> None:
        """Close a socket for what its client sent, as the protocol's own state says."""
        if self.close_sent:
            return
        said = self.conn.close_sent
        code, reason = (said.code, said.reason) if said else (1006, "")
        self.queue.put_nowait({"type": "websocket.disconnect", "code": code, "reason": reason})
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = True
        self._leave()
        if not self.transport.can_write_eof():
            self.transport.close()
            return
        # What the client is still sending would destroy the close frame if nobody took it.
        self.transport.write_eof()
        self.close_timer = self.loop.call_later(LEAVE_SECONDS, self.transport.abort)
        if self.read_paused:
            self.read_paused = False
            self.transport.resume_reading()

    def keepalive_timeout(self) -> None:
        super().keepalive_timeout()
        self._leave()

    async def send(self, message: Any) -> None:
        kind, more = message["type"], message.get("more_body", False)
        if kind == "websocket.close":
            self.writable.set()  # a client that reads nothing is told nonetheless, if ever it reads
        await self.writable.wait()
        if self.close_sent:
            raise ClientDisconnected
        await super().send(message)
        if kind == "websocket.http.response.body" and not more:
            self.handshake_complete = True  # as uvicorn says itself where it refuses
            self._leave()
        elif kind == "websocket.close":
            self._leave()

    def _refuse(self, code: int, reason: str) -> None:
        """Close a socket for what its client sent."""
        self.frames = []
        if not self.close_sent:
            self.conn.fail(code, reason)
            self.handle_parser_exception()

    def _leave(self) -> None:
        """Close the connection, at the latest in `LEAVE_SECONDS`."""
        if self._leaving is None:
            self._leaving = self.loop.call_later(LEAVE_SECONDS, self.transport.abort)
