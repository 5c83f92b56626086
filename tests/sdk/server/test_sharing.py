"""Pages of origins that the server was told of: they may read what it offers, nobody else may."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from edgewise.server.app import make_app
from edgewise.server.bundles import Offer
from edgewise.server.run import in_background, listen
from tests.sdk.server.client import Client

LISTING = "/api/bundles"
VITE, CHAT = "http://localhost:5173", "https://chat.example"
SAFE = {"Access-Control-Request-Method": "GET", "Access-Control-Request-Headers": "range"}


@pytest.fixture(scope="module")
def sharing(offered: Offer) -> Iterator[Client]:
    app = make_app({offered.name: offered}, {}, (), (VITE, CHAT))
    with listen("127.0.0.1", 0) as listening, in_background(app, listening) as url:
        yield Client(url)


@pytest.mark.parametrize("origin", [VITE, CHAT])
def test_pages_of_allowed_origins_may_read_bundles(
    sharing: Client, offered: Offer, origin: str
) -> None:
    for path in (LISTING, f"{offered.url}bundle.json", "/nowhere"):
        answer = sharing.get(path, {"Origin": origin})
        assert answer.status == (404 if path == "/nowhere" else 200)
        assert answer.headers["Access-Control-Allow-Origin"] == origin
        assert "Access-Control-Allow-Credentials" not in answer.headers


def test_they_may_ask_for_ranges_and_see_which_they_got(sharing: Client, offered: Offer) -> None:
    weights = next(name for name in offered.files if name.startswith("params/"))
    asked = sharing.get(f"{offered.url}{weights}", {"Origin": VITE} | SAFE, "OPTIONS")
    assert (asked.status, asked.body) == (204, b"")
    assert asked.headers["Access-Control-Allow-Origin"] == VITE
    assert asked.headers["Access-Control-Allow-Methods"] == "GET, HEAD"
    assert asked.headers["Access-Control-Allow-Headers"] == "Range"
    answer = sharing.get(f"{offered.url}{weights}", {"Origin": VITE, "Range": "bytes=0-63"})
    assert (answer.status, len(answer.body)) == (206, 64)
    exposed = answer.headers["Access-Control-Expose-Headers"].split(", ")
    assert {"Content-Range", "Retry-After", "X-Request-Id", "request-id"} == set(exposed)


def test_answers_differ_by_origin_and_say_so_to_caches(sharing: Client, server: Client) -> None:
    assert "Origin" in sharing.get(LISTING).headers["Vary"]
    assert "Origin" in sharing.get(LISTING, {"Origin": VITE}).headers["Vary"]
    assert "Access-Control-Allow-Origin" not in sharing.get(LISTING).headers
    assert "Origin" not in server.get(LISTING).headers.get("Vary", "")


@pytest.mark.parametrize(
    "origin",
    ["http://localhost:5174", "https://localhost:5173", "http://LOCALHOST:5173",
     "http://localhost:5173.evil.example", f"{VITE}, {CHAT}", "http://localhost", "null"],
)  # fmt: skip
@pytest.mark.parametrize("method", ["GET", "OPTIONS"])
def test_other_origins_are_refused_and_named(sharing: Client, origin: str, method: str) -> None:
    answer = sharing.get(LISTING, {"Origin": origin} | SAFE, method)
    assert answer.status == 403
    assert repr(origin) in answer.text
    assert "--allow-origin" in answer.text
    assert "Access-Control-Allow-Origin" not in answer.headers


def test_an_allowed_origin_allows_no_other_name_of_the_server(sharing: Client) -> None:
    headers = {"Host": "evil.example", "Origin": VITE}
    assert sharing.get(LISTING, headers).status == 421
    assert sharing.get(LISTING, headers | SAFE, "OPTIONS").status == 421


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_an_allowed_origin_may_only_read(sharing: Client, method: str) -> None:
    assert sharing.get(LISTING, {"Origin": VITE}, method).status == 405


@pytest.mark.parametrize(("origin", "status"), [(VITE, 404), ("https://evil.example", 403)])
def test_a_websocket_is_opened_for_nobody(sharing: Client, origin: str, status: int) -> None:
    received = sharing.raw(
        "\r\n".join(
            ("GET /nowhere HTTP/1.1", "Host: localhost", f"Origin: {origin}", "Upgrade: websocket",
             "Connection: Upgrade", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAA",
             "Connection: close", "", "")
        ).encode()
    )  # fmt: skip
    assert received.startswith(f"HTTP/1.1 {status}".encode())
