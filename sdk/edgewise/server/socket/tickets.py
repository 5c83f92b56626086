"""Tickets: what a page shows instead of the key, which browsers send with no WebSocket.

A page has two places for it: the URL, which ends up in logs and histories, and the list of
subprotocols, which does not. So a ticket is a subprotocol; it is good once and not for long,
because headers are sometimes logged, too.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from hashlib import sha256
from hmac import compare_digest
from time import monotonic
from typing import TYPE_CHECKING

from edgewise_runtime.errors import EngineError

if TYPE_CHECKING:
    from starlette.applications import Starlette

PREFIX = "edgewise.ticket."
SECONDS = 30.0
MOST = 256
"""Tickets that are good at a time."""


class Tickets:
    """Those of one server that are good. For one event loop."""

    def __init__(
        self, *, seconds: float = SECONDS, most: int = MOST, clock: Callable[[], float] = monotonic
    ) -> None:
        self.seconds = seconds
        self._most = most
        self._clock = clock
        self._until: dict[bytes, float] = {}

    def issue(self) -> str:
        """A new ticket, as a subprotocol. Raises EngineError ``engine.busy`` for too many."""
        self._forget()
        if len(self._until) >= self._most:
            raise EngineError(
                f"{self._most} tickets are waiting to be used.",
                remedy="Ask again in a moment, just before a socket is opened.",
                code="engine.busy",
            )
        ticket = PREFIX + secrets.token_urlsafe(32)
        self._until[_digest(ticket)] = self._clock() + self.seconds
        return ticket

    def redeem(self, subprotocols: Iterable[str]) -> bool:
        """Whether one of the subprotocols is a ticket that is good; it is not so afterwards."""
        self._forget()
        shown = [_digest(one) for one in subprotocols if one.startswith(PREFIX)][:1]
        # All are compared always: how long it takes tells nothing of any.
        found = [good for one in shown for good in self._until if compare_digest(one, good)]
        for one in found:
            del self._until[one]
        return bool(found)

    def _forget(self) -> None:
        now = self._clock()
        self._until = {one: until for one, until in self._until.items() if until > now}


def tickets_of(app: Starlette) -> Tickets:
    """The tickets of an application: its guard takes those that a route of it gave."""
    if not hasattr(app.state, "tickets"):
        app.state.tickets = Tickets()
    tickets: Tickets = app.state.tickets
    return tickets


def _digest(ticket: str) -> bytes:
    return sha256(ticket.encode("utf-8", "surrogatepass")).digest()
