"""Bodies of requests: what is hostile is refused before it costs anything."""

from __future__ import annotations

import gzip
import json
import socket
from collections.abc import Iterator
from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from edgewise.server import reading
from edgewise.server.failing import answering, headers_of, status_of
from edgewise.server.reading import MAX_BODY, MAX_VALUES, Room, check_depth, read_body
from edgewise.server.run import in_background, listen
from edgewise.server.wire_types import Strict
from edgewise_runtime.errors import EdgewiseError, InputError
from edgewise_runtime.format.reading import MAX_NESTING
from tests.sdk.server.client import Answer, Client

JSON = {"Content-Type": "application/json"}


class Greeting(Strict):
    name: str
    times: Annotated[int, Field(le=9)] = 1
    parts: list[str] | None = None
    more: object = None


def failed(error: EdgewiseError) -> Response:
    return PlainTextResponse(str(error), status_of(error), headers_of(error))


async def greet(request: Request) -> Response:
    read = await read_body(request, Greeting)
    return PlainTextResponse(f"{read.name}*{read.times}")


@pytest.fixture(scope="module")
def app() -> Starlette:
    return Starlette(routes=[Route("/", answering(greet, failed), methods=["POST"])])


@pytest.fixture(scope="module")
def client(app: Starlette) -> Iterator[Client]:
    with listen("127.0.0.1", 0) as listening, in_background(app, listening) as url:
        yield Client(url)


def post(client: Client, body: bytes, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return client.send("POST", "/", body, {**JSON, **named})


def test_a_json_object_is_read_as_its_model(client: Client) -> None:
    assert post(client, b'{"name": "Ada", "times": 2, "unknown": []}').text == "Ada*2"
    assert post(client, '{"name": "Žofie"}'.encode()).text == "Žofie*1"


@pytest.mark.parametrize(
    "kind",
    [
        "application/json; charset=utf-8",
        "Application/JSON",
        'application/json;charset="UTF-8"',
        "application/x-www-form-urlencoded",  # curl -d
    ],
)
def test_json_is_said_in_several_ways(client: Client, kind: str) -> None:
    assert post(client, b'{"name": "Ada"}', Content_Type=kind).status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Type": ""},
        {"Content-Type": "text/plain"},
        {"Content-Type": "text/plain; application/json"},
        {"Content-Type": "application/x-www-form-urlencoded", "Origin": "http://localhost:8321"},
        {"Content-Type": "application/x-www-form-urlencoded", "Origin": "null"},
        {"Content-Type": "application/x-www-form-urlencoded", "Sec-Fetch-Site": "cross-site"},
        {"Content-Type": "multipart/form-data; boundary=x"},
        {"Content-Type": "application/json; charset=utf-16"},
        {"Content-Encoding": "gzip"},
        {"Content-Encoding": "identity, deflate"},
        {"Content-Encoding": "br"},
    ],
)
def test_what_is_no_plain_json_is_refused_unread(client: Client, headers: dict[str, str]) -> None:
    answer = client.send("POST", "/", gzip.compress(b"{}"), {**JSON, **headers})
    assert answer.status == 415
    assert "[input.body_type]" in answer.text


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "not valid JSON"),
        (b"{", "not valid JSON"),
        (b"nul", "not valid JSON"),
        (b'{"name": NaN}', "NaN"),
        (b'{"name": "a", "name": "b"}', "appears twice"),
        (b'{"name": "\xff"}', "not valid JSON"),
        (b'{"name": "\\ud800"}', "half a character"),
        (b'{"name": "a", "more": {"\\uDFFF": 1}}', "half a character"),
        (b'{"name": ' + b"9" * 5000 + b"}", "not valid JSON"),
        (b"[]", "valid dictionary"),
        (b'{"times": 1}', "name: Field required."),
        (b'{"name": 7}', "name: Input should be a valid string, and it is 7."),
        (b'{"name": "a", "times": "1"}', "times: Input should be a valid integer"),
        (b'{"name": "a", "times": true}', "times: Input should be a valid integer"),
        (b'{"name": "a", "times": 10}', "times: Input should be less than or equal to 9"),
        (b'{"parts": [1]}', "1 more things are wrong."),
        (b'{"name": "a", "parts": ["b", 1]}', "parts.1: "),
    ],
)
def test_what_is_wrong_is_said_where_it_is(client: Client, body: bytes, said: str) -> None:
    answer = post(client, body)
    assert answer.status == 400
    assert "[input.body]" in answer.text
    assert said in answer.text
    assert len(answer.text) < 500


