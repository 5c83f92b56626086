"""What every request passes: who may ask, how, and the headers of every answer."""

from __future__ import annotations

from collections.abc import Iterable

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOCAL = ("localhost", "127.0.0.1", "[::1]")
METHODS = ("GET", "HEAD")
MAX_URL = 2048  # bytes of path and query
MAX_HEADERS = 16 << 10  # bytes, also of a request line

CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "font-src 'self'",
        "connect-src 'self'",
        "worker-src 'self'",
        "manifest-src 'self'",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)

HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), display-capture=(), geolocation=(), hid=(), microphone=(), "
    "midi=(), payment=(), serial=(), usb=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""Of every answer: the app runs its own scripts only, talks to this server only and isolates its
pages, so that what a model writes can neither run nor phone home."""


class Guard:
    """ASGI middleware that refuses what a browser of this machine would not send.

    A page of another site can make a browser send requests here, also under a name that resolves
    to this machine (DNS rebinding): the Host header must be a name of this server, and an Origin,
    where there is one, the server itself.
    """

    def __init__(self, app: ASGIApp, hosts: Iterable[str]) -> None:
        self._app = app
        self._hosts = frozenset(map(in_header, (*LOCAL, *hosts)))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        refused = self._refuse(scope)
        await (refused or self._app)(scope, receive, send_with_headers)

    def _refuse(self, scope: Scope) -> PlainTextResponse | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if name_of(host) not in self._hosts:
            return _text(
                421,
                f"This server does not answer to the name {host[:80]!r}. Open it as localhost, or "
                "start it with --allow-host and that name.",
            )
        origin = headers.get("origin")
        # https: where a proxy with a certificate stands before this server.
        if origin is not None and origin.lower().partition("://")[::2] not in (
            ("http", host.lower()),
            ("https", host.lower()),
        ):
            return _text(403, f"Pages of {origin[:80]!r} may not use this server: open its own.")
        if scope["method"] not in METHODS:
            refused = _text(405, "Only GET and HEAD are answered.")
            refused.headers["Allow"] = ", ".join(METHODS)
            return refused
        if len(scope["raw_path"]) + len(scope["query_string"]) > MAX_URL:
            return _text(414, f"URLs have at most {MAX_URL} characters.")
        if sum(len(name) + len(value) for name, value in scope["headers"]) > MAX_HEADERS:
            return _text(431, f"Headers have at most {MAX_HEADERS} bytes.")
        return None


def in_header(host: str) -> str:
    """A name or address as it stands in a Host header: IPv6 in brackets, in lower case."""
    return f"[{host.lower()}]" if ":" in host and not host.startswith("[") else host.lower()


def name_of(host: str) -> str:
    """A Host header without its port, in lower case."""
    name, colon, port = host.lower().rpartition(":")
    return name if colon and port.isdecimal() else host.lower()


def _text(status: int, text: str) -> PlainTextResponse:
    return PlainTextResponse(f"{text}\n", status, {"Cache-Control": "no-store"})
