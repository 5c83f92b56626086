"""A small hub of models on this machine: the part of the hub's API that its own library speaks.

Large files are handed out by a second server, as the real hub's are, to which nobody's token goes.
"""

from __future__ import annotations

import hashlib
import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

LARGE = 4096
"""Bytes from which on a file is in LFS."""
TOKEN = "hf_of_someone"
INVITED = "hf_of_a_guest"
"""Tokens: both are known, and the second one's account may read gated repositories."""
WRONG_TOKEN = "Invalid credentials in Authorization header"


@dataclass
class Repository:
    """What lies under ``ORG/REPO``.

    Attributes:
        files: contents by path.
        gated: only who was invited may read files.
        disabled: nobody may do anything.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    gated: bool = False
    disabled: bool = False

    @property
    def commit(self) -> str:
        """As Git's: another one when anything changes."""
        told = json.dumps({name: git_hash(data) for name, data in self.files.items()})
        return hashlib.sha1(told.encode()).hexdigest()


@dataclass(frozen=True)
class Request:
    """What somebody asked for."""

    method: str
    path: str
    range: str | None
    token: str | None


@dataclass
class SmallHub:
    """What the hub has, what it was asked, and what goes wrong with it.

    Attributes:
        url: its address.
        repositories: by name.
        renamed: names that were, and what they are now.
        requests: what was asked of either server, in order.
        breaks: of the file with this name so many bytes are sent before the connection breaks, once
            for each number.
        waits: a file of this name is sent in part, and the rest when the event is set.
        flips: the first byte of this file comes wrong, so often.
        ranges: whether parts of files can be asked for.
        answer: what every request is answered with instead: status, headers and text.
    """

    url: str = ""
    repositories: dict[str, Repository] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    breaks: dict[str, list[int]] = field(default_factory=dict)
    waits: dict[str, threading.Event] = field(default_factory=dict)
    flips: dict[str, int] = field(default_factory=dict)
    ranges: bool = True
    answer: tuple[int, Mapping[str, str], str] | None = None
    cdn: str = ""

    def add(self, name: str, files: Mapping[str, bytes], **more: bool) -> Repository:
        """Put a repository there."""
        self.repositories[name] = Repository(dict(files), **more)
        return self.repositories[name]

    def fetched(self) -> list[str]:
        """The names of the files whose contents were asked for, sorted."""
        paths = [urlsplit(r.path).path for r in self.requests if r.method == "GET"]
        marks = ("/resolve/", "/cdn/")
        kept = (p for p in paths if any(mark in p for mark in marks))
        names = {
            unquote(p.split("/cdn/")[-1].split("/resolve/")[-1]).partition("/")[2] for p in kept
        }
        return sorted(names)

    def asked_for(self, file: str) -> list[Request]:
        """Requests for the contents of a file, wherever they went, redirects left out."""
        of_file = [
            r for r in self.requests if r.method == "GET" and r.path.endswith(f"/{quote(file)}")
        ]
        elsewhere = [r for r in of_file if "/cdn/" in r.path]
        return elsewhere or [r for r in of_file if "/resolve/" in r.path]


