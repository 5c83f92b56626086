"""What comes in at the port of `edgewise serve`: bytes that may be requests."""

from __future__ import annotations

import re
import socket
from collections.abc import Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from random import Random
from tempfile import mkdtemp

from edgewise.server.app import make_app
from edgewise.server.bundles import offer
from edgewise.server.resource import in_memory
from edgewise.server.run import in_background, listen
from tests.fuzz.case import Files, Format, Place, WrongAnswerError
from tests.fuzz.formats import bundles
from tests.fuzz.mutate import raw, texts

FILE = "request"
HOST = "localhost"
SECONDS = 20
SECRET = b"what nobody is offered"
_BEGINS = re.compile(rb"HTTP/1\.1 ([1-5]\d\d) ")
_PATHS = (
    "/", "/api/bundles", "/a.js", "/bundles/golden/bundle.json", "/bundles/golden/tokenizer.json",
    "/bundles/golden/programs/webgpu-f32/plans/embed.json", "/bundles/golden/../../secret",
)  # fmt: skip
_HEADERS = (
    "Range: bytes=0-9", "Range: bytes=-5", "If-None-Match: *", "Accept-Encoding: gzip;q=0.5, *",
    f"Origin: http://{HOST}", "Origin: null", "Connection: close", "Content-Length: 5",
    "Transfer-Encoding: chunked", "Expect: 100-continue", "Upgrade: websocket",
    "Sec-WebSocket-Key: AAAA", "Connection: Upgrade", 'If-Range: "x"',
)  # fmt: skip
_WORDS = (
    *(
        "\r\n",
        "\n",
        "\r",
        "\0",
        " ",
        "\t",
        ":",
        "%",
        "%2e%2e/",
        "%00",
        "//",
        "?",
        "#",
        ";",
        "HTTP/9.9",
    ),
    *(
        "GET ",
        "POST ",
        "OPTIONS ",
        "\r\n\r\n",
        "é",
        "Host: a\r\n",
        "Host: ",
        "bytes=",
        "-",
        ",",
        "\xff",
    ),
    *("Content-Length: 18446744073709551616\r\n", "Transfer-Encoding: chunked\r\n", "0\r\n\r\n"),
    *("GET http://localhost/ HTTP/1.1\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "\x16\x03\x01"),
)


def _request(path: str, *headers: str) -> bytes:
    lines = [f"GET {path} HTTP/1.1", f"Host: {HOST}", *headers]
    return "\r\n".join([*lines, "", ""]).encode()


def _seeds() -> Sequence[Files]:
    return [
        {FILE: request}
        for i, header in enumerate(_HEADERS)
        for request in (_request(_PATHS[i % len(_PATHS)], header), _request("/", header))
    ]


def _mutate(rng: Random, files: Files) -> Files:
    data = files[FILE]
    if rng.random() < 0.3:
        data += _request(rng.choice(_PATHS), rng.choice(_HEADERS))
    if rng.random() < 0.2:
        return {FILE: raw.changed(rng, data)}
    return {FILE: texts.damaged(rng, data.decode(), _WORDS).encode("utf-8", "surrogatepass")}


@cache
def _address() -> tuple[str, int]:
    """A server of a bundle, which ends with the process. What it cannot answer it says as a 500."""
    folder = Path(mkdtemp()) / "golden"
    folder.mkdir()
    (folder.parent / "secret").write_bytes(SECRET)
    Place(folder).put(bundles.seeds()[-1])
    offered = offer(folder)
    assets = {name: in_memory(b"text", ".js") for name in ("", "a.js")}
    listening = listen("127.0.0.1", 0)
    stack = ExitStack()
    stack.enter_context(in_background(make_app({"golden": offered}, assets), listening))
    _held.append(stack)
    address: tuple[str, int] = listening.getsockname()
    return address


_held: list[ExitStack] = []
"""What ends the server: it serves as long as this is there."""


def _ask(request: bytes) -> bytes:
    with socket.create_connection(_address(), timeout=SECONDS) as connection:
        received = b""
        try:
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
            while piece := connection.recv(1 << 16):
                received += piece
        except TimeoutError:
            raise
        except OSError:
            pass  # it may hang up on what it does not understand
        return received


def _use(folder: Path, files: Files) -> None:
    answer = _ask(files[FILE])
    status = _BEGINS.match(answer)
    if answer and (status is None or status[1].startswith(b"5")):
        raise WrongAnswerError(f"the answer begins with {answer[:80]!r}")
    if SECRET in answer:
        raise WrongAnswerError("a file that is not offered")
    if not _BEGINS.match(_ask(_request("/api/bundles", "Connection: close"))):
        raise WrongAnswerError("it does not answer any more")


REQUESTS = Format(_seeds, _mutate, _use)
