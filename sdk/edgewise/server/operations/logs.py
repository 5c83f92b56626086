"""A line on stderr for each request, and an id that its answer names.

What is logged is numbers and words of ours: routes by their templates, names of models that there
are, codes. Never a prompt, an answer, a key, a path, an address or any other text of a client's,
but for the id that it gave its request.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Literal, TextIO, get_args

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket

from edgewise.server import failing
from edgewise.server.operations.counts import METHODS, Counts
from edgewise.server.operations.entry import CURRENT, LEFT, Entry, request_id
from edgewise_runtime.errors import EdgewiseError
from edgewise_runtime.shown import shown

LogFormat = Literal["text", "json", "none"]
FORMATS: tuple[LogFormat, ...] = get_args(LogFormat)
HEADER = "X-Request-Id"
INTERNAL = "Something went wrong inside edgewise. The server's log says where."
LOOKS = ("GET", "HEAD", "OPTIONS")
NOT_ANSWERED = failing.LEFT
"""What a request is counted as whose client left before an answer began."""

QUIET = frozenset({"/health", "/ready", "/metrics"})
"""Routes that are asked every few seconds: logged only where they fail."""


class Log:
    """Where lines go. Whoever reads them may have gone: then they are lost, and nothing else."""

    def __init__(self, form: LogFormat = "text", file: TextIO | None = None) -> None:
        """`file`: instead of stderr."""
        self._form = form
        self._file = file

    def request(self, entry: Entry) -> None:
        """A request is over. People are not shown each file that a browser fetched."""
        fine = entry.status is None or entry.status < 500
        looks = self._form == "text" and entry.method in LOOKS and not entry.model
        if fine and (looks or entry.route in QUIET):
            return
        self.event("request", entry.to_json())

    def event(self, name: str, said: Mapping[str, Any]) -> None:
        """Something happened; `said` holds numbers and words of ours."""
        if self._form == "none":
            return
        now = datetime.now(UTC)
        if self._form == "json":
            line = json.dumps(
                {"time": now.isoformat(timespec="milliseconds"), "event": name, **said}
            )
        else:
            line = f"{now.astimezone():%H:%M:%S} {_for_people(name, said)}"
        # Not by rich: its console ends the process where nobody reads what it writes.
        file = sys.stderr if self._file is None else self._file
        with suppress(OSError, ValueError, AttributeError):  # gone, closed, or none at all
            file.write(f"{shown(line)}\n")
            file.flush()


def _request(said: Mapping[str, Any]) -> str:
    """A request as people read it."""
    parts = [
        f"{said['method']} {said['route'] or '-'} {said['status'] or '-'}",
        f"{said['duration_s']:.2f} s",
    ]
    if "model" in said:
        cached = f" ({said['cached_tokens']} cached)" if said["cached_tokens"] else ""
        tokens = f"{said['prompt_tokens']}{cached} → {said['completion_tokens']} tokens"
        parts += [said["model"], tokens]
        parts += [] if said["ttft_s"] is None else [f"first after {said['ttft_s']:.2f} s"]
    parts += [said["ended"]] if "ended" in said else []
    parts += [f"{said['error']} at {said['at']}"] if "error" in said else []
    parts += [f"{said['agent_lines']} line replaced"] if "agent_lines" in said else []
    return " · ".join([*parts, said["request_id"]])


def _for_people(name: str, said: Mapping[str, Any]) -> str:
    if name == "request":
        return _request(said)
    return " ".join([name, *(f"{key}={value}" for key, value in said.items())])


class Logged:
    """ASGI middleware, the outermost: gives each request its id, logs it and counts it."""

    def __init__(self, app: ASGIApp, log: Log, counts: Counts) -> None:
        self._app = app
        self._log = log
        self._counts = counts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        socket = scope["type"] == "websocket"
        method = "WS" if socket else scope["method"]
        entry = Entry(
            request_id(Headers(scope=scope).get(HEADER, "")),
            method if socket or method in METHODS else "other",
            socket=socket,
        )
        token = CURRENT.set(entry)
        self._opened(socket, 1)
        try:
            await self._app(scope, receive, self._noting(entry, scope, send))
        except ClientDisconnect:
            entry.ended[LEFT] = None
        except Exception as error:
            entry.on_failed(error)
            await _broken(entry, scope, receive, self._noting(entry, scope, send))
        finally:
            CURRENT.reset(token)
            self._opened(socket, -1)
            self._over(entry, scope)

    def _over(self, entry: Entry, scope: Scope) -> None:
        entry.route = _route(scope)
        if not entry.socket:
            status = entry.status or NOT_ANSWERED
            self._counts.on_answered(entry.route, entry.method, status)
            if status == NOT_ANSWERED:
                entry.ended[LEFT] = None
        self._log.request(entry)

    def _opened(self, socket: bool, change: int) -> None:
        if socket:
            self._counts.open_sockets += change
        else:
            self._counts.open_requests += change

    def _noting(self, entry: Entry, scope: Scope, send: Send) -> Send:
        async def send_noted(message: Message) -> None:
            if (status := _status(message)) is not None:
                entry.status = status
                entry.route = _route(scope)
                message.setdefault("headers", [])
                MutableHeaders(scope=message)[HEADER] = entry.id
            await send(message)

        return send_noted


def _status(message: Message) -> int | None:
    """The status that an answer begins with; None for what begins none."""
    if message["type"] == "websocket.accept":
        return 101
    begins = message["type"] in ("http.response.start", "websocket.http.response.start")
    return int(message["status"]) if begins else None


def _route(scope: Scope) -> str:
    """The template of the route that a request was for; none that is ours where it had none."""
    return str(getattr(scope.get("route"), "path", ""))


async def _broken(entry: Entry, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer 500 where no answer began; uvicorn closes the connection where one did."""
    if not entry.socket and entry.status is None:
        write = scope.get(failing.FAILED, failing.failed)
        await write(EdgewiseError(INTERNAL, code="internal"))(scope, receive, send)
    elif entry.socket:
        with suppress(Exception):  # it may be closed already
            await WebSocket(scope, receive, send).close(1011)
