"""What every request passes: who may ask, how, and the headers of every answer."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from edgewise.server.api import ApiRoute
from edgewise.server.content import check_type
from edgewise.server.failing import FAILED, headers_of, status_of
from edgewise.server.keys import Key
from edgewise.server.socket.tickets import tickets_of
from edgewise_runtime.errors import EdgewiseError, InputError

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
        self._api = tuple(one for one in api if isinstance(one, ApiRoute))
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

        route = self._route(scope)
        scope[FAILED] = failed = _text if route is None else route.failed
        check = self._check_socket if scope["type"] == "websocket" else self._checked
        try:
            answered = check(scope) or self._app
        except InputError as error:
            answered = failed(error)
            answered.headers.update(self._explained(error, scope))
        await answered(scope, receive, send_with_headers)

    def _check_socket(self, scope: Scope) -> None:
        """Refuse the handshake of a WebSocket without the key or a ticket, where one is wanted."""
        headers = Headers(scope=scope)
        self._check_stranger(scope, headers)
        _check_size(scope)
        if self._key is None or self._key.is_in(headers):
            return
        if not tickets_of(scope["app"]).redeem(scope["subprotocols"]):
            raise InputError(
                "This server wants its API key: Authorization: Bearer KEY.",
                remedy="Pages send a ticket of POST /v1/ws/ticket, which is good once, as a "
                "subprotocol.",
                code="input.key",
            )

    def _check_stranger(self, scope: Scope, headers: Headers) -> None:
        """Refuse what asks under another name, or comes from another site's page."""
        host = headers.get("host", "")
        if name_of(host) not in self._hosts:
            raise InputError(
                f"This server does not answer to the name {host[:80]!r}.",
                remedy="Open it as localhost, or start it with --allow-host and that name.",
                code="input.host",
            )
        origin = headers.get("origin")
        if origin is not None and origin not in self._origins and not _is_own(origin, host, scope):
            raise InputError(
                f"Pages of {origin[:80]!r} may not use this server.",
                remedy="Open its own, or start it with --allow-origin and that origin.",
                code="input.origin",
            )

    def _checked(self, scope: Scope) -> Response | None:
        """The answer to a browser that asks whether it may ask; None for what may go on."""
        headers = Headers(scope=scope)
        self._check_stranger(scope, headers)
        origin = headers.get("origin")
        methods = self._methods(scope)
        if scope["method"] == "OPTIONS" and origin in self._origins:
            sent = ", ".join(("Range", *API_HEADERS)) if methods else "Range"
            said = {
                "Access-Control-Allow-Methods": ", ".join(methods or METHODS),
                "Access-Control-Allow-Headers": sent,
            }
            return Response(None, 204, {**PREFLIGHT, **said})
        if scope["method"] not in (methods or METHODS):
            allowed = " and ".join(methods or METHODS)
            raise InputError(
                f"Only {allowed} are answered here.",
                remedy="Ask with one of them, or check the path.",
                code="input.method",
            )
        _check_size(scope)
        if methods:
            self._check_call(scope, headers)
        return None

    def _check_call(self, scope: Scope, headers: Headers) -> None:
        """Refuse a request to an API that has no key, or no JSON: forms need nobody's leave."""
        if self._key and scope["path"] not in OPEN and not self._key.is_in(headers):
            raise InputError(
                "This server wants its API key.",
                remedy="Send it: Authorization: Bearer KEY, or x-api-key: KEY.",
                code="input.key",
            )
        if scope["method"] == "POST":
            check_type(headers)

    def _explained(self, error: InputError, scope: Scope) -> dict[str, str]:
        """The headers that a refusal has besides."""
        if error.code == "input.method":
            return {"Allow": ", ".join(self._methods(scope) or METHODS)}
        is_call = error.code == "input.key" and scope["type"] == "http"
        return {"WWW-Authenticate": "Bearer"} if is_call else {}

    def _route(self, scope: Scope) -> ApiRoute | None:
        """The route of the API that a path has, whatever its method is.

        The first pattern that matches decides, as routes that answer all paths come last.
        """
        if scope["type"] != "http":
            return None
        return next((one for one in self._api if one.matches(scope)[0] is not Match.NONE), None)

    def _methods(self, scope: Scope) -> tuple[str, ...]:
        """The methods that a path of the API has; none where it is no path of the API."""
        route = self._route(scope)
        path = None if route is None else route.path
        found = {method for one in self._api if one.path == path for method in one.methods or ()}
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


def _check_size(scope: Scope) -> None:
    if len(scope["raw_path"]) + len(scope["query_string"]) > MAX_URL:
        raise InputError(
            f"URLs have at most {MAX_URL} characters.",
            remedy="Send what is long in the body.",
            code="input.url",
        )
    if sum(len(name) + len(value) for name, value in scope["headers"]) > MAX_HEADERS:
        raise InputError(
            f"Headers have at most {MAX_HEADERS} bytes.",
            remedy="Send fewer, or shorter ones.",
            code="input.headers",
        )


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


def _text(error: EdgewiseError) -> Response:
    return PlainTextResponse(f"{error.said}\n", status_of(error), headers_of(error))


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"
