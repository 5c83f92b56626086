"""Ranges, conditions and compression, as RFC 9110 has them."""

from __future__ import annotations

import gzip
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

import pytest

from edgewise.server.app import make_app
from edgewise.server.resource import Compressed, Resource, StoredFile, in_memory
from edgewise.server.respond import CHUNK, extent, prefers_gzip
from edgewise.server.run import in_background, listen
from tests.sdk.server.client import Client

DATA = bytes(range(251)) * 13_000  # 3.3 MB, several pieces
TEXT = b'{"name": "value"}\n' * 500
SHA256 = hashlib.sha256(DATA).hexdigest()
TEXT_TAG = f'"{hashlib.sha256(TEXT).hexdigest()}"'


@contextmanager
def serving(folder: Path) -> Iterator[Client]:
    """Serves a large file, a text from a file, and contents from memory."""
    large, text = folder / "large", folder / "text"
    large.write_bytes(DATA)
    text.write_bytes(TEXT)
    resources = {
        "large": Resource(StoredFile.of(large), ".safetensors", len(DATA), SHA256),
        "text": Resource(StoredFile.of(text), ".json", len(TEXT), TEXT_TAG.strip('"')),
        "memory": in_memory(TEXT, ".json"),
        "short": in_memory(b"{}", ".json"),
        "empty": in_memory(b"", ".bin"),
    }
    app = make_app({}, resources)
    with listen("127.0.0.1", 0) as listening, in_background(app, listening) as url:
        yield Client(url)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with serving(tmp_path_factory.mktemp("files")) as client:
        yield client


def test_a_whole_file_comes_with_its_length_and_hash(client: Client) -> None:
    answer = client.get("/large")
    assert (answer.status, answer.body) == (200, DATA)
    assert answer.headers["ETag"] == f'"{SHA256}"'
    assert answer.headers["Content-Length"] == str(len(DATA))
    assert answer.headers["Accept-Ranges"] == "bytes"
    assert answer.headers["Content-Type"] == "application/octet-stream"
    assert "Vary" not in answer.headers


@pytest.mark.parametrize(
    ("asked", "first", "after"),
    [
        ("bytes=0-0", 0, 1),
        ("bytes=5-9", 5, 10),
        (f"bytes={CHUNK - 3}-{CHUNK + 2}", CHUNK - 3, CHUNK + 3),
        ("bytes=3000000-", 3_000_000, len(DATA)),
        ("bytes=-7", len(DATA) - 7, len(DATA)),
        ("BYTES= 3000000-99999999999 ", 3_000_000, len(DATA)),
        ("bytes=-99999999999", 0, len(DATA)),
    ],
)
def test_one_range_comes_alone(client: Client, asked: str, first: int, after: int) -> None:
    answer = client.get("/large", {"Range": asked})
    assert (answer.status, answer.body) == (206, DATA[first:after])
    assert answer.headers["Content-Range"] == f"bytes {first}-{after - 1}/{len(DATA)}"
    assert answer.headers["Content-Length"] == str(after - first)


@pytest.mark.parametrize(
    "asked",
    [f"bytes={len(DATA)}-", "bytes=9-5", "bytes=-0", "bytes=-", "bytes=", "bytes=a-b", "bytes=1",
     "bytes=" + "9" * 400 + "-"],
)  # fmt: skip
def test_what_is_no_range_of_it_is_refused_with_the_size(client: Client, asked: str) -> None:
    answer = client.get("/large", {"Range": asked})
    assert (answer.status, answer.body) == (416, b"")
    assert answer.headers["Content-Range"] == f"bytes */{len(DATA)}"


@pytest.mark.parametrize("asked", ["bytes=0-1,4-5", "lines=1-2", "nonsense"])
def test_several_ranges_and_other_units_give_the_whole(client: Client, asked: str) -> None:
    answer = client.get("/memory", {"Range": asked})
    assert (answer.status, answer.body) == (200, TEXT)


def test_an_empty_file_has_no_ranges(client: Client) -> None:
    assert client.get("/empty").body == b""
    assert client.get("/empty", {"Range": "bytes=0-"}).status == 416


@pytest.mark.parametrize(
    ("condition", "status"),
    [(f'"{SHA256}"', 206), ('"other"', 200), (f'W/"{SHA256}"', 200),
     ("Sat, 21 Nov 2026 00:00:00 GMT", 200)],
)  # fmt: skip
def test_a_range_of_other_contents_gives_the_whole(
    client: Client, condition: str, status: int
) -> None:
    answer = client.get("/large", {"Range": "bytes=0-3", "If-Range": condition})
    assert (answer.status, len(answer.body)) == (status, 4 if status == 206 else len(DATA))


def test_a_condition_on_other_contents_also_keeps_wrong_ranges_from_being_refused(
    client: Client,
) -> None:
    answer = client.get("/large", {"Range": "bytes=99999999-", "If-Range": '"other"'})
    assert (answer.status, answer.body) == (200, DATA)


@pytest.mark.parametrize("path", ["/large", "/text", "/memory"])
def test_head_says_what_get_would_and_knows_no_ranges(client: Client, path: str) -> None:
    for headers in ({}, {"Accept-Encoding": "gzip"}):
        head = client.get(path, headers, "HEAD")
        get = client.get(path, headers)
        assert (head.status, head.body) == (200, b"")
        for name in ("Content-Length", "Content-Type", "ETag", "Content-Encoding", "Vary"):
            assert head.headers[name] == get.headers[name]
    ranged = client.get(path, {"Range": "bytes=0-3"}, "HEAD")
    assert (ranged.status, ranged.headers["Content-Range"]) == (200, None)


