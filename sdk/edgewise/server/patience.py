"""Connections that keep a place and do nothing with it are closed.

uvicorn answers 503 once it has as many connections as it may have, and waits for ever for a request
that does not come, or for a client that does not read. Some hundred of those would keep everybody
else out.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from edgewise.server.gathering import Gathering

REQUEST_SECONDS = 20.0
"""For the whole head of a request, from the connection or the last answer on."""

STALL_SECONDS = 60.0
"""For a client to take some of what waits to be sent."""


class PatientProtocol(H11Protocol):
    """HTTP/1.1 for clients that ask within `REQUEST_SECONDS` and read within `STALL_SECONDS`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._asking: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None
        self._leaving: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        gathering: Any = Gathering(transport)
        super().connection_made(gathering)
        self._gathering: Gathering = gathering
        self._wait_for_request()

    def handle_websocket_upgrade(self, event: Any) -> None:
        self.transport = self._gathering.plain()
        super().handle_websocket_upgrade(event)

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._asking, self._stalled, self._leaving):
            _cancel(timer)
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._wait_for_request()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stalled = self.loop.call_later(STALL_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        _cancel(self._stalled)

    def _wait_for_request(self) -> None:
        _cancel(self._asking)
        self._asking = self.loop.call_later(REQUEST_SECONDS, self._give_up)

    def _give_up(self) -> None:
        if self.transport.get_protocol() is not self:
            return  # it is a WebSocket's now, which has its own patience
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()
            self._see_off(self.transport.get_write_buffer_size())

    def _see_off(self, waiting: int) -> None:
        """Closing waits until the last bytes are taken, which are too few to pause for: whoever
        takes none of them is dropped."""
        self._leaving = self.loop.call_later(STALL_SECONDS, self._look_after, waiting)

    def _look_after(self, waiting: int) -> None:
        left = self.transport.get_write_buffer_size()
        if left < waiting:
            self._see_off(left)
        else:
            self.transport.abort()


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
