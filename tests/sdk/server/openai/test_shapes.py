"""Answers of every kind are as ``/openapi.json`` says; guessed requests seldom lead to them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.sdk.server.client import Client
from tests.sdk.server.openai.conftest import KEY, MODEL
from tests.sdk.server.openai.test_chat import FORECAST, QUESTION, STRAIGHT

BEARER = {"Authorization": f"Bearer {KEY}"}
CALLS = {**STRAIGHT, "seed": 1, "tools": [FORECAST], "tool_choice": "required"}
SHORT = {"model": MODEL, "max_tokens": 3}
LIKELY = {"logprobs": True, "top_logprobs": 2}


@pytest.fixture(scope="module")
def document(raw: Client) -> Any:
    return json.loads(raw.get("/openapi.json", BEARER).body)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {**SHORT, "messages": QUESTION}),
        ("/v1/chat/completions", {**SHORT, "messages": QUESTION, "n": 2, **LIKELY}),
        ("/v1/chat/completions", CALLS),
        ("/v1/chat/completions",
         {**SHORT, "messages": QUESTION, "chat_template_kwargs": {"enable_thinking": True}}),
        ("/v1/completions", {**SHORT, "prompt": ["a", "b"], "logprobs": 2}),
        ("/v1/completions", {**SHORT, "prompt": [70, 71], "echo": True}),
        ("/v1/responses", {"model": MODEL, "max_output_tokens": 3, "input": "a"}),
        ("/v1/chat/completions", {"model": "other", "messages": QUESTION}),
        ("/v1/models", None),
        (f"/v1/models/{MODEL}", None),
        ("/v1/models/other", None),
    ],
)  # fmt: skip
def test_an_answer_is_as_the_document_says(
    raw: Client, document: Any, path: str, body: dict[str, Any] | None
) -> None:
    answer = raw.get(path, BEARER) if body is None else raw.post(path, body, BEARER)
    described = document["paths"][path if path in document["paths"] else "/v1/models/{name}"]
    response = described["get" if body is None else "post"]["responses"][str(answer.status)]
    schema = response["content"]["application/json"]["schema"]
    whole = {**schema, "components": document["components"]}
    Draft202012Validator(whole).validate(json.loads(answer.body))