@pytest.mark.parametrize(
    ("tags", "status"),
    [(f'"{SHA256}"', 304), (f'W/"{SHA256}"', 304), (f'"a", "{SHA256}"', 304), ("*", 304),
     ('"a"', 200), (SHA256, 200), (f'"{SHA256}-gzip"', 200), ("", 200)],
)  # fmt: skip
def test_what_the_client_has_is_not_sent_again(client: Client, tags: str, status: int) -> None:
    answer = client.get("/large", {"If-None-Match": tags})
    assert (answer.status, answer.body) == (status, b"" if status == 304 else DATA)
    assert answer.headers["ETag"] == f'"{SHA256}"'


@pytest.mark.parametrize("path", ["/text", "/memory"])
def test_text_is_gzipped_under_an_etag_of_its_own(client: Client, path: str) -> None:
    plain = client.get(path)
    assert (plain.body, plain.headers["ETag"]) == (TEXT, TEXT_TAG)
    for _ in range(2):
        small = client.get(path, {"Accept-Encoding": "gzip, deflate, br"})
        assert gzip.decompress(small.body) == TEXT
        assert len(small.body) < len(TEXT) / 10
        assert small.headers["Content-Encoding"] == "gzip"
        assert small.headers["ETag"] == f'{TEXT_TAG[:-1]}-gzip"'
        assert small.headers["Content-Length"] == str(len(small.body))
    assert plain.headers["Vary"] == small.headers["Vary"] == "Accept-Encoding"
    tag = {"If-None-Match": small.headers["ETag"]}
    assert client.get(path, tag | {"Accept-Encoding": "gzip"}).status == 304
    assert client.get(path, tag).status == 200


def test_a_range_is_of_the_contents_not_of_their_compression(client: Client) -> None:
    answer = client.get("/text", {"Accept-Encoding": "gzip", "Range": "bytes=2-6"})
    assert (answer.status, answer.body) == (206, TEXT[2:7])
    assert (answer.headers["ETag"], answer.headers["Content-Encoding"]) == (TEXT_TAG, None)


def test_parameters_and_what_is_short_are_never_gzipped(client: Client) -> None:
    for path in ("/large", "/short"):
        answer = client.get(path, {"Accept-Encoding": "gzip"})
        assert answer.headers["Content-Encoding"] is None


@pytest.mark.parametrize(
    ("accepted", "liked"),
    [
        ("gzip", True),
        ("GZIP;q=1.0, br", True),
        ("br, gzip ; q=0.001", True),
        ("*", True),
        ("identity;q=0.5, *;q=0.7", True),
        ("", False),
        ("br", False),
        ("gzip;q=0", False),
        ("gzip;q=0.000, *", False),
        ("*;q=0", False),
        ("identity, gzip;q=0.5", False),
        ("gzip;q=2", False),
        ("gzip;q=", False),
    ],
)
def test_accept_encoding_is_weighed(accepted: str, liked: bool) -> None:
    assert prefers_gzip(accepted) is liked


@pytest.mark.parametrize(
    ("size", "asked"), [(10, "bytes=٣-٤"), (10, "bytes=1-2-3"), (0, "bytes=0-0")]
)
def test_ranges_are_written_in_plain_digits(size: int, asked: str) -> None:
    assert extent(asked, size) is None


def test_a_file_that_changed_is_not_sent_under_the_old_hash(tmp_path: Path) -> None:
    with serving(tmp_path) as client:
        for name in ("large", "text"):
            file = tmp_path / name
            status = file.stat()
            file.write_bytes(file.read_bytes()[::-1])
            os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
            for method in ("GET", "HEAD"):
                for headers in ({}, {"Accept-Encoding": "gzip"}):
                    answer = client.get(f"/{name}", headers, method)
                    assert answer.status == 409
                    assert answer.headers["Cache-Control"] == "no-store"
                    assert "ETag" not in answer.headers


def test_a_file_that_became_a_link_or_vanished_is_not_followed(tmp_path: Path) -> None:
    with serving(tmp_path) as client:
        (tmp_path / "large").rename(tmp_path / "other")
        assert client.get("/large").status == 409
        (tmp_path / "large").symlink_to(tmp_path / "other")
        answer = client.get("/large")
        assert answer.status == 409
        assert "Start the server again" in answer.text


def test_a_file_is_closed_when_the_reader_leaves(tmp_path: Path) -> None:
    large = str(tmp_path / "large")
    with serving(tmp_path) as client:
        with client.connect() as connection:
            connection.sendall(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert connection.recv(100)
        deadline = monotonic() + 10
        while large in opened() and monotonic() < deadline:
            sleep(0.02)
        assert large not in opened()
        assert client.get("/large").body == DATA


def opened() -> set[str]:
    """Paths of the files this process has open."""
    found = set()
    for handle in Path("/proc/self/fd").iterdir():
        try:
            found.add(str(handle.readlink()))
        except OSError:  # closed meanwhile
            continue
    return found


def test_compressed_contents_are_made_once_and_bounded() -> None:
    made = []

    def contents(name: str) -> bytes:
        made.append(name)
        return os.urandom(1000)

    compressed = Compressed(most=2500)
    first = compressed.get("a", lambda: contents("a"))
    compressed.get("b", lambda: contents("b"))
    assert compressed.get("a", lambda: contents("a")) is first
    compressed.get("c", lambda: contents("c"))  # b, not asked for the longest, has to go
    assert compressed.get("a", lambda: contents("a")) is first
    compressed.get("b", lambda: contents("b"))
    assert made == ["a", "b", "c", "b"]
    assert compressed.held <= 2500
    assert len(compressed.get("large", lambda: os.urandom(5000))) > 2500
    assert compressed.held == 0
