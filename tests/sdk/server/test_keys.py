"""Who may use the APIs: with a key, with JSON, and by methods that they have."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from edgewise.server.app import make_app
from edgewise.server.keys import Key
from edgewise.server.run import in_background, listen
from edgewise_runtime.errors import InputError
from tests.sdk.server.client import Client
from tests.sdk.server.models import Some

KEY = "sk-edgewise-0123456789"
VITE = "http://localhost:5173"
MODELS = "/v1/models"


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    app = make_app({}, {}, ["my-box"], [VITE], models=Some({}), api_key=KEY)
    with listen("127.0.0.1", 0) as listening, in_background(app, listening) as url:
        yield Client(url)


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": f"Bearer {KEY}"},
        {"Authorization": f"bearer  {KEY} "},
        {"x-api-key": KEY},
        {"Authorization": "Bearer other", "x-api-key": KEY},
    ],
)
def test_who_has_the_key_is_answered(client: Client, headers: dict[str, str]) -> None:
    assert client.get(MODELS, headers).status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": ""},
        {"Authorization": KEY},
        {"Authorization": f"Basic {KEY}"},
        {"Authorization": f"Bearer {KEY[:-1]}"},
        {"Authorization": f"Bearer {KEY}x"},
        {"Authorization": f"Bearer {KEY.upper()}"},
        {"x-api-key": ""},
        {"Cookie": f"x-api-key={KEY}"},
        {"x-api-key": "\xff\xfe"},
    ],
)
def test_others_are_not_and_are_told_how(client: Client, headers: dict[str, str]) -> None:
    answer = client.get(MODELS, headers)
    assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
    assert "Bearer KEY" in answer.text
    assert KEY not in answer.text


def test_what_browsers_open_needs_no_key(client: Client) -> None:
    assert client.get("/api/bundles").status == 200


@pytest.mark.parametrize(
    "text", ["", "short", "x" * 257, "with a space in it", "ž" * 20, "a\n" * 9]
)
def test_a_key_is_not_guessed_and_can_be_sent(text: str) -> None:
    with pytest.raises(InputError) as raised:
        Key.of(text)
    assert raised.value.code == "serve.key"
    assert "token_urlsafe" in raised.value.remedy


def test_a_key_is_not_shown() -> None:
    key = Key.of(KEY)
    assert KEY not in repr(key)
    assert repr(key.digest) not in repr(key)


def test_methods_are_those_of_a_path(client: Client) -> None:
    """So that a page may not write where nothing is written to."""
    refused = client.send("POST", MODELS, b"{}", {"x-api-key": KEY})
    assert (refused.status, refused.headers["Allow"]) == (405, "GET, HEAD")
    assert client.send("DELETE", MODELS).status == 405
    assert client.send("POST", "/api/bundles", b"{}").status == 405
    assert client.send("POST", "/", b"{}").status == 405


def test_pages_of_allowed_origins_may_send_what_clients_send(client: Client) -> None:
    answer = client.get(MODELS, {"Origin": VITE}, "OPTIONS")
    assert answer.status == 204
    allowed = {one.strip() for one in answer.headers["Access-Control-Allow-Headers"].split(",")}
    assert {"Authorization", "Content-Type", "x-api-key", "anthropic-version"} <= allowed
    assert "x-stainless-retry-count" in allowed
    assert client.get(MODELS, {"Origin": VITE, "x-api-key": KEY}).status == 200


def test_an_origin_that_nobody_allowed_is_refused_with_the_key_too(client: Client) -> None:
    headers = {"Origin": "https://evil.example", "x-api-key": KEY}
    assert client.get(MODELS, headers).status == 403
    assert client.get(MODELS, headers, "OPTIONS").status == 403
