"""Who may open a socket: by name, by origin, with the key or a ticket."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from websockets.exceptions import InvalidStatus

from edgewise.server.app import make_app
from edgewise.server.run import in_background, listen
from edgewise.server.socket.tickets import PREFIX
from tests.sdk.server.client import Client
from tests.sdk.server.models import Some
from tests.sdk.server.socket.talk import V1, talk

KEY = "sk-edgewise-0123456789"
VITE = "http://localhost:5173"
BEARER = {"Authorization": f"Bearer {KEY}"}


@pytest.fixture(scope="module")
def guarded() -> Iterator[Client]:
    app = make_app({}, {}, ["my-box"], [VITE], models=Some({}), api_key=KEY)
    with listen("127.0.0.1", 0) as listening, in_background(app, listening) as url:
        yield Client(url)


@pytest.fixture(scope="module")
def free() -> Iterator[Client]:
    app = make_app({}, {}, ["my-box"], [VITE], models=Some({}))
    with listen("127.0.0.1", 0) as listening, in_background(app, listening) as url:
        yield Client(url)


def opens(client: Client, *protocols: str, **options: object) -> bool:
    with talk(client.url, *protocols, **options) as found:  # type: ignore[arg-type]
        found.send(type="ping")
        return found.next()["type"] == "pong"


def refused(client: Client, *protocols: str, **options: object) -> tuple[int, str]:
    with pytest.raises(InvalidStatus) as error:
        opens(client, *protocols, **options)
    response = error.value.response
    return response.status_code, bytes(response.body or b"").decode()


def ticket(client: Client, **headers: str) -> list[str]:
    sent = {**BEARER, "Content-Type": "application/json", **headers}
    answer = client.get("/v1/ws/ticket", sent, "POST")
    assert answer.status == 200
    assert answer.headers["Cache-Control"] == "no-store"
    said = json.loads(answer.body)
    assert said["expires_in"] == 30
    protocols: list[str] = said["protocols"]
    return protocols


def test_a_socket_speaks_v1(free: Client) -> None:
    with talk(free.url, "other.v2", V1) as found:
        assert found.connection.subprotocol == V1
        assert found.connection.response is not None
        assert "Sec-WebSocket-Extensions" not in found.connection.response.headers


@pytest.mark.parametrize("protocols", [["other"], ["edgewise.v2"], [V1.upper()]])
def test_without_the_subprotocol_there_is_none(free: Client, protocols: list[str]) -> None:
    status, text = refused(free, *protocols)
    assert status == 400
    assert V1 in text


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example:8321", ""])
def test_names_that_may_be_rebound_are_refused(free: Client, host: str) -> None:
    assert handshake(free, f"Host: {host}").startswith(b"HTTP/1.1 421")


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://localhost", "file://localhost:8321"]
)
def test_pages_of_others_are_refused(free: Client, origin: str) -> None:
    status, text = refused(free, origin=origin)
    assert status == 403
    assert "--allow-origin" in text


def test_pages_of_this_server_and_of_allowed_origins_are_not(free: Client) -> None:
    own = free.url.rstrip("/")
    assert all(opens(free, origin=origin) for origin in (own, VITE, None))


def test_what_is_refused_is_isolated_as_every_answer(free: Client) -> None:
    received = handshake(free, "Host: localhost", "Origin: null")
    assert b"x-content-type-options: nosniff" in received.lower()
    assert b"Sec-WebSocket-Accept" not in received


def test_no_key_no_socket(guarded: Client) -> None:
    status, text = refused(guarded)
    assert status == 401
    assert "/v1/ws/ticket" in text
    assert refused(guarded, headers={"Authorization": f"Bearer {KEY}x"})[0] == 401
    assert opens(guarded, headers=BEARER)


def test_a_page_opens_one_with_a_ticket_once(guarded: Client) -> None:
    protocols = ticket(guarded, Origin=VITE)
    assert protocols[0] == V1
    with talk(guarded.url, *protocols, origin=VITE) as found:
        assert found.connection.subprotocol == V1
    assert refused(guarded, *protocols, origin=VITE)[0] == 401
    assert refused(guarded, V1, PREFIX + "x" * 43)[0] == 401


def test_a_ticket_is_no_leave_for_other_pages(guarded: Client) -> None:
    protocols = ticket(guarded)
    assert refused(guarded, *protocols, origin="https://evil.example")[0] == 403
    assert opens(guarded, *protocols)


def test_who_has_no_key_gets_no_ticket(guarded: Client) -> None:
    sent = {"Content-Type": "application/json"}
    assert guarded.get("/v1/ws/ticket", sent, "POST").status == 401
    evil = {**sent, **BEARER, "Origin": "https://evil.example"}
    assert guarded.get("/v1/ws/ticket", evil, "POST").status == 403
    assert guarded.get("/v1/ws/ticket", BEARER).status == 405


def test_without_models_there_is_no_socket() -> None:
    app = make_app({}, {})
    with listen("127.0.0.1", 0) as listening, in_background(app, listening) as url:
        assert refused(Client(url))[0] == 403


def test_other_paths_open_no_socket(free: Client) -> None:
    for path in ("/", "/v1/models", "/v1/ws/ticket", "/v1/ws/"):
        assert not handshake(free, "Host: localhost", path=path).startswith(b"HTTP/1.1 101")


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        (["Host: localhost"], b"101"),
        (["Host: localhost", "Sec-WebSocket-Key: AAAA"], b"400"),
        (["Host: localhost", "Sec-WebSocket-Version: 12"], b"400"),
        (["Host: localhost", f"X-Long: {'a' * 9000}"], b"431"),
        (["Host: localhost", *(f"X-{n}: a" for n in range(200))], b"431"),
    ],
)
def test_a_handshake_that_is_none_is_answered_and_closed(
    free: Client, lines: list[str], status: bytes
) -> None:
    assert handshake(free, *lines).split(b" ")[1] == status


def handshake(client: Client, *lines: str, path: str = "/v1/ws") -> bytes:
    """What a handshake with these headers is answered."""
    usual = {
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "AAECAwQFBgcICQoLDA0ODw==",
        "Sec-WebSocket-Protocol": V1,
    }
    own = {line.partition(":")[0] for line in lines}
    head = [f"GET {path} HTTP/1.1", *lines]
    head += [f"{name}: {value}" for name, value in usual.items() if name not in own]
    with client.connect() as connection:
        connection.sendall("\r\n".join((*head, "", "")).encode())
        received = connection.recv(1 << 16)
        if not received.startswith(b"HTTP/1.1 101"):
            while piece := connection.recv(1 << 16):
                received += piece
    return received
