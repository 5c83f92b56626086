"""Running the server: on an address until Ctrl-C, or in the background for a while."""

from __future__ import annotations

import asyncio
import errno
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from time import monotonic, sleep

import uvicorn
from starlette.types import ASGIApp

from edgewise.hosting.base import Models
from edgewise.server.guard import MAX_HEADERS, in_header
from edgewise.server.operations.ending import DrainingServer
from edgewise.server.operations.operations import Operations
from edgewise.server.patience import PatientProtocol
from edgewise.server.tls import Certificate
from edgewise_runtime.errors import InputError

MAX_CONNECTIONS = 256
IDLE_SECONDS = 15
END_SECONDS = 2
START_SECONDS = 10.0
PING_SECONDS = 20.0
"""Between pings of a WebSocket, and for the answer."""

_SAME_MACHINE = {"0.0.0.0": "127.0.0.1", "::": "::1"}


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one.

    Raises:
        InputError: ``serve.port`` or ``serve.host`` where the address cannot be had.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host.strip("[]"), port), family=family)
    except UnicodeError as cause:
        raise InputError(
            f"{host[:80]!r} is no address.", remedy="Try 127.0.0.1.", code="serve.host"
        ) from cause
    except OSError as cause:
        taken = cause.errno in (errno.EADDRINUSE, errno.EACCES)
        # Python appends the address to some reasons: the sentence has it already.
        reason = (cause.strerror or str(cause)).partition(" (while")[0]
        raise InputError(
            f"Cannot listen on {host} port {port}: {reason}.",
            remedy="Choose another with --port; 0 takes a free one."
            if taken
            else "Choose an address of this machine with --host.",
            code="serve.port" if taken else "serve.host",
        ) from cause


def url_of(listening: socket.socket, certificate: Certificate | None = None) -> str:
    """The address to open in a browser of this machine."""
    host, port = listening.getsockname()[:2]
    scheme = "https" if certificate else "http"
    return f"{scheme}://{in_header(_SAME_MACHINE.get(host, host))}:{port}/"


def run(
    app: ASGIApp,
    listening: socket.socket,
    certificate: Certificate | None = None,
    operations: Operations | None = None,
    models: Models | None = None,
) -> None:
    """Serve until Ctrl-C, by https given a certificate; answers under way have two more seconds.

    Args:
        operations: those of the application: SIGTERM lets answers go on as long as they say.
        models: closed at the end.
    """
    with suppress(KeyboardInterrupt):  # which uvicorn raises again once it has stopped
        _server(app, certificate, operations or Operations(), models).run(sockets=[listening])


@dataclass(frozen=True)
class Background:
    """A server that runs in a thread: its address, and the event loop that all of it runs in."""

    url: str
    loop: asyncio.AbstractEventLoop


@contextmanager
def in_background(
    app: ASGIApp, listening: socket.socket, certificate: Certificate | None = None
) -> Iterator[str]:
    """Serve in a thread while the block runs; gives the address.

    Raises:
        InputError: ``serve.start`` where it does not come up.
    """
    with in_thread(app, listening, certificate) as background:
        yield background.url


@contextmanager
def in_thread(
    app: ASGIApp,
    listening: socket.socket,
    certificate: Certificate | None = None,
    models: Models | None = None,
) -> Iterator[Background]:
    """As `in_background`, for who runs something beside it in its event loop.

    Args:
        models: closed at the end, in that loop.
    """
    server = _server(app, certificate, Operations(), models)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=_serve, args=(server, loop, listening), daemon=True)
    thread.start()
    deadline = monotonic() + START_SECONDS
    while not server.started and thread.is_alive() and monotonic() < deadline:
        sleep(0.01)
    try:
        if not server.started:
            raise InputError("The server did not start.", code="serve.start")
        yield Background(url_of(listening, certificate), loop)
    finally:
        server.should_exit = True
        thread.join(START_SECONDS)


def _serve(
    server: uvicorn.Server, loop: asyncio.AbstractEventLoop, listening: socket.socket
) -> None:
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(server.serve(sockets=[listening]))


def _server(
    app: ASGIApp,
    certificate: Certificate | None,
    operations: Operations,
    models: Models | None = None,
) -> uvicorn.Server:
    # Here: commands that serve nothing do not wait for the WebSockets to be imported.
    from edgewise.server.socket.protocol import MAX_MESSAGE
    from edgewise.server.socket.transport import SocketProtocol

    return DrainingServer(
        uvicorn.Config(
            app,
            access_log=False,
            h11_max_incomplete_event_size=MAX_HEADERS,
            http=PatientProtocol,
            lifespan="off",
            # Where uvloop is installed uvicorn would take it, which cannot start a process in a
            # group of its own, as models' are.
            loop="asyncio",
            limit_concurrency=MAX_CONNECTIONS,
            log_config=None,
            log_level="error",
            proxy_headers=False,
            server_header=False,
            ssl_context_factory=(lambda _, __: certificate.context) if certificate else None,
            timeout_graceful_shutdown=END_SECONDS,
            timeout_keep_alive=IDLE_SECONDS,
            ws=SocketProtocol,
            ws_max_size=MAX_MESSAGE,
            ws_per_message_deflate=False,  # small frames could unpack to large messages
            ws_ping_interval=PING_SECONDS,
            ws_ping_timeout=PING_SECONDS,
        ),
        operations.drain,
        operations.log,
        models,
    )
