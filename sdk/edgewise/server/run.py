"""Running the server: on an address until Ctrl-C, or in the background for a while."""

from __future__ import annotations

import errno
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic, sleep

import uvicorn
from starlette.applications import Starlette

from edgewise_runtime.errors import InputError

MAX_CONNECTIONS = 256
MAX_HEADERS = 16 << 10  # bytes
IDLE_SECONDS = 15
START_SECONDS = 10.0


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one.

    Raises:
        InputError: ``serve.port`` or ``serve.host`` where the address cannot be had.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host.strip("[]"), port), family=family)
    except OSError as cause:
        taken = cause.errno in (errno.EADDRINUSE, errno.EACCES)
        raise InputError(
            f"Cannot listen on {host} port {port}: {cause.strerror}.",
            remedy="Choose another --port." if taken else "Choose an address of this machine.",
            code="serve.port" if taken else "serve.host",
        ) from cause


def url_of(listening: socket.socket) -> str:
    """The address to open in a browser."""
    host, port = listening.getsockname()[:2]
    named = "localhost" if host in ("127.0.0.1", "::1", "0.0.0.0", "::") else host
    return f"http://{named}:{port}/"


def run(app: Starlette, listening: socket.socket) -> None:
    """Serve until Ctrl-C."""
    _server(app).run(sockets=[listening])


@contextmanager
def in_background(app: Starlette, listening: socket.socket) -> Iterator[str]:
    """Serve in a thread while the block runs; gives the address.

    Raises:
        InputError: ``serve.start`` where it does not come up.
    """
    server = _server(app)
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    deadline = monotonic() + START_SECONDS
    while not server.started and thread.is_alive() and monotonic() < deadline:
        sleep(0.01)
    try:
        if not server.started:
            raise InputError("The server did not start.", code="serve.start")
        yield url_of(listening)
    finally:
        server.should_exit = True
        thread.join(START_SECONDS)
        listening.close()


def _server(app: Starlette) -> uvicorn.Server:
    return uvicorn.Server(
        uvicorn.Config(
            app,
            access_log=False,
            h11_max_incomplete_event_size=MAX_HEADERS,
            http="h11",
            lifespan="off",
            limit_concurrency=MAX_CONNECTIONS,
            log_level="error",
            server_header=False,
            timeout_graceful_shutdown=2,
            timeout_keep_alive=IDLE_SECONDS,
            ws="none",
        )
    )
