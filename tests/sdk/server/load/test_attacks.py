"""What is sent to wear a server out is refused by every API, and takes little of its memory."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from edgewise.server.guard import MAX_HEADERS
from edgewise.server.reading import MAX_BODY, MAX_VALUES
from tests.sdk.other_texts import with_texts
from tests.sdk.server.client import Client
from tests.sdk.server.load.conftest import MODEL
from tests.sdk.server.load.process import Serving, serving

MORE = 96 << 20
"""Bytes that one body may take at once, read and then parsed; it has 32 MiB at most."""
FEW = 8 << 20
"""Bytes that what is not read may take."""
PATHS = (
    "/v1/chat/completions",
    "/v1/messages",
    "/v1/responses",
    "/api/chat",
    "/v1/embeddings",
    "/tokenize",
)
BOMB = gzip.compress(json.dumps({"model": "tiny", "prompt": " " * (64 << 20)}).encode())


def head(path: str, *lines: str) -> bytes:
    usual = (f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json")
    return "\r\n".join((*usual, *lines, "", "")).encode()


def whole(path: str, body: bytes, *lines: str) -> bytes:
    return head(path, f"Content-Length: {len(body)}", "Connection: close", *lines) + body


def chunked(path: str, rest: bytes) -> bytes:
    return head(path, "Transfer-Encoding: chunked", "Connection: close") + rest


ATTACKS: dict[str, tuple[Callable[[str], bytes], bytes, int]] = {
    "announced": (lambda path: head(path, f"Content-Length: {MAX_BODY + 1}"), b"413", FEW),
    "unannounced": (
        lambda path: chunked(path, b"%x\r\n" % (MAX_BODY + 1) + b" " * (MAX_BODY + 1) + b"\r\n"),
        b"413",
        MORE,
    ),
    "lists in lists": (lambda path: whole(path, b"[" * MAX_VALUES), b"400", MORE),
    "objects in objects": (lambda path: whole(path, b'{"a":' * (MAX_VALUES // 2)), b"400", MORE),
    "many values": (lambda path: whole(path, b"[" + b"1," * MAX_VALUES + b"1]"), b"413", MORE),
    "compressed": (lambda path: whole(path, BOMB, "Content-Encoding: gzip"), b"415", FEW),
    "many headers": (
        lambda path: whole(path, b"{}", *(f"X-{number}: a" for number in range(9999))),
        b"431",
        FEW,
    ),
    "a header without end": (lambda path: head(path)[:-2] + b"X: " + b"a" * (1 << 20), b"400", FEW),
    "a chunk's head without end": (
        lambda path: chunked(path, b"1;" + b"a" * (2 * MAX_HEADERS)),
        b"400",
        FEW,
    ),
    "trailers without end": (
        lambda path: chunked(path, b"2\r\n{}\r\n0\r\n" + b"X: a\r\n" * MAX_HEADERS),
        b"400",
        FEW,
    ),
}
"""By name: what is sent to a path, the status of the answer, and how much memory it may take."""


@pytest.fixture(scope="module")
def server(long_bundle: Path) -> Iterator[Serving]:
    with serving(long_bundle) as found:
        yield found


def answered(client: Client, sent: bytes) -> bytes:
    """The status of what something is answered; empty where its connection is cut off before that
    could be read, as it still sends."""
    received = b""
    with client.connect() as connection, suppress(ConnectionError):
        connection.sendall(sent)
        while b"\r\n\r\n" not in received and (piece := connection.recv(1 << 16)):
            received += piece
    return received[9:12]


@pytest.mark.parametrize("attack", ATTACKS)
def test_every_api_refuses_it_and_goes_on(server: Serving, attack: str) -> None:
    made, status, most = ATTACKS[attack]
    client = Client(server.url)
    server.forget_peak()
    before = server.peak()
    for path in PATHS if most == FEW else PATHS[:2]:
        assert answered(client, made(path)) in (status, b"")
        assert client.get("/health").status == 200
    assert server.peak() - before < most
    assert server.process.poll() is None


DOUBLING = (
    "{% set made = namespace(text='ab') %}{% for _ in range(99) %}"
    "{% set made.text = made.text + made.text %}{% endfor %}{{ made.text }}"
)


@pytest.mark.landing
def test_a_template_that_asks_for_too_much_fails_its_own_requests(
    long_bundle: Path, tmp_path: Path
) -> None:
    bundle = with_texts(long_bundle, tmp_path / MODEL, {"chat_template.jinja": DOUBLING})
    asked = {"model": MODEL, "messages": [{"role": "user", "content": "?"}], "max_tokens": 2}
    with serving(bundle) as server:
        client = Client(server.url)
        said = client.post("/v1/completions", {"model": MODEL, "prompt": "a", "max_tokens": 2})
        assert said.status == 200
        child = server.child
        for path in ("/v1/chat/completions", "/v1/messages", "/api/chat"):
            refused = client.post(path, asked)
            assert refused.status >= 400
            assert "error" in json.loads(refused.body)
        said = client.post("/v1/completions", {"model": MODEL, "prompt": "a", "max_tokens": 2})
        assert said.status == 200
        assert server.child == child
