"""`GET /v1/models`, and what there is not."""

from __future__ import annotations

import json

import pytest
from openai import NotFoundError, OpenAI

from edgewise import Engine
from tests.sdk.server.client import Client
from tests.sdk.server.openai.conftest import KEY, MODEL

BEARER = {"Authorization": f"Bearer {KEY}"}


def test_models_are_listed_with_what_is_known_of_them(client: OpenAI, engine: Engine) -> None:
    [model] = client.models.list().data
    assert (model.id, model.object, model.owned_by) == (MODEL, "model", "edgewise")
    more = model.model_extra or {}
    assert more["context_length"] == more["max_model_len"] == engine.context
    assert (more["family"], more["quantization"]) == ("llama", "q4")
    assert more["parameters"] > 0
    assert more["size"] > 0
    assert {"completion", "chat", "tools", "embedding"} <= set(more["capabilities"])
    assert client.models.retrieve(MODEL) == model


def test_a_model_that_is_not_there_is_named(client: OpenAI) -> None:
    for name in ("other", "org/model", "x" * 200):
        with pytest.raises(NotFoundError) as raised:
            client.models.retrieve(name)
        assert raised.value.code == "model_not_found"
        assert name[:50] in str(raised.value)


@pytest.mark.parametrize("path", ["/v1/images/generations", "/v1/audio/speech", "/v1/files", "/v1"])
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_what_is_no_part_of_the_api_is_said_in_its_words(
    raw: Client, path: str, method: str
) -> None:
    headers = {**BEARER, "Content-Type": "application/json"}
    answer = raw.send(method, path, b"{}" if method == "POST" else None, headers)
    assert answer.status == 404
    error = json.loads(answer.body)["error"]
    assert error["code"] == "input.path"
    assert f"{method} {path}" in error["message"]


def test_forms_of_other_pages_are_refused(raw: Client) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        body = json.dumps({"model": MODEL, "prompt": "a"}).encode()
        headers = {**BEARER, "Content-Type": kind, "Sec-Fetch-Site": "cross-site"}
        assert raw.send("POST", "/v1/completions", body, headers).status == 415
    origin = {"Origin": "https://evil.example", **BEARER}
    assert raw.post("/v1/completions", {"model": MODEL, "prompt": "a"}, origin).status == 403
