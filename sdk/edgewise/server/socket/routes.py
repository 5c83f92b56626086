"""The routes of the WebSocket: itself, and tickets for pages."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, WebSocketRoute
from starlette.websockets import WebSocket

from edgewise.hosting.base import Models
from edgewise.hosting.tabs import Tabs
from edgewise.server.api import Api, Operation
from edgewise.server.failing import Failure, failed
from edgewise.server.socket.connection import Connection, Limits
from edgewise.server.socket.generations import Bounds, Generations, Later
from edgewise.server.socket.protocol import SUBPROTOCOL
from edgewise.server.socket.tickets import tickets_of
from edgewise.server.wire_types import Shape, Strict

PATH = "/v1/ws"
TICKETS = "/v1/ws/ticket"
SOCKETS = 64
"""Sockets at a time."""


def routes(
    models: Models,
    *,
    bounds: Bounds | None = None,
    limits: Limits | None = None,
    sockets: int = SOCKETS,
    later: Later | None = None,
    tabs: Mapping[str, Tabs] | None = None,
) -> list[BaseRoute]:
    """The routes over these models.

    Args:
        bounds, later: of `Generations`.
        limits: of one socket.
        sockets: open at a time.
        tabs: of the models that clients may lend their GPU to, by name.
    """
    served = _Sockets(Generations(models, bounds, later), limits or Limits(), sockets, tabs or {})
    return [WebSocketRoute(PATH, served.socket), *API.routes()]


class TicketRequest(Strict):
    """Nothing: what says that it is JSON is sent by no form."""


class Ticket(Shape):
    """The subprotocols that a page opens its socket with, and for how many seconds it may."""

    protocols: list[str]
    expires_in: float


async def ticket(request: Request) -> Response:
    """A ticket for a page, as the subprotocols that it opens its socket with."""
    tickets = tickets_of(request.app)
    said = {"protocols": [SUBPROTOCOL, tickets.issue()], "expires_in": tickets.seconds}
    return JSONResponse(said, headers={"Cache-Control": "no-store"})


API = Api(
    "socket",
    failed,
    Failure,
    (
        Operation(
            method="POST",
            path=TICKETS,
            summary="A ticket.",
            endpoint=ticket,
            answered=Ticket,
            asked=TicketRequest,
        ),
    ),
)
"""What has a document; of sockets docs/protocol.md tells."""


class _Sockets:
    def __init__(
        self, generations: Generations, limits: Limits, sockets: int, tabs: Mapping[str, Tabs]
    ) -> None:
        self._generations = generations
        self._limits = limits
        self._most = sockets
        self._tabs = tabs
        self._open = 0

    async def socket(self, socket: WebSocket) -> None:
        """One socket, from its handshake to its end."""
        if SUBPROTOCOL not in socket.scope["subprotocols"]:
            await _deny(socket, 400, f"Sockets here speak the subprotocol {SUBPROTOCOL}.")
        elif self._open >= self._most:
            await _deny(socket, 503, f"{self._open} sockets are open, which is as many as may be.")
        else:
            self._open += 1
            try:
                await Connection(socket, self._generations, self._limits, self._tabs).run()
            finally:
                self._open -= 1


async def _deny(socket: WebSocket, status: int, text: str) -> None:
    headers = {"Cache-Control": "no-store"}
    await socket.send_denial_response(PlainTextResponse(f"{text}\n", status, headers))
