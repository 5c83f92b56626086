"""What a hub answers while a model is pulled: whoever is at the other end may answer anything."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from functools import cache
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from threading import Thread
from urllib.parse import quote, urlsplit

from huggingface_hub import constants

from edgewise.hub import download
from edgewise.hub.names import HubModel
from edgewise.hub.pull import pull
from tests.fuzz.case import Files, Format, WrongAnswerError
from tests.fuzz.mutate import raw, texts, values
from tests.sdk.hub.repositories import NAME, READ, WEIGHTS
from tests.sdk.hub.small_hub import serve_hub

_HEADERS = (
    *("Content-Length: 0", "Content-Length: 99999999999", "Transfer-Encoding: chunked", "\r\n"),
    *("Location: http://127.0.0.1:9/", "Location: file:///etc/passwd", "Location: /", "ETag: x"),
    *("Content-Encoding: gzip", "X-Repo-Commit: ..", "X-Linked-Size: -1", 'ETag: "../../x"'),
    *("HTTP/1.1 500 x", "HTTP/1.1 301 x", "HTTP/1.1 429 x", "HTTP/1.1 206 x", "X-Error-Code: a"),
)
_NAMES = (
    *("config.json", "model.safetensors", "../x", "/tmp/x", "a/../../x", ".git/config", "a" * 300),
    *("model.gguf", "model.safetensors.index.json", "x.safetensors", "a\0b", "con", "a/" * 200),
)


class _Server:
    """Hands requests on and notes what was answered; once it has answers of its own, gives those.

    Attributes:
        answers: by method and path, as bytes of HTTP.
        playing: whether `answers` are given.
    """

    def __init__(self) -> None:
        self.answers: dict[str, bytes] = {}
        self.playing = False
        self._hub = ("", "")

    def record(self, hub: str, cdn: str, body: Callable[[], object]) -> Files:
        """The answers of a hub while the body runs."""
        self._hub, self.answers, self.playing = (hub, cdn), {}, False
        body()
        self.playing = True
        return dict(self.answers)

    def answer(self, method: str, path: str, url: str) -> bytes:
        """What to say to a request."""
        name = quote(f"{method} {path}", safe="")
        if not self.playing:
            self.answers[name] = self._forward(method, path, url)
        return self.answers.get(name, b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")

    def _forward(self, method: str, path: str, url: str) -> bytes:
        hub, cdn = self._hub
        asked = urlsplit(cdn if path.startswith("/cdn/") else hub)
        connection = HTTPConnection(asked.hostname or "", asked.port)
        connection.request(method, path)
        response = connection.getresponse()
        # Of another name, as the hub's own is: the library does not follow it blindly then.
        elsewhere = url.replace("127.0.0.1", "localhost")
        lines = [f"HTTP/1.1 {response.status} {response.reason}"]
        lines += [f"{key}: {value}".replace(cdn, elsewhere) for key, value in response.getheaders()]
        said = response.read()
        connection.close()
        return "\r\n".join([*lines, "Connection: close", "", ""]).encode() + said


@cache
def _server() -> tuple[_Server, str]:
    """A server that ends with the process, and its address, where the hub's library looks."""
    ours = _Server()

    class Handler(BaseHTTPRequestHandler):
        def handle_one_request(self) -> None:
            line = self.rfile.readline(65537).decode("latin-1").split()
            while self.rfile.readline(65537) not in (b"\r\n", b""):
                pass
            self.close_connection = True
            if len(line) > 1:
                self.wfile.write(ours.answer(line[0], line[1], url))

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    # Clients hang up in the middle of what they do not want.
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    url = f"http://127.0.0.1:{server.server_port}"
    Thread(target=server.serve_forever, daemon=True).start()
    cache_folder = mkdtemp()
    constants.ENDPOINT = url
    constants.HUGGINGFACE_CO_URL_TEMPLATE = f"{url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    constants.HF_HUB_CACHE = cache_folder
    constants.HF_TOKEN_PATH = f"{cache_folder}/token"
    download.PAUSE_S = 0.0
    return ours, url


def _pull() -> Path:
    return pull(HubModel(NAME)).path


def _seeds() -> Sequence[Files]:
    ours, _ = _server()
    with serve_hub() as hub:
        hub.add(NAME, {name: READ[name] for name in ("config.json", "tokenizer.json", WEIGHTS)})
        return [ours.record(hub.url, hub.cdn, _pull)]


def _mutate(rng: Random, files: Files) -> Files:
    api = [name for name in files if "api" in name]
    name = rng.choice(api if rng.random() < 0.6 else sorted(files))
    head, blank, body = files[name].partition(b"\r\n\r\n")
    if name in api and rng.random() < 0.7:
        body = values.written(rng, values.changed(rng, json.loads(body), _NAMES))
        lines = [line for line in head.split(b"\r\n") if not line.startswith(b"Content-Length")]
        head = b"\r\n".join([*lines, b"Content-Length: %d" % len(body)])
    elif rng.random() < 0.5:
        text = texts.damaged(rng, head.decode(), _HEADERS)
        head = text.encode("utf-8", "surrogatepass")
    else:
        body = raw.changed(rng, body)
    return {**files, name: head + blank + body}


def _use(folder: Path, files: Files) -> None:
    ours, _ = _server()
    ours.answers = dict(files)
    home = Path(constants.HF_HUB_CACHE)
    shutil.rmtree(home, ignore_errors=True)
    before = sorted(home.parent.iterdir())
    try:
        found = _pull()
        if not found.resolve().is_relative_to(home.resolve()):
            raise WrongAnswerError(f"the model is at {found}")
    finally:
        if strange := set(home.parent.iterdir()) - {*before, home}:
            raise WrongAnswerError(f"files elsewhere: {strange}")


HUB = Format(_seeds, _mutate, _use)