def git_hash(data: bytes) -> str:
    """What Git calls a file of these contents."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


@contextmanager
def serve_hub() -> Iterator[SmallHub]:
    """Both servers of a hub, on free ports of this machine."""
    hub = SmallHub()
    with _server(_Api, hub) as hub.url, _server(_Cdn, hub) as hub.cdn:
        yield hub


@contextmanager
def _server(kind: type[_Handler], hub: SmallHub) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), type(kind.__name__, (kind,), {"hub": hub}))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler, ABC):
    """What both servers do alike."""

    protocol_version = "HTTP/1.1"
    hub: SmallHub

    def log_message(self, *args: object) -> None:
        """Says nothing."""

    def do_HEAD(self) -> None:
        self._note_and_answer()

    def do_GET(self) -> None:
        self._note_and_answer()

    def _note_and_answer(self) -> None:
        token = self.headers["authorization"]
        self._token = token.removeprefix("Bearer ") if token else None
        self.hub.requests.append(
            Request(self.command, self.path, self.headers["range"], self._token)
        )
        if self.hub.answer is not None:
            status, headers, text = self.hub.answer
            self._send(status, text.encode(), headers)
        else:
            self._answer()

    @abstractmethod
    def _answer(self) -> None: ...

    def _send(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def _refuse(self, status: int, *, code: str = "", message: str = "") -> None:
        told = {"X-Error-Code": code, "X-Error-Message": message}
        body = json.dumps({"error": message}).encode() if message else b"{}"
        self._send(status, body, {name: value for name, value in told.items() if value})

    def _send_file(self, name: str, data: bytes, headers: Mapping[str, str]) -> None:
        """The contents, or the part that was asked for, as well as it goes."""
        begin, status = 0, 200
        if self.hub.ranges and (asked := self.headers["range"]):
            begin, status = int(asked.removeprefix("bytes=").partition("-")[0]), 206
        body = data[begin:]
        if self.hub.flips.get(name) and self.command == "GET":
            self.hub.flips[name] -= 1
            body = bytes([body[0] ^ 1]) + body[1:]
        if self.command == "GET" and self.hub.breaks.get(name):
            self._send_some(body, self.hub.breaks[name].pop(0), status)
            self.close_connection = True
        elif self.command == "GET" and name in self.hub.waits:
            half = len(body) // 2
            self._send_some(body, half, status)
            self.hub.waits[name].wait(30)
            self.wfile.write(body[half:])
        else:
            self._send(status, body, headers)

    def _send_some(self, body: bytes, count: int, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[:count])
        self.wfile.flush()


class _Cdn(_Handler):
    """Hands out large files: ``/cdn/COMMIT/PATH``."""

    def _answer(self) -> None:
        commit, _, name = unquote(urlsplit(self.path).path).removeprefix("/cdn/").partition("/")
        files = next(r.files for r in self.hub.repositories.values() if r.commit == commit)
        self._send_file(name, files[name], {})


class _Api(_Handler):
    """The hub itself: what there is, and small files."""

    def _answer(self) -> None:
        asked = urlsplit(self.path)
        path = unquote(asked.path)
        parts = path.removeprefix("/api/models").strip("/").split("/")
        name, rest = "/".join(parts[:2]), parts[2:]
        if name in self.hub.renamed:
            new = self.path.replace(name, self.hub.renamed[name])
            self._send(307, b"", {"Location": new})
            return
        if self._token not in (None, TOKEN, INVITED):
            self._refuse(401, message=WRONG_TOKEN)
            return
        repository = self.hub.repositories.get(name)
        if repository is None:
            known = self._token is not None
            message = "Repository not found" if known else "Invalid username or password."
            self._refuse(404 if known else 401, code="RepoNotFound", message=message)
        elif repository.disabled:
            self._refuse(403, message="Access to this resource is disabled.")
        elif path.startswith("/api/"):
            self._tell(name, repository, rest, "blobs" in parse_qs(asked.query))
        else:
            self._hand_out(repository, rest)

    def _tell(self, name: str, repository: Repository, rest: list[str], blobs: bool) -> None:
        told: Any
        if rest[:1] == ["tree"]:
            told = [_in_tree(path, data) for path, data in repository.files.items()]
        else:
            siblings = [_sibling(path, data, blobs) for path, data in repository.files.items()]
            told = {"id": name, "sha": repository.commit, "siblings": siblings}
        self._send(200, json.dumps(told).encode(), {"Content-Type": "application/json"})

    def _hand_out(self, repository: Repository, rest: list[str]) -> None:
        """``/ORG/REPO/resolve/REVISION/PATH``."""
        if repository.gated and self._token != INVITED:
            self._refuse(
                403 if self._token else 401, code="GatedRepo", message="Access is restricted."
            )
            return
        name = "/".join(rest[2:])
        if name not in repository.files:
            self._refuse(404, code="EntryNotFound", message="Entry not found")
            return
        data = repository.files[name]
        told = {"X-Repo-Commit": repository.commit}
        if len(data) < LARGE:
            self._send_file(name, data, told | {"ETag": f'"{git_hash(data)}"'})
            return
        told |= {"X-Linked-ETag": f'"{hashlib.sha256(data).hexdigest()}"'}
        told |= {"X-Linked-Size": str(len(data))}
        told |= {"Location": f"{self.hub.cdn}/cdn/{repository.commit}/{quote(name)}"}
        self._send(302, b"", told)


def _lfs(data: bytes, name: str) -> dict[str, Any] | None:
    if len(data) < LARGE:
        return None
    return {"size": len(data), name: hashlib.sha256(data).hexdigest(), "pointerSize": 134}


def _sibling(path: str, data: bytes, blobs: bool) -> dict[str, Any]:
    told: dict[str, Any] = {"rfilename": path}
    if blobs:
        told |= {"size": len(data), "blobId": git_hash(data)}
        told |= {"lfs": lfs} if (lfs := _lfs(data, "sha256")) else {}
    return told


def _in_tree(path: str, data: bytes) -> dict[str, Any]:
    told: dict[str, Any] = {
        "type": "file",
        "path": path,
        "size": len(data),
        "oid": git_hash(data),
    }
    return told | ({"lfs": lfs} if (lfs := _lfs(data, "oid")) else {})
