"""What is refused before it comes to an API is said in the words of the API that was asked."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from edgewise.server.app import make_app
from edgewise.server.guard import MAX_HEADERS, MAX_URL
from edgewise.server.operations.operations import Operations
from edgewise.server.run import in_background, listen
from tests.sdk.server.client import Client
from tests.sdk.server.models import Some

KEY = "sk-edgewise-0123456789"
SENT = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
VERSION = {"anthropic-version": "2023-06-01"}

Said = Callable[[Any], tuple[str, str]]


def openai(body: Any) -> tuple[str, str]:
    error = body["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["type"] in ("invalid_request_error", "server_error")
    return error["code"], error["message"]


def anthropic(body: Any) -> tuple[str, str]:
    assert set(body) == {"type", "error", "request_id"}
    assert body["type"] == "error"
    error = body["error"]
    said, _, code = error["message"].rpartition(" [")
    return code.removesuffix("]"), said


def ollama(body: Any) -> tuple[str, str]:
    assert set(body) == {"error", "code"}
    return body["code"], body["error"]


def plain(body: Any) -> tuple[str, str]:
    error = body["error"]
    assert set(error) == {"code", "message", "type"}
    return "", error["message"]


def ours(body: Any) -> tuple[str, str]:
    error = body["error"]
    assert set(error) == {"code", "message", "remedy"}
    assert error["remedy"]
    return error["code"], f"{error['message']} {error['remedy']}"


PATHS: list[tuple[str, str, dict[str, str], Said]] = [
    ("POST", "/v1/chat/completions", {}, openai),
    ("GET", "/v1/models", {}, openai),
    ("GET", "/v1/models", VERSION, anthropic),
    ("POST", "/v1/messages", {}, anthropic),
    ("POST", "/v1/nothing", {}, openai),
    ("POST", "/v1/nothing", VERSION, anthropic),
    ("POST", "/api/chat", {}, ollama),
    ("GET", "/api/tags", {}, ollama),
    ("POST", "/tokenize", {}, plain),
    ("POST", "/v1/rerank", {}, plain),
    ("POST", "/v1/ws/ticket", {}, ours),
    ("GET", "/metrics", {}, ours),
]
WRONG: list[tuple[str, dict[str, str], str, int, str]] = [
    ("", {"Host": "evil.example"}, "input.host", 421, "--allow-host"),
    ("", {"Origin": "https://evil.example"}, "input.origin", 403, "--allow-origin"),
    ("", {"Authorization": "Bearer of-bad-news"}, "invalid_api_key input.key", 401, "x-api-key"),
    ("", {"X-Long": "a" * MAX_HEADERS}, "input.headers", 431, "fewer"),
    (f"?{'a' * MAX_URL}", {}, "input.url", 414, "body"),
]


@pytest.fixture(scope="module")
def operations() -> Operations:
    return Operations()


@pytest.fixture(scope="module")
def server(operations: Operations) -> Iterator[Client]:
    app = make_app({}, {}, models=Some({}), api_key=KEY, operations=operations)
    with listen("127.0.0.1", 0) as listening, in_background(app, listening) as url:
        yield Client(url)


@pytest.mark.parametrize(("query", "wrong", "codes", "status", "remedy"), WRONG)
@pytest.mark.parametrize(("method", "path", "headers", "read"), PATHS)
def test_a_refusal_has_the_shape_of_the_api(
    server: Client,
    method: str,
    path: str,
    headers: dict[str, str],
    read: Said,
    query: str,
    wrong: dict[str, str],
    codes: str,
    status: int,
    remedy: str,
) -> None:
    body = b"{}" if method == "POST" else None
    answer = server.send(method, path + query, body, {**SENT, **headers, **wrong})
    assert answer.status == status
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    code, said = read(json.loads(answer.body))
    assert code in ("", *codes.split())
    assert remedy in said
    if status == 401:
        assert answer.headers["WWW-Authenticate"] == "Bearer"
        assert KEY not in answer.text


@pytest.mark.parametrize(("method", "path", "headers", "read"), PATHS)
def test_methods_that_there_are_not_and_forms_are_refused_so(
    server: Client, method: str, path: str, headers: dict[str, str], read: Said
) -> None:
    answer = server.send("PATCH", path, b"{}", {**SENT, **headers})
    assert answer.status == 405
    assert method in answer.headers["Allow"].split(", ")
    assert read(json.loads(answer.body))[0] in ("", "input.method")
    if method == "POST":
        form = {**SENT, **headers, "Content-Type": "text/plain"}
        answer = server.send(method, path, b"{}", form)
        assert answer.status == 415
        assert read(json.loads(answer.body))[0] in ("", "input.body_type")


@pytest.mark.parametrize("path", ["/", "/bundles/a/bundle.json", "/api/bundles"])
def test_what_is_no_api_is_told_in_text(server: Client, path: str) -> None:
    answer = server.get(path, {"Host": "evil.example"})
    assert (answer.status, answer.headers["Content-Type"]) == (421, "text/plain; charset=utf-8")
    assert "--allow-host" in answer.text


def test_a_body_that_is_too_large_is_refused_in_words(server: Client) -> None:
    for path, read in (("/v1/completions", openai), ("/v1/messages", anthropic)):
        answer = server.send("POST", path, None, {**SENT, "Content-Length": str(1 << 40)})
        assert answer.status == 413
        assert read(json.loads(answer.body))[0] == "input.body_size"


@pytest.mark.parametrize(("method", "path", "headers", "read"), PATHS)
def test_a_server_that_is_ending_says_so_in_words(
    method: str, path: str, headers: dict[str, str], read: Said
) -> None:
    operations = Operations()
    app = make_app({}, {}, models=Some({}), api_key=KEY, operations=operations)
    with listen("127.0.0.1", 0) as listening, in_background(app, listening) as url:
        operations.drain.begin()
        body = b"{}" if method == "POST" else None
        answer = Client(url).send(method, path, body, {**SENT, **headers})
    if path == "/metrics":  # is answered until the end
        assert answer.status == 200
        return
    assert answer.status in (503, 529)
    assert int(answer.headers["Retry-After"]) > 0
    assert read(json.loads(answer.body))[0] in ("", "engine.draining")
