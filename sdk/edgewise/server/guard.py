"""What every request passes: who may ask, how, and the headers of every answer."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from edgewise.server.content import check_type
from edgewise.server.keys import Key
from edgewise.server.socket.tickets import tickets_of
from edgewise_runtime.errors import InputError

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

PREFLIGHT = {"Access-Control-Max-Age": "600", "Cache-Control": "no-store"}
"""Of the answer to a browser that asks whether a page of an allowed origin may ask."""

_STAINLESS = "arch async custom-poll-interval helper-method lang os package-version poll-helper \
raw-response retry-count runtime runtime-version timeout"
API_HEADERS = (
    "Authorization",
    "Content-Type",
    "Idempotency-Key",
    "OpenAI-Beta",
    "OpenAI-Organization",
    "OpenAI-Project",
    "anthropic-beta",
    "anthropic-dangerous-direct-browser-access",
    "anthropic-version",
    "x-api-key",
    *(f"x-stainless-{name}" for name in _STAINLESS.split()),
)
"""What the clients of the APIs send from a page."""

OPEN = ("/health", "/ready")
"""Routes of the API that tell nobody anything, and need no key."""


class Guard:
    """ASGI middleware that refuses what a browser of this machine would not send.

    A page of another site can make a browser send requests here, also under a name that resolves
    to this machine (DNS rebinding): the Host header must be a name of this server, and an Origin,
    where there is one, the server itself or one of those it was told of, whose pages may read the
    answers (https://fetch.spec.whatwg.org/#http-cors-protocol).
    """

    def __init__(
        self,
        app: ASGIApp,
        hosts: Iterable[str],
        origins: Iterable[str] = (),
        *,
        api: Iterable[BaseRoute] = (),
        key: Key | None = None,
    ) -> None:
        """Guard an application.

        Args:
            api: routes that have methods of their own, take JSON and need the key.
        """
        self._app = app
        self._hosts = frozenset(map(in_header, (*LOCAL, *hosts)))
        self._origins = frozenset(origins)
        self._api = tuple(api)
        self._key = key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] in ("http.response.start", "websocket.http.response.start"):
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                self._share(headers, scope)
            await send(message)

        refused = (
            self._refuse_socket(scope) if scope["type"] == "websocket" else self._refuse(scope)
        )
        await (refused or self._app)(scope, receive, send_with_headers)

    def _refuse_socket(self, scope: Scope) -> Response | None:
        """Refuse the handshake of a WebSocket without the key or a ticket, where one is wanted."""
        headers = Headers(scope=scope)
        refused = self._refuse_stranger(scope, headers) or _refuse_size(scope)
        if refused or self._key is None or self._key.is_in(headers):
            return refused
        if tickets_of(scope["app"]).redeem(scope["subprotocols"]):
            return None
        return _text(
            401,
            "This server wants its API key: Authorization: Bearer KEY. Pages send a ticket of "
            "POST /v1/ws/ticket, which is good once, as a subprotocol.",
        )

    def _refuse_stranger(self, scope: Scope, headers: Headers) -> Response | None:
        """Refuse what asks under another name, or comes from another site's page."""
        host = headers.get("host", "")
        if name_of(host) not in self._hosts:
            return _text(
                421,
                f"This server does not answer to the name {host[:80]!r}. Open it as localhost, or "
                "start it with --allow-host and that name.",
            )
        origin = headers.get("origin")
        if origin is not None and origin not in self._origins and not _is_own(origin, host, scope):
            return _text(
                403,
                f"Pages of {origin[:80]!r} may not use this server: open its own, or start it with "
                "--allow-origin and that origin.",
            )
        return None

    def _refuse(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if refused := self._refuse_stranger(scope, headers):
            return refused
        origin = headers.get("origin")
        methods = self._methods(scope)
        allowed = ", ".join(methods or METHODS)
        if scope["method"] == "OPTIONS" and origin in self._origins:
            sent = ", ".join(("Range", *API_HEADERS)) if methods else "Range"
            said = {"Access-Control-Allow-Methods": allowed, "Access-Control-Allow-Headers": sent}
            return Response(None, 204, {**PREFLIGHT, **said})
        if scope["method"] not in (methods or METHODS):
            refused = _text(405, f"Only {allowed.replace(', ', ' and ')} are answered here.")
            refused.headers["Allow"] = allowed
            return refused
        if refused := _refuse_size(scope):
            return refused
        return self._refuse_call(scope, headers) if methods else None

    def _refuse_call(self, scope: Scope, headers: Headers) -> Response | None:
        """Refuse a request to an API that has no key, or no JSON: forms need nobody's leave."""
        if self._key and scope["path"] not in OPEN and not self._key.is_in(headers):
            refused = _text(
                401, "This server wants its API key: Authorization: Bearer KEY, or x-api-key: KEY."
            )
            refused.headers["WWW-Authenticate"] = "Bearer"
            return refused
        if scope["method"] == "POST":
            try:
                check_type(headers)
            except InputError as error:
                return _text(415, error.said)
        return None

    def _methods(self, scope: Scope) -> tuple[str, ...]:
        """The methods that a path of the API has; none where it is no path of the API."""
        routes = [one for one in self._api if isinstance(one, Route)]
        # The first pattern that the path has decides, as routes that answer all paths come last.
        path = next((one.path for one in routes if one.matches(scope)[0] is not Match.NONE), None)
        found = {method for one in routes if one.path == path for method in one.methods or ()}
        return tuple(sorted(found))

    def _share(self, headers: MutableHeaders, scope: Scope) -> None:
        """Say that a page of an allowed origin may read the answer; others differ in that."""
        if not self._origins:
            return
        headers.add_vary_header("Origin")
        origin = Headers(scope=scope).get("origin")
        if origin in self._origins:
            headers["Access-Control-Allow-Origin"] = origin
            headers["Access-Control-Expose-Headers"] = "Content-Range"


def _refuse_size(scope: Scope) -> Response | None:
    if len(scope["raw_path"]) + len(scope["query_string"]) > MAX_URL:
        return _text(414, f"URLs have at most {MAX_URL} characters.")
    if sum(len(name) + len(value) for name, value in scope["headers"]) > MAX_HEADERS:
        return _text(431, f"Headers have at most {MAX_HEADERS} bytes.")
    return None


def _is_own(origin: str, host: str, scope: Scope) -> bool:
    """Whether a page is of this server; without TLS a proxy with a certificate may stand before."""
    schemes = ("https",) if scope["scheme"] in ("https", "wss") else ("http", "https")
    return origin.lower() in [f"{scheme}://{host.lower()}" for scheme in schemes]


def in_header(host: str) -> str:
    """A name or address as it stands in a Host header: IPv6 in brackets, in lower case."""
    return f"[{host.lower()}]" if ":" in host and not host.startswith("[") else host.lower()


def name_of(host: str) -> str:
    """A Host header without its port, in lower case."""
    name, colon, port = host.lower().rpartition(":")
    return name if colon and port.isdecimal() else host.lower()


def _text(status: int, text: str) -> PlainTextResponse:
    return PlainTextResponse(f"{text}\n", status, {"Cache-Control": "no-store"})


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"