def test_an_escaped_character_is_whole(client: Client) -> None:
    assert post(client, b'{"name": "\\ud83d\\ude00"}').text == "😀*1"
    assert post(client, b'{"name": "\\\\ud800"}').text == "\\ud800*1"


def nested(depth: int) -> bytes:
    return b'{"name": "a", "more": ' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}"


def test_depth_is_bounded_before_anything_is_parsed(client: Client) -> None:
    assert post(client, nested(MAX_NESTING)).status == 200
    assert post(client, nested(MAX_NESTING + 1)).status == 400
    for hostile in (b"[" * MAX_VALUES, b'{"a":' * (MAX_VALUES // 2)):
        answer = post(client, hostile)
        assert answer.status == 400
        assert "deep" in answer.text


@pytest.mark.parametrize("filling", [b'"[",' * 3000, b" " * 9000, b'"' + b"[" * 9000 + b'",'])
def test_depth_is_counted_over_everything_between(filling: bytes) -> None:
    half = MAX_NESTING // 2
    check_depth(b"[" * half + filling + b"[" * (MAX_NESTING - half))
    with pytest.raises(InputError, match="deep"):
        check_depth(b"[" * half + filling + b"[" * (MAX_NESTING - half + 1))


@given(
    st.recursive(
        st.text() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_brackets_in_texts_are_no_depth(value: object) -> None:
    check_depth(json.dumps(value).encode())
    check_depth(json.dumps(value, ensure_ascii=False).encode())


@given(st.binary() | st.text(alphabet='"\\[]{}a').map(str.encode))
def test_bytes_that_are_no_json_are_counted_all_the_same(data: bytes) -> None:
    check_depth(data[:MAX_NESTING])


@pytest.mark.parametrize("data", [b'"' + b'\\"' * 500_000, b'"' * 999_999, b'"' + b"\\" * 999_999])
def test_texts_that_never_end_take_no_longer_than_others(data: bytes) -> None:
    check_depth(data)
    with pytest.raises(InputError, match="deep"):
        check_depth(b"[" * (MAX_NESTING + 1) + data)


def test_too_many_values_are_too_much(client: Client) -> None:
    assert post(client, b"[" + b"1," * MAX_VALUES + b"1]").status == 413


def test_a_body_that_says_that_it_is_too_long_is_not_waited_for(client: Client) -> None:
    head = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
    received = client.raw(head + b"Content-Length: %d\r\n\r\n{" % (MAX_BODY + 1))
    assert received.startswith(b"HTTP/1.1 413")
    assert b"[input.body_size]" in received


def test_a_body_that_does_not_say_how_long_it_is_is_read_so_far(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MAX_BODY", 1000)
    head = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
    with client.connect() as connection:
        connection.sendall(head + b"Transfer-Encoding: chunked\r\n\r\n")
        connection.sendall(b"3e9\r\n" + b" " * 1001 + b"\r\n")
        assert connection.recv(12) == b"HTTP/1.1 413"


def test_a_body_that_comes_slowly_has_a_deadline(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "BODY_SECONDS", 0.1)
    head = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
    received = client.raw(head + b'Content-Length: 99\r\n\r\n{"name": ')
    assert received.startswith(b"HTTP/1.1 408")
    assert b"Of the body 9 bytes came in 0.1 seconds." in received


def test_bodies_that_are_read_at_once_share_one_room(client: Client, app: Starlette) -> None:
    app.state.bodies = Room(most=1000)
    head = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
    with client.connect() as held:
        held.sendall(head + b"Content-Length: 900\r\n\r\n" + b" " * 899)
        while app.state.bodies.taken < 899:
            assert post(client, b'{"name": "Ada"}').status == 200
        refused = post(client, b'{"name": "%s"}' % (b"a" * 200))
        assert (refused.status, refused.headers["Retry-After"]) == (503, "1")
        held.sendall(b"{")
        assert held.recv(12) == b"HTTP/1.1 400"
    assert post(client, b'{"name": "%s"}' % (b"a" * 200)).status == 200
    assert app.state.bodies.taken == 0


def test_a_client_that_leaves_in_a_body_gives_its_room_back(client: Client, app: Starlette) -> None:
    app.state.bodies = Room()
    with client.connect() as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n")
        connection.sendall(b"Content-Length: 900\r\n\r\n" + b" " * 99)
        while not app.state.bodies.taken:
            assert post(client, b'{"name": "Ada"}').status == 200
        connection.shutdown(socket.SHUT_RDWR)
    while app.state.bodies.taken:
        assert post(client, b'{"name": "Ada"}').status == 200
