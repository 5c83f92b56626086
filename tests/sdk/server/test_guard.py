"""Who may ask the server, how, and what every answer says to browsers."""

from __future__ import annotations

import pytest

from edgewise.server.guard import MAX_HEADERS, MAX_URL, in_header, name_of
from tests.sdk.server.client import Client

LISTING = "/api/bundles"


@pytest.mark.parametrize(
    "host",
    ["localhost", "LocalHost:1", "127.0.0.1", "[::1]", "[::1]:80", "my-box", "MY-BOX:99",
     "192.0.2.7", "[fd00::7]:5"],
)  # fmt: skip
def test_names_of_this_machine_are_answered(server: Client, host: str) -> None:
    assert server.get(LISTING, {"Host": host}).status == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8321", "localhost.evil.example", "localhost.", "127.0.0.2",
     "localhost:1:2", "localhost@evil.example", "::1", "0.0.0.0", "", "192.0.2.7.evil.example"],
)  # fmt: skip
def test_other_names_may_be_rebound_and_are_refused(server: Client, host: str) -> None:
    answer = server.get(LISTING, {"Host": host})
    assert answer.status == 421
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert "--allow-host" in answer.text
    assert "bundles" not in answer.text


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_pages_of_this_server_may_ask(server: Client, scheme: str) -> None:
    """With https too: a proxy with a certificate may stand before it."""
    for host in ("localhost:8321", "my-box"):
        headers = {"Host": host, "Origin": f"{scheme}://{host}"}
        assert server.get(LISTING, headers).status == 200


@pytest.mark.parametrize(
    "origin",
    ["https://evil.example", "http://localhost", "http://localhost:8322", "http://my-box:8321",
     "null", "", "file://localhost:8321", "localhost:8321"],
)  # fmt: skip
def test_pages_of_others_may_not(server: Client, origin: str) -> None:
    answer = server.get(LISTING, {"Host": "localhost:8321", "Origin": origin})
    assert answer.status == 403
    assert "Access-Control-Allow-Origin" not in answer.headers


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "BREW"])
def test_only_get_and_head_are_methods(server: Client, method: str) -> None:
    for path in (LISTING, "/", "/nowhere"):
        answer = server.get(path, method=method)
        assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        (LISTING, {}, 200),
        ("/bundles/none/bundle.json", {}, 404),
        ("/nowhere", {}, 404),
        (LISTING, {"Host": "evil.example"}, 421),
        (LISTING, {"Origin": "null"}, 403),
        (f"/{'a' * MAX_URL}", {}, 414),
        (f"/?{'a' * MAX_URL}", {}, 414),
        (LISTING, {"X-Long": "a" * MAX_HEADERS}, 431),
    ],
)
def test_every_answer_isolates_pages_and_lets_only_their_own_scripts_run(
    server: Client, path: str, headers: dict[str, str], status: int
) -> None:
    answer = server.get(path, headers)
    assert answer.status == status
    policy = dict(
        directive.split(" ", 1)
        for directive in answer.headers["Content-Security-Policy"].split("; ")
    )
    assert policy == {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "img-src": "'self' data: blob:",
        "font-src": "'self'",
        "connect-src": "'self'",
        "worker-src": "'self'",
        "manifest-src": "'self'",
        "object-src": "'none'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    assert answer.headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert answer.headers["Cross-Origin-Embedder-Policy"] == "require-corp"
    assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert "microphone=()" in answer.headers["Permissions-Policy"]
    assert "Server" not in answer.headers
    if status != 200:
        assert answer.headers["Cache-Control"] == "no-store"
        assert len(answer.body) < 400


def request(*lines: str) -> bytes:
    return "\r\n".join((*lines, "Connection: close", "", "")).encode("latin-1")


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (request("GET /api/bundles HTTP/1.1", "Host: localhost"), b"200"),
        (request("GET /api/bundles HTTP/1.0"), b"421"),
        (request("GET /api/bundles HTTP/1.1"), b"400"),
        (request("GET /api/bundles HTTP/1.1", "Host: localhost", "Host: evil.example"), b"400"),
        (request("GET http://evil.example/api/bundles HTTP/1.1", "Host: localhost"), b"404"),
        (request("GET /../../etc/passwd HTTP/1.1", "Host: localhost"), b"404"),
        (request("GET /%2e%2e/%2e%2e/etc/passwd HTTP/1.1", "Host: localhost"), b"404"),
        (request("GET //etc/passwd HTTP/1.1", "Host: localhost"), b"404"),
        (request("GET /%00 HTTP/1.1", "Host: localhost"), b"404"),
        (request("GET /%ff%fe HTTP/1.1", "Host: localhost"), b"404"),
        (request("GET /\xff HTTP/1.1", "Host: localhost"), b"400"),
        (request("GET / HTTP/1.1", "Host: localhost", "a" * MAX_HEADERS + ": b"), b"431"),
        (request(f"GET /{'a' * MAX_HEADERS} HTTP/1.1", "Host: localhost"), b"414"),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\na: " + b"b" * 2 * MAX_HEADERS, b"400"),
        (b"GET /" + b"a" * 2 * MAX_HEADERS, b"400"),
        (request("GET / HTTP/1.1", "Host: local\x00host"), b"400"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 TLS\r\n\r\n", b"400"),
        (b"hello\r\n\r\n", b"400"),
    ],
)
def test_bad_requests_are_answered_briefly_and_the_server_goes_on(
    server: Client, sent: bytes, status: bytes
) -> None:
    received = server.raw(sent)
    assert received.split(b" ", 2)[1] == status
    assert b"root:" not in received
    assert server.get(LISTING).status == 200


def test_a_websocket_is_not_opened(server: Client) -> None:
    upgrade = ("Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAA")
    received = server.raw(request("GET /nowhere HTTP/1.1", "Host: localhost", *upgrade))
    assert received.startswith(b"HTTP/1.1 404")


def test_a_body_nobody_asked_for_is_not_waited_for(server: Client) -> None:
    head = b"GET /api/bundles HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\nabc"
    with server.connect() as connection:
        connection.sendall(head)
        assert connection.recv(12) == b"HTTP/1.1 200"


def test_hosts_are_compared_as_they_stand_in_headers() -> None:
    assert [in_header(host) for host in ("::1", "[::1]", "My-Box")] == ["[::1]", "[::1]", "my-box"]
    assert [name_of(host) for host in ("[::1]:80", "[::1]", "a:b", "A:1")] == [
        "[::1]",
        "[::1]",
        "a:b",
        "a",
    ]
