"""Ending without breaking off answers: what runs goes on for a while, what comes is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from time import monotonic

from starlette.datastructures import MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket

from edgewise.server.failing import FAILED, failed
from edgewise_runtime.errors import EngineError

DRAIN_SECONDS = 30.0
ALWAYS = frozenset({"/health", "/ready", "/metrics"})
"""Paths that are answered until the end."""

DENIAL = "websocket.http.response"


class Drain:
    """Whether the server is ending, and whether what it was answering is answered.

    `begin` may be called by a signal handler; the rest is for the event loop.
    """

    def __init__(
        self, seconds: float = DRAIN_SECONDS, clock: Callable[[], float] = monotonic
    ) -> None:
        """Answers under way have `seconds` from `begin` on."""
        self._seconds = seconds
        self._clock = clock
        self._until: float | None = None
        self._open = 0

    @property
    def draining(self) -> bool:
        return self._until is not None

    @property
    def over(self) -> bool:
        """Whether the server may go: it is ending, and nothing is open or the time is up."""
        return self._until is not None and (self._open == 0 or self._clock() >= self._until)

    @property
    def left_s(self) -> float:
        """How long what is open may still take."""
        return 0.0 if self._until is None else max(self._until - self._clock(), 0.0)

    def begin(self) -> None:
        """Take nothing new. Beginning again does not prolong it."""
        if self._until is None:
            self._until = self._clock() + self._seconds

    def __enter__(self) -> None:
        """Something is being answered while the block runs."""
        self._open += 1

    def __exit__(self, *_: object) -> None:
        self._open -= 1

    def refusal(self, scope: Scope) -> Response:
        """What a request that came too late is told, in the words of its path."""
        error = EngineError(
            "This server is ending and takes no new requests.",
            remedy="Connect again in a while.",
            code="engine.draining",
        )
        response: Response = scope.get(FAILED, failed)(error)
        response.headers["Retry-After"] = str(max(math.ceil(self.left_s), 1))
        return response


class Draining:
    """ASGI middleware: counts what is answered, and refuses what comes once the server is ending.

    An open WebSocket does not hold the server up; the requests in it do, see `watched`.
    """

    def __init__(self, app: ASGIApp, drain: Drain) -> None:
        self._app = app
        self._drain = drain

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = scope["type"]
        if kind not in ("http", "websocket") or scope["path"] in ALWAYS:
            await self._app(scope, receive, send)
        elif self._drain.draining and kind == "http":
            await self._drain.refusal(scope)(scope, receive, self._last(send))
        elif self._drain.draining:
            await self._deny(WebSocket(scope, receive, send))
        elif kind == "http":
            with self._drain:
                await self._app(scope, receive, self._last(send))
        else:
            await self._app(scope, receive, send)

    async def _deny(self, socket: WebSocket) -> None:
        if DENIAL in socket.scope.get("extensions", {}):
            await socket.send_denial_response(self._drain.refusal(socket.scope))
        else:
            await socket.close(1013)

    def _last(self, send: Send) -> Send:
        """Answers say that no other follows on their connection, once the server is ending."""

        async def send_last(message: Message) -> None:
            if message["type"] == "http.response.start" and self._drain.draining:
                MutableHeaders(scope=message)["Connection"] = "close"
            await send(message)

        return send_last
