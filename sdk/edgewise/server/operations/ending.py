"""A uvicorn server that ends as `Drain` says: SIGTERM drains, a second signal leaves at once."""

from __future__ import annotations

import signal
import socket
from types import FrameType

import uvicorn

from edgewise.hosting.base import Models
from edgewise.server.operations.drain import Drain
from edgewise.server.operations.logs import Log


class DrainingServer(uvicorn.Server):
    """Takes connections while it drains, so that what comes is told so.

    Ctrl-C does not drain: who sits before it waits for nobody's answer.
    """

    def __init__(
        self, config: uvicorn.Config, drain: Drain, log: Log, models: Models | None = None
    ) -> None:
        """A server; `models` are closed when it has ended."""
        super().__init__(config)
        self._models = models
        self._drain = drain
        self._log = log
        self._said = False

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        again = self._drain.draining or self.should_exit
        if sig == signal.SIGTERM and not again:
            self._drain.begin()
            return
        super().handle_exit(sig, frame)
        self.force_exit = self.force_exit or again

    async def on_tick(self, counter: int) -> bool:
        """uvicorn asks ten times a second whether to leave."""
        if self._drain.draining and not self._drain.over and not self._said:
            self._said = True
            self._log.event("draining", {"seconds": round(self._drain.left_s, 1)})
        if self._drain.over and not self.should_exit:
            super().handle_exit(signal.SIGTERM, None)
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets)
        if self._models is not None:
            await self._models.close()
